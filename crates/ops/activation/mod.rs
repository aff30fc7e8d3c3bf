//! `activation.*`: gated and plain activations.

mod gated;
pub mod gelu_and_mul;
pub mod gelu_quick;
pub mod gelu_tanh_and_mul;
pub mod relu2;
pub mod silu_and_mul;
pub mod silu_and_mul_quant;
pub mod softcap;
mod unary;

pub use gelu_and_mul::{GeluAndMul, gelu_and_mul, gelu_and_mul_into};
pub use gelu_quick::{GeluQuick, gelu_quick, gelu_quick_into};
pub use gelu_tanh_and_mul::{GeluTanhAndMul, gelu_tanh_and_mul, gelu_tanh_and_mul_into};
pub use relu2::{Relu2, relu2, relu2_into};
pub use silu_and_mul::{SiluAndMul, silu_and_mul, silu_and_mul_into};
pub use silu_and_mul_quant::{SiluAndMulQuant, silu_and_mul_quant, silu_and_mul_quant_into};
pub use softcap::{Softcap, softcap};

use crate::Tolerance;
use kernels_core::Key;

/// Inputs at the ends of the exponential's range and beyond.
const SPECIAL: [f32; 9] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 88.0, -88.0, -200.0, 1e-30];

/// Arguments of an exponential up to some tens are rounded to f32; far below zero, results below the smallest
/// normal f32 need not be exact.
fn tolerance(key: Key) -> Tolerance {
    Tolerance { abs: 1e-30, ..Tolerance::rounded(key, 1.01, 1e-5) }.at_least_subnormal(key)
}
