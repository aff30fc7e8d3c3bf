//! `layernorm.*`: normalisation over the last dimension.

mod fused_add_rmsnorm;
mod rmsnorm;

pub use fused_add_rmsnorm::{FusedAddRmsNorm, fused_add_rmsnorm};
pub use rmsnorm::{RmsNorm, rmsnorm, rmsnorm_into};
