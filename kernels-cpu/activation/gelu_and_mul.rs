//! `activation.gelu_and_mul`. One pass: 2 loads, a normal distribution function and 1 store a vector.

use super::map::{Function, activation};
use crate::isa::{Elem, Isa};
use crate::normal::normal_cdf_for;
use kernels_ops::activation::GeluAndMul;

activation!(GeluAndMul, gated(Gelu));

struct Gelu;

impl Function for Gelu {
    #[inline(always)]
    unsafe fn of<S: Isa, T: Elem>(&self, x: S::V) -> S::V {
        // SAFETY: passed on.
        unsafe { S::mul(x, normal_cdf_for::<S, T>(x)) }
    }
}
