//! `layernorm.*`

mod fused_add_rmsnorm;
mod gemma_fused_add_rmsnorm;
mod gemma_rmsnorm;
#[allow(clippy::module_inception)]
mod layernorm;
mod qk_norm_rope;
mod rmsnorm;
