//! `layernorm.fused_add_rmsnorm`: residual += x; x = residual / sqrt(mean(residual²) + eps) · w, in place, in one
//! pass (Zhang & Sennrich 2019).

super::fused_add::fused_op! {
    /// Residual addition and RMS normalisation in one pass, both in place.
    FusedAddRmsNorm = "layernorm.fused_add_rmsnorm"; fn fused_add_rmsnorm; offset 0.0
}
