//! `elementwise.copy`. By the size of the elements, whatever they mean.

use super::walk::Walk;
use crate::isa::Isa;
use crate::pool::Plan;
use crate::variants::variants;
use kernels_core::Ctx;
use kernels_ops::elementwise::Copy;
use std::ops::Range;

variants!(unsafe {
    op: Copy,
    formats: Formats::same(DTypeSet::PLAIN),
    plan: plan,
    part: part,
});

fn walk(a: &Copy<'_>) -> Walk<2> {
    Walk::new([a.x.layout(), a.out.layout()])
}

fn plan(a: &Copy<'_>) -> Plan {
    walk(a).plan()
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(_: &Ctx, a: &Copy<'_>, units: Range<usize>, _: usize) {
    // SAFETY: passed on; the pointers are aligned for elements of that size.
    unsafe {
        match a.x.dtype().block_bytes() {
            1 => runs::<u8>(a, units),
            2 => runs::<u16>(a, units),
            4 => runs::<u32>(a, units),
            _ => runs::<u64>(a, units),
        }
    }
}

/// # Safety
/// As for [`part`], with elements of the size of `T`.
#[inline(always)]
unsafe fn runs<T: std::marker::Copy>(a: &Copy<'_>, units: Range<usize>) {
    let walk = walk(a);
    for u in units {
        let run = walk.run(u);
        // SAFETY: the run is inside both tensors, which do not overlap.
        unsafe {
            let (from, to) = (a.x.as_ptr::<T>().add(run.start[0]), a.out.as_mut_ptr::<T>().add(run.start[1]));
            if run.step == [1, 1] {
                to.copy_from_nonoverlapping(from, run.len);
                continue;
            }
            for i in 0..run.len {
                to.add(i * run.step[1]).write(*from.add(i * run.step[0]));
            }
        }
    }
}
