//! `layernorm.gemma_fused_add_rmsnorm`: residual += x; x = residual / sqrt(mean(residual²) + eps) · (1 + w), in
//! place, in one pass (Gemma Team 2024).

super::fused_add::fused_op! {
    /// Residual addition and Gemma's RMS normalisation (1 + weight) in one pass, both in place.
    GemmaFusedAddRmsNorm = "layernorm.gemma_fused_add_rmsnorm"; fn gemma_fused_add_rmsnorm; offset 1.0
}
