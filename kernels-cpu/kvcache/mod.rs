//! `kvcache.*`

mod qk_norm_rope_store;
mod reshape_and_cache;
mod rope_and_cache;
mod store;
