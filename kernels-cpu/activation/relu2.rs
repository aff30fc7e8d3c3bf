//! `activation.relu2`. One pass: a load and a store a vector.

use super::map::{Function, activation};
use crate::isa::{Elem, Isa};
use kernels_ops::activation::Relu2;

activation!(Relu2, plain(SquaredRelu));

struct SquaredRelu;

impl Function for SquaredRelu {
    #[inline(always)]
    unsafe fn of<S: Isa, T: Elem>(&self, x: S::V) -> S::V {
        // SAFETY: passed on. NaN is not below 0, and stays.
        unsafe { S::select_lt(x, S::splat(0.0), S::splat(0.0), S::mul(x, x)) }
    }
}
