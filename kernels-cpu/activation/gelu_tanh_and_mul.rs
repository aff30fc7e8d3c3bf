//! `activation.gelu_tanh_and_mul`. One pass: 2 loads, a sigmoid and 1 store a vector.

use super::map::{Function, activation};
use crate::isa::{Elem, Isa};
use crate::math::sigmoid_for;
use kernels_ops::activation::GeluTanhAndMul;

activation!(GeluTanhAndMul, gated(GeluTanh));

struct GeluTanh;

impl Function for GeluTanh {
    #[inline(always)]
    unsafe fn of<S: Isa, T: Elem>(&self, x: S::V) -> S::V {
        // 2 √(2/π), and that times 0.044715.
        const OUTER: f32 = 1.595_769_2;
        const INNER: f32 = 0.071_354_814;
        // SAFETY: passed on.
        unsafe {
            let inner = S::mul(x, S::fma(S::mul(x, x), S::splat(INNER), S::splat(OUTER)));
            S::mul(x, sigmoid_for::<S, T>(inner))
        }
    }
}
