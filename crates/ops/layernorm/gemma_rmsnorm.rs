//! `layernorm.gemma_rmsnorm`: y = x / sqrt(mean(x²) + eps) · (1 + w) over the last dimension (Gemma Team 2024; a
//! GGUF file's weights hold the 1 already and take `rmsnorm`).

super::rms::rms_op! {
    /// Root-mean-square normalisation times (1 + weight), the sum in f32.
    GemmaRmsNorm = "layernorm.gemma_rmsnorm"; fn gemma_rmsnorm, gemma_rmsnorm_into; offset 1.0
}
