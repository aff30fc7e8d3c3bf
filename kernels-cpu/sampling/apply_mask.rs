//! `sampling.apply_mask`. A word of the mask at a time: a word that allows everything is passed over.

use crate::isa::{Elem, Isa};
use crate::pool::Plan;
use crate::variants::{variants, with_float};
use kernels_core::Ctx;
use kernels_ops::sampling::ApplyMask;
use std::ops::Range;

variants!(unsafe { op: ApplyMask, formats: Formats::same(DTypeSet::FLOAT), plan: plan, part: part });

/// A unit is a row.
fn plan(a: &ApplyMask<'_>) -> Plan {
    Plan { units: a.logits.dim(0), work: a.logits.layout().elements() }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(_: &Ctx, a: &ApplyMask<'_>, units: Range<usize>, _: usize) {
    let (Some(x), Some(m)) = (a.logits.rows(), a.mask.rows()) else { return };
    with_float!(a.logits.dtype(), T => {
        for r in units {
            // SAFETY: the row is inside the logits, and has a word for each 32 of them.
            unsafe {
                let (row, words) = (a.logits.as_mut_ptr::<T>().add(r * x.stride), a.mask.as_ptr::<u32>().add(r * m.stride));
                for word in 0..x.cols.div_ceil(32) {
                    forbid::<S, T>(row.add(32 * word), !*words.add(word), 32.min(x.cols - 32 * word));
                }
            }
        }
    })
}

/// −∞ where a bit of `forbidden` is set.
///
/// # Safety
/// `S`'s features; `row` valid for `n` elements, at most 32.
#[inline(always)]
unsafe fn forbid<S: Isa, T: Elem>(row: *mut T, forbidden: u32, n: usize) {
    // SAFETY: every offset is below n.
    unsafe {
        if forbidden == u32::MAX && n == 32 {
            for i in 0..32 / S::W {
                T::store::<S>(row.add(i * S::W), S::splat(f32::NEG_INFINITY));
            }
            return;
        }
        let mut left = if n == 32 { forbidden } else { forbidden & ((1 << n) - 1) };
        while left != 0 {
            row.add(left.trailing_zeros() as usize).write(T::from_f32(f32::NEG_INFINITY));
            left &= left - 1;
        }
    }
}
