//! `embeddings.*`

mod embedding;
pub mod rope;
