//! `elementwise.scale`.

use super::apply::{Function, apply};
use super::walk::Walk;
use crate::isa::Isa;
use crate::pool::Plan;
use crate::variants::{variants, with_float};
use kernels_core::Ctx;
use kernels_ops::elementwise::Scale;
use std::ops::Range;

variants!(unsafe { op: Scale, formats: Formats::same(DTypeSet::FLOAT), plan: plan, part: part });

/// The second input is the first again.
fn walk(a: &Scale<'_>) -> Walk<3> {
    Walk::new([a.x.layout(), a.x.layout(), a.out.layout()])
}

fn plan(a: &Scale<'_>) -> Plan {
    walk(a).plan()
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(_: &Ctx, a: &Scale<'_>, units: Range<usize>, _: usize) {
    let walk = walk(a);
    with_float!(a.x.dtype(), T => {
        for u in units {
            let (x, out) = (a.x.as_ptr::<T>(), a.out.as_mut_ptr::<T>());
            // SAFETY: the run is inside both.
            unsafe { apply::<S, T, _>(x, x, out, &walk.run(u), &Times(a.factor)) };
        }
    })
}

struct Times(f32);

impl Function for Times {
    #[inline(always)]
    unsafe fn of<S: Isa>(&self, a: S::V, _: S::V) -> S::V {
        // SAFETY: passed on.
        unsafe { S::mul(a, S::splat(self.0)) }
    }
    #[inline(always)]
    fn scalar(&self, a: f32, _: f32) -> f32 {
        a * self.0
    }
}
