//! `embeddings.*`: token rows and rotary positions.

mod embedding;
mod rope;

pub use embedding::{Embedding, embedding, embedding_into};
pub use rope::{Rope, cos_sin_cache, rope};
