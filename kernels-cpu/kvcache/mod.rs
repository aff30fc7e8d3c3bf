//! `kvcache.*`

mod reshape_and_cache;
mod rope_and_cache;
mod store;
