//! `embeddings.*`: token rows and rotary positions.

pub mod embedding;
pub mod rope;

pub use embedding::{Embedding, embedding, embedding_into};
pub use rope::{Rope, cos_sin_cache, cos_sin_cache_scaled, position, rope};
