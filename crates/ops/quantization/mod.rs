//! `quantization.*`
pub mod blocks;
