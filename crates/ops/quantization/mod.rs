//! `quantization.*`, and the GGUF block formats.

pub mod blocks;
mod dequantize_gguf;

pub use dequantize_gguf::{DequantizeGguf, dequantize_gguf, dequantize_gguf_into};
