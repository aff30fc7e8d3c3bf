//! `kvcache.*`

mod reshape_and_cache;
