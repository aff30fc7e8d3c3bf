//! `embeddings.*` on GPUs.

pub mod embedding;
pub mod rope;
