//! `layernorm.*`

mod add_rmsnorm_quant;
mod fused_add_rmsnorm;
mod gemma_fused_add_rmsnorm;
mod gemma_rmsnorm;
#[allow(clippy::module_inception)]
mod layernorm;
pub mod qk_norm_rope;
mod rmsnorm;
