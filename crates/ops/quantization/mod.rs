//! `quantization.*`, and the GGUF block formats.

pub mod blocks;
pub mod dequantize_gguf;
mod dynamic;
pub mod per_token_group_quant;
pub mod per_token_quant_fp8;
pub mod per_token_quant_int8;

pub use dequantize_gguf::{DequantizeGguf, dequantize_gguf, dequantize_gguf_into};
pub use dynamic::{FLOOR, largest};
pub(crate) use dynamic::{check as check_dynamic, check_outputs, computed_tolerance, quantise};
pub use per_token_group_quant::{PerTokenGroupQuant, per_token_group_quant, per_token_group_quant_into};
pub use per_token_quant_fp8::{PerTokenQuantFp8, per_token_quant_fp8, per_token_quant_fp8_into};
pub use per_token_quant_int8::{PerTokenQuantInt8, per_token_quant_int8, per_token_quant_int8_into};
