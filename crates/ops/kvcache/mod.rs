//! `kvcache.*`: the paged key and value cache.

mod reshape_and_cache;

pub use reshape_and_cache::{ReshapeAndCache, reshape_and_cache};
