//! `elementwise.add`.

use super::apply::{Function, binary};
use crate::isa::Isa;
use kernels_ops::elementwise::Add;

binary!(Add, Sum);

struct Sum;

impl Function for Sum {
    #[inline(always)]
    unsafe fn of<S: Isa>(&self, a: S::V, b: S::V) -> S::V {
        // SAFETY: passed on.
        unsafe { S::add(a, b) }
    }
    #[inline(always)]
    fn scalar(&self, a: f32, b: f32) -> f32 {
        a + b
    }
}
