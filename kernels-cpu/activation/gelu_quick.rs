//! `activation.gelu_quick`. One pass: a load, a sigmoid and a store a vector.

use super::map::{Function, activation};
use crate::isa::{Elem, Isa};
use crate::math::sigmoid_for;
use kernels_ops::activation::GeluQuick;

activation!(GeluQuick, plain(GeluQuickly));

struct GeluQuickly;

impl Function for GeluQuickly {
    #[inline(always)]
    unsafe fn of<S: Isa, T: Elem>(&self, x: S::V) -> S::V {
        // SAFETY: passed on.
        unsafe { S::mul(x, sigmoid_for::<S, T>(S::mul(x, S::splat(1.702)))) }
    }
}
