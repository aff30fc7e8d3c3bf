//! x times weight rows of floats: each weight is read once, streamed through dot products where x has few rows, and
//! turned for outer products where it has many.

use super::blocked::{self, blocked};
use super::input::Input;
pub use super::input::is_cut;
use super::line::line;
use super::output::Output;
use super::panel::panel;
use super::tile::NR;
use super::times::Times;
use crate::isa::{Elem, Isa};
use crate::pool::Plan;
use kernels_core::{Ctx, Rows, View};
use std::ops::Range;

/// Rows of a weight as they are, or in panels of two vectors' columns ([`super::turn::pack`]).
#[derive(Clone, Copy)]
pub struct Weight<W> {
    pub ptr: *const W,
    pub rows: Rows,
    pub packed: bool,
}

/// Weight rows of a unit of work.
pub fn unit(cut: bool) -> usize {
    if cut { blocked::UNIT } else { NR }
}

/// How a product with `rows` weight rows, `weights` numbers together, splits.
pub fn plan(x: &View<'_>, cut: bool, rows: usize, weights: usize) -> Plan {
    let x_rows = x.rows().map_or(0, |r| r.rows);
    Plan { units: rows.div_ceil(unit(cut)), work: x_rows.max(2) / 2 * weights }
}

/// Bytes of scratch for x and for each thread's panels.
pub fn bytes(x: &View<'_>, cut: bool, threads: usize) -> usize {
    Input::bytes(x, cut) + threads * thread_bytes(x, cut)
}

fn thread_bytes(x: &View<'_>, cut: bool) -> usize {
    if cut { 4 * blocked::scratch(x.rows().map_or(0, |r| r.rows)) } else { 0 }
}

/// The scratch of one thread.
pub fn space(ctx: &Ctx, x: &View<'_>, cut: bool, thread: usize) -> *mut f32 {
    ctx.workspace().0.wrapping_add(Input::bytes(x, cut) + thread * thread_bytes(x, cut)).cast()
}

/// All rows of x times the weight rows of `units`.
///
/// # Safety
/// `S`'s features; x is prepared, all rows are inside their tensors, `space` is this thread's, and nobody else works
/// on these units.
#[inline(always)]
pub unsafe fn product<S: Isa, W: Elem, O: Elem, T: Times>(
    x: Input,
    weight: Weight<W>,
    units: Range<usize>,
    out: Output<O>,
    space: *mut f32,
) {
    // SAFETY: passed on.
    unsafe {
        match x.cut {
            false => stream::<S, W, O, T>(x, weight, units, out),
            true => blocked::<S, W, T>(x, weight, units, out, space),
        }
    }
}

/// # Safety
/// As for [`product`].
#[inline(always)]
unsafe fn stream<S: Isa, W: Elem, O: Elem, T: Times>(
    x: Input,
    Weight { ptr: weight, rows, .. }: Weight<W>,
    units: Range<usize>,
    out: Output<O>,
) {
    if x.rows == 1 {
        for n in units.start * NR..rows.rows.min(units.end * NR) {
            // SAFETY: the row is inside the weight, and its column inside the output.
            unsafe { line::<S, W, O, T>(x, weight.add(n * rows.stride), n, out) };
        }
        return;
    }
    for u in units {
        let n = u * NR;
        let count = NR.min(rows.rows - n);
        let mut w = [weight; NR];
        for j in 0..NR {
            // SAFETY: the row is inside the weight.
            w[j] = unsafe { weight.add((n + j.min(count - 1)) * rows.stride) };
        }
        // SAFETY: all rows are inside their tensors.
        unsafe { panel::<S, W, O, T>(x, (w, NR * rows.stride), (n, count), out) };
    }
}
