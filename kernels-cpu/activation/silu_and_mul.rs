//! `activation.silu_and_mul`. One pass: 2 loads, a sigmoid and 1 store a vector.

use super::map::{Function, activation};
use crate::isa::{Elem, Isa};
use crate::math::silu;
use kernels_ops::activation::SiluAndMul;

activation!(SiluAndMul, gated(Silu));

pub struct Silu;

impl Function for Silu {
    #[inline(always)]
    unsafe fn of<S: Isa, T: Elem>(&self, x: S::V) -> S::V {
        // SAFETY: passed on.
        unsafe { silu::<S, T>(x) }
    }
}
