//! `quantization.*` on GPUs.

pub mod dequantize;
pub mod dynamic;
