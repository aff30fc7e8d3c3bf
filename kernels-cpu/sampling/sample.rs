//! `sampling.sample`. Greedy: one pass. A draw: exponentials into scratch, and, where a filter asks for the
//! most probable ones, a histogram over the exponentials' leading bits finds the border without sorting; only
//! the bin that holds the border is sorted.

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

/// What is kept: weights above the border's, and of equals the ids up to the border's.
#[derive(Clone, Copy)]
struct Border {
    weight: f32,
    id: usize,
}

impl Border {
    fn keeps(self, weight: f32, id: usize) -> bool {
        weight > self.weight || (weight == self.weight && id <= self.id)
    }
}

/// # Safety
/// `ids` is valid for as many entries as there are weights.
unsafe fn draw(a: &Sample<'_>, w: &[f32], ids: *mut u32, total: f64, uniform: f64) -> usize {
    let mut border = Border { weight: 0.0, id: usize::MAX };
    let mut kept = total;
    if (a.top_k > 0 && a.top_k < w.len()) || a.top_p < 1.0 {
        // SAFETY: passed on.
        border = unsafe { find_border(a, w, ids) };
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

/// Bins by the leading bits of a weight in 0..=1: 8 of the exponent, 3 of the mantissa.
const BINS: usize = (1f32.to_bits() >> SHIFT) as usize + 1;
const SHIFT: u32 = 20;

/// The last one kept by top-k and then top-p.
///
/// # Safety
/// As for [`draw`].
unsafe fn find_border(a: &Sample<'_>, w: &[f32], ids: *mut u32) -> Border {
    let mut counts = [0u32; BINS];
    let mut sums = [0f64; BINS];
    let bin = |w: f32| ((w.to_bits() >> SHIFT) as usize).min(BINS - 1);
    for weight in w {
        let b = bin(*weight);
        counts[b] += 1;
        sums[b] += f64::from(*weight);
    }
    let k = if a.top_k == 0 { w.len() } else { a.top_k.min(w.len()) };
    // From the most probable down: the bin in which the k-th is.
    let mut at = BINS - 1;
    let (mut count, mut sum) = (0usize, 0f64);
    while count + (counts[at] as usize) < k {
        count += counts[at] as usize;
        sum += sums[at];
        at -= 1;
    }
    // SAFETY: passed on.
    let members = unsafe { sorted_bin(w, ids, at, &bin, counts[at] as usize) };
    let members = &members[..k - count];
    let last = |members: &[u32]| members.last().map(|i| Border { weight: w[*i as usize], id: *i as usize });
    let by_count = last(members).unwrap_or(Border { weight: 0.0, id: usize::MAX });
    if a.top_p >= 1.0 {
        return by_count;
    }
    let kept = sum + members.iter().map(|i| f64::from(w[*i as usize])).sum::<f64>();
    let target = f64::from(a.top_p) * kept;
    let (by_count_bin, mut at, mut sum) = (at, BINS - 1, 0f64);
    while at > by_count_bin && sum + sums[at] < target {
        sum += sums[at];
        at -= 1;
    }
    let limit = if at == by_count_bin { k - count } else { counts[at] as usize };
    // SAFETY: passed on.
    let members = unsafe { sorted_bin(w, ids, at, &bin, counts[at] as usize) };
    for i in &members[..limit] {
        sum += f64::from(w[*i as usize]);
        if sum >= target {
            return Border { weight: w[*i as usize], id: *i as usize };
        }
    }
    last(&members[..limit]).unwrap_or(by_count)
}

/// The ids of one bin, the most probable first, of equals the lowest first.
///
/// # Safety
/// `ids` is valid for `count` entries, and nobody else has a slice of it in use.
unsafe fn sorted_bin<'a>(
    w: &[f32],
    ids: *mut u32,
    at: usize,
    bin: &impl Fn(f32) -> usize,
    count: usize,
) -> &'a [u32] {
    let mut n = 0;
    for (i, weight) in w.iter().enumerate() {
        if bin(*weight) == at && n < count {
            // SAFETY: n is below count.
            unsafe { ids.add(n).write(i as u32) };
            n += 1;
        }
    }
    // SAFETY: n entries were just written.
    let members = unsafe { std::slice::from_raw_parts_mut(ids, n) };
    members.sort_unstable_by(|a, b| w[*b as usize].total_cmp(&w[*a as usize]).then(a.cmp(b)));
    members
}
