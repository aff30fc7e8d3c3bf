//! `gemm.*` on GPUs.

pub mod product;
pub mod scaled;
