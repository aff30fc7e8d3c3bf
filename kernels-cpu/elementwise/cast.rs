//! `elementwise.cast`.

use super::walk::{Run, Walk};
use crate::isa::{Elem, Isa};
use crate::pool::Plan;
use crate::quantization::rows::convert;
use crate::variants::{variants, with_cache, with_float};
use kernels_core::{Ctx, DType, F8E4M3};
use kernels_ops::elementwise::Cast;
use std::ops::Range;

variants!(unsafe {
    op: Cast,
    formats: Formats::mixed(
        DTypeSet::FLOAT.union(DTypeSet::of(&[::kernels_core::DType::F8E4M3])),
        DTypeSet::FLOAT.union(DTypeSet::EIGHT_BIT),
    ),
    plan: plan,
    part: part,
});

fn walk(a: &Cast<'_>) -> Walk<2> {
    Walk::new([a.x.layout(), a.out.layout()])
}

fn plan(a: &Cast<'_>) -> Plan {
    walk(a).plan()
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(_: &Ctx, a: &Cast<'_>, units: Range<usize>, _: usize) {
    let walk = walk(a);
    with_cache!(a.x.dtype(), A => for u in units {
        let (x, run) = (a.x.as_ptr::<A>(), walk.run(u));
        // SAFETY: the run is inside both.
        unsafe {
            match a.out.dtype() {
                DType::F8E4M3 => along::<S, A, F8E4M3>(x, a.out.as_mut_ptr(), &run),
                float => with_float!(float, B => along::<S, A, B>(x, a.out.as_mut_ptr(), &run)),
            }
        }
    })
}

/// # Safety
/// `S`'s features; the run is inside the tensors, which begin at the pointers.
#[inline(always)]
unsafe fn along<S: Isa, A: Elem, B: Elem>(from: *const A, to: *mut B, run: &Run<2>) {
    // SAFETY: every offset is below the run's length.
    unsafe {
        let (from, to) = (from.add(run.start[0]), to.add(run.start[1]));
        if run.step == [1, 1] || run.len == 1 {
            return convert::<S, A, B>(from, to, run.len);
        }
        for i in 0..run.len {
            to.add(i * run.step[1]).write(B::from_f32((*from.add(i * run.step[0])).to_f32()));
        }
    }
}
