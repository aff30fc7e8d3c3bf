//! `activation.silu_and_mul`. One pass: 2 loads, a sigmoid and 1 store a vector.

use crate::isa::{Elem, Isa, load_tail, store_tail};
use crate::math::silu;
use crate::pool::Plan;
use crate::variants::{variants, with_float};
use kernels_core::Ctx;
use kernels_ops::activation::SiluAndMul;
use std::ops::Range;

variants!(unsafe { op: SiluAndMul, formats: Formats::same(DTypeSet::FLOAT), plan: plan, part: part });

/// A row of one token is cut too: units are pieces of this many columns.
const PIECE: usize = 2048;

fn plan(a: &SiluAndMul<'_>) -> Plan {
    let Some(o) = a.out.rows() else { return Plan { units: 0, work: 0 } };
    // An exponential weighs about as much as touching four elements.
    Plan { units: o.rows * o.cols.div_ceil(PIECE), work: 4 * a.out.layout().elements() }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(_: &Ctx, a: &SiluAndMul<'_>, units: Range<usize>, _: usize) {
    let (Some(x), Some(o)) = (a.x.rows(), a.out.rows()) else { return };
    let pieces = o.cols.div_ceil(PIECE);
    with_float!(a.x.dtype(), T => {
        for u in units {
            let (r, start) = (u / pieces, u % pieces * PIECE);
            // SAFETY: the piece is inside row r of both tensors.
            unsafe {
                let gate = a.x.as_ptr::<T>().add(r * x.stride + start);
                let out = a.out.as_mut_ptr::<T>().add(r * o.stride + start);
                piece::<S, T>(gate, gate.add(o.cols), out, PIECE.min(o.cols - start));
            }
        }
    })
}

/// # Safety
/// `S`'s features; pointers valid for `n` elements.
#[inline(always)]
unsafe fn piece<S: Isa, T: Elem>(gate: *const T, up: *const T, out: *mut T, n: usize) {
    // SAFETY: every offset is below n.
    unsafe {
        let mut i = 0;
        while i + S::W <= n {
            T::store::<S>(
                out.add(i),
                S::mul(silu::<S, T>(T::load::<S>(gate.add(i))), T::load::<S>(up.add(i))),
            );
            i += S::W;
        }
        if i < n {
            let (g, u) =
                (load_tail::<S, T>(gate.add(i), n - i, 0.0), load_tail::<S, T>(up.add(i), n - i, 0.0));
            store_tail::<S, T>(out.add(i), S::mul(silu::<S, T>(g), u), n - i);
        }
    }
}
