//! `activation.softcap`. One pass, in place.

use super::map::{Function, plain};
use crate::isa::{Elem, Isa};
use crate::math::softcap;
use crate::pool::Plan;
use crate::variants::variants;
use kernels_core::Ctx;
use kernels_ops::activation::Softcap;
use std::ops::Range;

variants!(unsafe { op: Softcap, formats: Formats::same(DTypeSet::FLOAT), plan: plan, part: part });

fn plan(a: &Softcap<'_>) -> Plan {
    super::map::plan(&a.x)
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(_: &Ctx, a: &Softcap<'_>, units: Range<usize>, _: usize) {
    // SAFETY: passed on.
    unsafe { plain::<S, _>(&a.x.as_view(), &a.x, units, Cap(a.cap)) }
}

struct Cap(f32);

impl Function for Cap {
    #[inline(always)]
    unsafe fn of<S: Isa, T: Elem>(&self, x: S::V) -> S::V {
        // SAFETY: passed on.
        unsafe { softcap::<S>(x, S::splat(self.0)) }
    }
}
