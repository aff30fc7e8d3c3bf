//! `kvcache.*`: the paged key and value cache.
//!
//! `[blocks, block_size, num_kv_heads, head_dim]`; slot s is row `s % block_size` of block `s / block_size`.
//! The elements are f32, f16, bf16, or 8 bits wide (i8, f8_e4m3). What is stored is the value divided by
//! `k_scale` or `v_scale`, in f32 and then rounded to the cache's type; the attention ops multiply by the same
//! scales.

mod paged;
pub mod qk_norm_rope_store;
pub mod reshape_and_cache;
pub mod rope_and_cache;

pub use paged::slot;
pub(crate) use paged::{CACHE, check_scales};
pub use qk_norm_rope_store::{QkNormRopeStore, qk_norm_rope_store};
pub use reshape_and_cache::{ReshapeAndCache, reshape_and_cache, reshape_and_cache_scaled};
pub use rope_and_cache::{RopeAndCache, rope_and_cache};
