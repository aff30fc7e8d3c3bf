//! `gemm.*`

mod blocked;
mod fp8_scaled_mm;
#[cfg(target_arch = "x86_64")]
mod gguf_int8;
pub mod input;
#[cfg(target_arch = "x86_64")]
mod int8_many;
mod int8_scaled_mm;
#[cfg(target_arch = "x86_64")]
mod int8_vnni;
mod line;
mod linear;
mod linear_gguf;
pub mod outer;
mod output;
mod panel;
mod product;
pub mod tile;
#[cfg(target_arch = "x86_64")]
mod tiles;
pub mod times;
pub mod turn;
