//! `layernorm.*` on GPUs; `qk_norm_rope` is `rope` with a norm in front.

pub mod add_rmsnorm_quant;
pub mod fused_add;
#[allow(clippy::module_inception)]
pub mod layernorm;
pub mod rms;
pub use crate::embeddings::rope;
