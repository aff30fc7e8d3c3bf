//! `sampling.sample`. Greedy: one pass. A draw from a few (top-k): a second pass finds them, and only theirs are
//! exponentials. Any other draw: exponentials into scratch, and, where a filter asks for the most probable ones, a
//! histogram over the exponentials' leading bits finds the border without sorting; only the bin that holds the border is
//! sorted.

use super::border::{Border, find_border};
use super::softmax::{largest_and_sum, weights};
use super::top::{Entry, Top};
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
                // Greedy takes none, and then this is not looked at.
                let scratch = ctx.workspace().0.wrapping_add(thread * thread_bytes(a));
                let few = Top::of(a.top_k, x.cols).filter(|_| a.temperature > 0.0);
                let (max, sum) = match few {
                    Some(few) => few.maxima::<S, T>(row, scratch),
                    None => largest_and_sum::<S, T>(row, x.cols),
                };
                let id = if sum.is_nan() || !max.is_finite() {
                    ctx.not_a_number(r);
                    -1
                } else if let Some(few) = few {
                    let top = few.largest::<S, T>(row, scratch);
                    draw_few::<S>(a, top, scratch.add(few.bytes()).cast(), max, r) as i32
                } else if a.temperature == 0.0 {
                    first_equal::<S, T>(row, x.cols, max) as i32
                } else {
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

/// A draw from `top`, the largest first; `space` is for two numbers for each.
///
/// # Safety
/// `S`'s features; `space` is valid and nobody else uses it.
#[inline(always)]
unsafe fn draw_few<S: Isa>(
    a: &Sample<'_>,
    top: &mut [Entry],
    space: *mut f32,
    max: f32,
    row: usize,
) -> usize {
    let n = top.len();
    // SAFETY: two parts of the space, of one number for each.
    unsafe {
        for (i, entry) in top.iter().enumerate() {
            space.add(i).write(entry.value);
        }
        weights::<S, f32>(space, space.add(n), n, max, 1.0 / a.temperature);
        for (i, entry) in top.iter_mut().enumerate() {
            entry.value = *space.add(n + i);
        }
    }
    let sum_of = |top: &[Entry]| top.iter().map(|e| f64::from(e.value)).sum::<f64>();
    let mut kept = n;
    if a.top_p < 1.0 {
        let (target, mut sum) = (f64::from(a.top_p) * sum_of(top), 0.0);
        let enough = top.iter().position(|e| {
            sum += f64::from(e.value);
            sum >= target
        });
        kept = enough.map_or(n, |i| i + 1);
    }
    // The largest is 1, so at least it stays.
    kept = top[..kept].iter().take_while(|e| e.value >= a.min_p).count();
    let top = &mut top[..kept];
    top.sort_unstable_by_key(|e| e.id);
    let (target, mut sum) = (uniform(a.seed, row) * sum_of(top), 0.0);
    let chosen = top.iter().find(|e| {
        sum += f64::from(e.value);
        sum > target
    });
    // Only rounding of the sums comes to the last.
    chosen.or(top.last()).map_or(0, |e| e.id as usize)
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
