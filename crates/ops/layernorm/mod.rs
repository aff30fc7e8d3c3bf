//! `layernorm.*`: normalisation over the last dimension.

pub mod add_rmsnorm_quant;
mod fused_add;
pub mod fused_add_rmsnorm;
pub mod gemma_fused_add_rmsnorm;
pub mod gemma_rmsnorm;
#[allow(clippy::module_inception)]
pub mod layernorm;
pub mod qk_norm_rope;
mod rms;
pub mod rmsnorm;

pub use add_rmsnorm_quant::{AddRmsNormQuant, add_rmsnorm_quant, add_rmsnorm_quant_into};
pub use fused_add_rmsnorm::{FusedAddRmsNorm, fused_add_rmsnorm};
pub use gemma_fused_add_rmsnorm::{GemmaFusedAddRmsNorm, gemma_fused_add_rmsnorm};
pub use gemma_rmsnorm::{GemmaRmsNorm, gemma_rmsnorm, gemma_rmsnorm_into};
pub use layernorm::{LayerNorm, layernorm, layernorm_into};
pub use qk_norm_rope::{QkNormRope, qk_norm_rope};
pub(crate) use qk_norm_rope::{check_norms, norm_and_turn_token};
pub use rmsnorm::{RmsNorm, rmsnorm, rmsnorm_into};
