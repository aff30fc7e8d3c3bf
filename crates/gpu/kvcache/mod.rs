//! `kvcache.*` on GPUs.

pub mod reshape_and_cache;
pub mod rope_and_cache;
