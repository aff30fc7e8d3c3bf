//! `activation.*`: gated and plain activations.

mod silu_and_mul;

pub use silu_and_mul::{SiluAndMul, silu_and_mul, silu_and_mul_into};
