//! Loops that the activations share. A function of a vector is a trait and not a closure: closures do not
//! inherit target features.

use crate::isa::{AHEAD, Elem, Isa, load_tail, prefetch, store_tail};
use crate::pool::Plan;
use crate::variants::with_float;
use kernels_core::{View, ViewMut};
use std::ops::Range;

/// A row of one token is cut too: units are pieces of this many columns.
const PIECE: usize = 2048;

/// A function of a vector, to be stored as `T`.
pub trait Function {
    /// # Safety
    /// As for [`Isa`].
    unsafe fn of<S: Isa, T: Elem>(&self, x: S::V) -> S::V;
}

/// An exponential weighs about as much as touching four elements.
pub fn plan(out: &ViewMut<'_>) -> Plan {
    let Some(o) = out.rows() else { return Plan { units: 0, work: 0 } };
    Plan { units: o.rows * o.cols.div_ceil(PIECE), work: 4 * out.layout().elements() }
}

/// Row, first column and length of a unit.
fn unit(u: usize, cols: usize) -> (usize, usize, usize) {
    let pieces = cols.div_ceil(PIECE);
    let start = u % pieces * PIECE;
    (u / pieces, start, PIECE.min(cols - start))
}

/// out = f(gate) · up.
///
/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
pub unsafe fn gated<S: Isa, F: Function>(x: &View<'_>, out: &ViewMut<'_>, units: Range<usize>, f: F) {
    let (Some(from), Some(to)) = (x.rows(), out.rows()) else { return };
    with_float!(x.dtype(), T => {
        for u in units {
            let (r, start, n) = unit(u, to.cols);
            // SAFETY: the piece is inside row r of both tensors, and every offset is below n.
            unsafe {
                let gate = x.as_ptr::<T>().add(r * from.stride + start);
                let out = out.as_mut_ptr::<T>().add(r * to.stride + start);
                gate_row::<S, T, T, F>(gate, gate.add(to.cols), out, n, &f);
            }
        }
    })
}

/// out = f(gate) · up, as `O`.
///
/// # Safety
/// `S`'s features; pointers valid for `n` elements.
#[inline(always)]
pub unsafe fn gate_row<S: Isa, T: Elem, O: Elem, F: Function>(
    gate: *const T,
    up: *const T,
    out: *mut O,
    n: usize,
    f: &F,
) {
    // SAFETY: every offset is below n.
    unsafe {
        let mut i = 0;
        while i + 4 * S::W <= n {
            let mut y = [S::splat(0.0); 4];
            for k in 0..4 {
                let (gate, up) = (gate.add(i + k * S::W), up.add(i + k * S::W));
                // Of two streams that alternate with what is stored, the processor asks for too little by itself.
                prefetch(gate.cast::<u8>().wrapping_add(AHEAD));
                prefetch(up.cast::<u8>().wrapping_add(AHEAD));
                y[k] = S::mul(f.of::<S, O>(T::load::<S>(gate)), T::load::<S>(up));
            }
            for k in 0..4 {
                O::store::<S>(out.add(i + k * S::W), y[k]);
            }
            i += 4 * S::W;
        }
        while i + S::W <= n {
            let y = S::mul(f.of::<S, O>(T::load::<S>(gate.add(i))), T::load::<S>(up.add(i)));
            O::store::<S>(out.add(i), y);
            i += S::W;
        }
        if i < n {
            let (g, u) =
                (load_tail::<S, T>(gate.add(i), n - i, 0.0), load_tail::<S, T>(up.add(i), n - i, 0.0));
            store_tail::<S, O>(out.add(i), S::mul(f.of::<S, O>(g), u), n - i);
        }
    }
}

/// out = f(x); both may be one tensor.
///
/// # Safety
/// As for [`gated`].
#[inline(always)]
pub unsafe fn plain<S: Isa, F: Function>(x: &View<'_>, out: &ViewMut<'_>, units: Range<usize>, f: F) {
    let (Some(from), Some(to)) = (x.rows(), out.rows()) else { return };
    with_float!(x.dtype(), T => {
        for u in units {
            let (r, start, n) = unit(u, to.cols);
            // SAFETY: the piece is inside row r of both tensors, and every offset is below n.
            unsafe {
                let x = x.as_ptr::<T>().add(r * from.stride + start);
                let out = out.as_mut_ptr::<T>().add(r * to.stride + start);
                let mut i = 0;
                while i + S::W <= n {
                    T::store::<S>(out.add(i), f.of::<S, T>(T::load::<S>(x.add(i))));
                    i += S::W;
                }
                if i < n {
                    let v = f.of::<S, T>(load_tail::<S, T>(x.add(i), n - i, 0.0));
                    store_tail::<S, T>(out.add(i), v, n - i);
                }
            }
        }
    })
}

/// Registers an activation: `activation!(SiluAndMul, gated(Silu))`.
macro_rules! activation {
    ($op:ident, $loop:ident($function:expr)) => {
        $crate::variants::variants!(unsafe {
            op: $op,
            formats: Formats::same(DTypeSet::FLOAT),
            plan: plan,
            part: part,
        });

        fn plan(a: &$op<'_>) -> $crate::pool::Plan {
            $crate::activation::map::plan(&a.out)
        }

        /// # Safety
        /// Checked arguments on the host, `S`'s features, and units that nobody else works on.
        #[inline(always)]
        unsafe fn part<S: $crate::isa::Isa>(
            _: &::kernels_core::Ctx,
            a: &$op<'_>,
            units: std::ops::Range<usize>,
            _: usize,
        ) {
            // SAFETY: passed on.
            unsafe { $crate::activation::map::$loop::<S, _>(&a.x, &a.out, units, $function) }
        }
    };
}
pub(super) use activation;
