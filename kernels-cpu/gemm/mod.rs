//! `gemm.*`

mod fp8_scaled_mm;
mod int8_scaled_mm;
mod linear;
mod linear_gguf;
mod panel;
pub mod tile;
