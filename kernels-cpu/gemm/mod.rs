//! `gemm.*`

mod blocked;
mod fp8_scaled_mm;
#[cfg(target_arch = "x86_64")]
mod gguf_int8;
mod input;
mod int8_scaled_mm;
mod linear;
mod linear_gguf;
mod output;
mod panel;
mod product;
pub mod tile;
#[cfg(target_arch = "x86_64")]
mod tiles;
mod turn;
