//! `sampling.sample`. Greedy: one pass. A draw: exponentials into scratch, and, where a filter asks for the
//! most probable ones, a histogram over the exponentials' leading bits finds the border without sorting; only
//! the bin that holds the border is sorted.

use super::border::{Border, find_border};
use super::softmax::{largest_and_sum, weights};
use crate::isa::{Elem, Isa};
use crate::pool::Plan;
use crate::variants::{variants, with_float};
use kernels_core::Ctx;
use kernels_ops::sampling::{Sample, uniform};
use std::ops::Range;

variants!(unsafe {
    op: Sample,
    formats: Formats::same(DTypeSet::FLOAT),
    plan: plan,
    part: part,
    workspace: workspace,
});

fn plan(a: &Sample<'_>) -> Plan {
    Plan { units: a.logits.rows().map_or(0, |r| r.rows), work: 4 * a.logits.layout().elements() }
}

/// For each thread the weights (f32) and the ids of one bin (u32) of a row.
fn workspace(a: &Sample<'_>, threads: usize) -> usize {
    if a.temperature == 0.0 { 0 } else { threads * thread_bytes(a) }
}

fn thread_bytes(a: &Sample<'_>) -> usize {
    (8 * a.logits.dim(1)).next_multiple_of(64)
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &Sample<'_>, units: Range<usize>, thread: usize) {
    let Some(x) = a.logits.rows() else { return };
    with_float!(a.logits.dtype(), T => {
        for r in units {
            // SAFETY: row r is inside the tensors; the workspace has a part for each thread.
            unsafe {
                let row = a.logits.as_ptr::<T>().add(r * x.stride);
                let (max, sum) = largest_and_sum::<S, T>(row, x.cols);
                let id = if sum.is_nan() || !max.is_finite() {
                    ctx.not_a_number(r);
                    -1
                } else if a.temperature == 0.0 {
                    first_equal::<S, T>(row, x.cols, max) as i32
                } else {
                    let scratch = ctx.workspace().0.add(thread * thread_bytes(a));
                    let w = scratch.cast::<f32>();
                    let total = weights::<S, T>(row, w, x.cols, max, 1.0 / a.temperature);
                    let ids = scratch.cast::<u32>().add(x.cols);
                    draw(a, std::slice::from_raw_parts(w, x.cols), ids, total, uniform(a.seed, r)) as i32
                };
                a.ids.as_mut_ptr::<i32>().add(r).write(id);
            }
        }
    })
}

/// # Safety
/// `S`'s features; `row` valid for `n` elements, none of which is above `max`, and one of which is it.
#[inline(always)]
unsafe fn first_equal<S: Isa, T: Elem>(row: *const T, n: usize, max: f32) -> usize {
    let mut i = 0;
    // SAFETY: every offset is below n.
    unsafe {
        while i + 4 * S::W <= n {
            let mut v = [S::splat(max); 4];
            for k in 0..4 {
                v[k] = T::load::<S>(row.add(i + k * S::W));
            }
            if S::largest(S::max(S::max(v[0], v[1]), S::max(v[2], v[3]))) == max {
                break;
            }
            i += 4 * S::W;
        }
        while i + 1 < n && (*row.add(i)).to_f32() != max {
            i += 1;
        }
    }
    i
}

/// # Safety
/// `ids` is valid for as many entries as there are weights.
unsafe fn draw(a: &Sample<'_>, w: &[f32], ids: *mut u32, total: f64, uniform: f64) -> usize {
    let mut border = Border::ALL;
    let mut kept = total;
    if (a.top_k > 0 && a.top_k < w.len()) || a.top_p < 1.0 {
        // SAFETY: passed on.
        border = unsafe { find_border(a.top_k, f64::from(a.top_p), w, ids) };
        kept = f64::NAN;
    }
    if a.min_p > border.weight {
        border = Border { weight: a.min_p, id: usize::MAX };
        kept = f64::NAN;
    }
    if kept.is_nan() {
        kept = w.iter().enumerate().filter(|(i, w)| border.keeps(**w, *i)).map(|(_, w)| f64::from(*w)).sum();
    }
    let target = uniform * kept;
    let (mut sum, mut last) = (0.0, 0);
    for (i, weight) in w.iter().enumerate() {
        if border.keeps(*weight, i) {
            sum += f64::from(*weight);
            last = i;
            if sum > target {
                return i;
            }
        }
    }
    // Only rounding of the sums comes here.
    last
}
