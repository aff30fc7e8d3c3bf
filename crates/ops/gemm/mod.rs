//! `gemm.*`: products with a weight matrix of rows `[out_features, in_features]`.

pub mod fp8_scaled_mm;
pub mod int8_activations;
pub mod int8_scaled_mm;
pub mod linear;
pub mod linear_gguf;
mod product;
mod scaled;

pub use fp8_scaled_mm::{Fp8ScaledMm, fp8_scaled_mm, fp8_scaled_mm_into};
pub use int8_scaled_mm::{Int8ScaledMm, int8_scaled_mm, int8_scaled_mm_into};
pub use linear::{Linear, linear, linear_into, prepack_linear};
pub use linear_gguf::{LinearGguf, linear_gguf, linear_gguf_into};
pub use scaled::rows_are_aligned;
