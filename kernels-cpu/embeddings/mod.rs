//! `embeddings.*`

mod embedding;
mod rope;
