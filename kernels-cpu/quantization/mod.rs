//! `quantization.*`, and rows of blocks for other ops.

pub mod blocks;
mod dequantize_gguf;
pub mod dynamic;
mod per_token_group_quant;
mod per_token_quant_fp8;
mod per_token_quant_int8;
pub mod rows;
