//! `quantization.*`, and rows of blocks for other ops.

pub mod blocks;
mod dequantize_gguf;
pub mod rows;
