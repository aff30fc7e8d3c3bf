//! `gemm.*`: products with a weight matrix of rows `[out_features, in_features]`.

mod linear;
mod linear_gguf;
mod product;

pub use linear::{Linear, linear, linear_into};
pub use linear_gguf::{LinearGguf, linear_gguf, linear_gguf_into};
