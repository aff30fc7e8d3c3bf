//! `embeddings.*`: token rows and rotary positions.

mod embedding;
pub(crate) mod rope;

pub use embedding::{Embedding, embedding, embedding_into};
pub use rope::{Rope, cos_sin_cache, cos_sin_cache_scaled, rope};
