//! `layernorm.rmsnorm`: y = x / sqrt(mean(x²) + eps) · w over the last dimension (Zhang & Sennrich 2019).

super::rms::rms_op! {
    /// Root-mean-square normalisation times a weight.
    RmsNorm = "layernorm.rmsnorm"; fn rmsnorm, rmsnorm_into; offset 0.0
}
