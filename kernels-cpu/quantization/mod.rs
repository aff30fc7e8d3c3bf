//! `quantization.*`, and rows of blocks for other ops.

mod blocks;
mod dequantize_gguf;
pub mod rows;
