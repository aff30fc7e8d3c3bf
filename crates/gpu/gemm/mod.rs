//! `gemm.*` on GPUs.

pub mod gguf_int8;
pub mod product;
pub mod scaled;
pub mod wgmma;
