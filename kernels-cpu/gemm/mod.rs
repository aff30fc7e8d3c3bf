//! `gemm.*`

mod linear;
mod linear_gguf;
mod panel;
pub mod tile;
