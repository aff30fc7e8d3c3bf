//! `gemm.int8_scaled_mm`. Tiles of dot products along the dense dimension of both matrices: i8 widened to i16
//! where it is loaded, pairs of products added into i32. Exact.

use super::tile::NR;
use crate::isa::{Elem, Isa};
use crate::pool::Plan;
use crate::variants::{variants, with_float};
use kernels_core::{Ctx, Rows};
use kernels_ops::gemm::Int8ScaledMm;
use std::ops::Range;

variants!(unsafe {
    op: Int8ScaledMm,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::of(&[::kernels_core::DType::I8])),
    plan: plan,
    part: part,
});

/// Rows of `a` that stay in a core's L2 (at 4096 columns 1 MiB) while the rows of `b` pass over them.
const BLOCK: usize = 256;

fn plan(a: &Int8ScaledMm<'_>) -> Plan {
    Plan { units: a.b.dim(0).div_ceil(NR), work: a.a.dim(0).max(4) / 4 * a.b.layout().elements() }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(_: &Ctx, a: &Int8ScaledMm<'_>, units: Range<usize>, _: usize) {
    let (Some(x), Some(w)) = (a.a.rows(), a.b.rows()) else { return };
    with_float!(a.out.dtype(), O => {
        let mut start = 0;
        while start < x.rows {
            let end = x.rows.min(start + BLOCK);
            for u in units.clone() {
                let mut m = start;
                // SAFETY: m + MR never passes the end; the rows of b are inside it.
                unsafe {
                    while S::W == 16 && m + 4 <= end {
                        step::<S, O, 4>(a, (x, w), m, u * NR);
                        m += 4;
                    }
                    while m + 2 <= end {
                        step::<S, O, 2>(a, (x, w), m, u * NR);
                        m += 2;
                    }
                    if m < end {
                        step::<S, O, 1>(a, (x, w), m, u * NR);
                    }
                }
            }
            start = end;
        }
    })
}

/// Rows `m..m + MR` of `a` times rows `n..n + NR` of `b`, as many as there are.
///
/// # Safety
/// As for [`part`].
#[inline(always)]
unsafe fn step<S: Isa, O: Elem, const MR: usize>(
    a: &Int8ScaledMm<'_>,
    (x, w): (Rows, Rows),
    m: usize,
    n: usize,
) {
    let count = NR.min(w.rows - n);
    // SAFETY: all rows are inside their tensors; rows of b past the last repeat it.
    unsafe {
        let (mut xs, mut ws) = ([a.a.as_ptr::<i8>(); MR], [a.b.as_ptr::<i8>(); NR]);
        for i in 0..MR {
            xs[i] = xs[i].add((m + i) * x.stride);
        }
        for j in 0..NR {
            ws[j] = ws[j].add((n + j.min(count - 1)) * w.stride);
        }
        let dots = tile::<S, MR>(xs, ws, x.cols);
        let stride = if a.out.dim(0) > 1 { a.out.stride(0) } else { 0 };
        for i in 0..MR {
            for j in 0..count {
                let scale = (*a.scales_a.as_ptr::<f32>().add(m + i), *a.scales_b.as_ptr::<f32>().add(n + j));
                let bias = match &a.bias {
                    Some(bias) => (*bias.as_ptr::<O>().add(n + j)).to_f32(),
                    None => 0.0,
                };
                let value = dots[i][j] as f32 * scale.0 * scale.1 + bias;
                a.out.as_mut_ptr::<O>().add((m + i) * stride + n + j).write(O::from_f32(value));
            }
        }
    }
}

/// Dot products of `MR` rows with `NR` rows of `k` elements.
///
/// # Safety
/// `S`'s features; all pointers valid for `k` elements.
#[inline(always)]
unsafe fn tile<S: Isa, const MR: usize>(x: [*const i8; MR], w: [*const i8; NR], k: usize) -> [[i32; NR]; MR] {
    // SAFETY: every offset is below k; the copies of a tail are as long as the widest vector.
    unsafe {
        let (mut acc, mut i) = ([[S::zeros_i32(); NR]; MR], 0);
        while i + 2 * S::W <= k {
            let mut wv = [S::widen_i8(w[0].add(i)); NR];
            for n in 1..NR {
                wv[n] = S::widen_i8(w[n].add(i));
            }
            for m in 0..MR {
                let xv = S::widen_i8(x[m].add(i));
                for n in 0..NR {
                    acc[m][n] = S::dot_i16(acc[m][n], xv, wv[n]);
                }
            }
            i += 2 * S::W;
        }
        if i < k {
            for n in 0..NR {
                let wv = tail::<S>(w[n].add(i), k - i);
                for m in 0..MR {
                    acc[m][n] = S::dot_i16(acc[m][n], tail::<S>(x[m].add(i), k - i), wv);
                }
            }
        }
        let mut out = [[0; NR]; MR];
        for m in 0..MR {
            for n in 0..NR {
                out[m][n] = S::sum_i32(acc[m][n]);
            }
        }
        out
    }
}

/// The first `n < 2 W` elements, the others 0.
///
/// # Safety
/// `S`'s features; `p` valid for `n` elements.
#[inline(always)]
unsafe fn tail<S: Isa>(p: *const i8, n: usize) -> S::H {
    let mut lanes = [0i8; 32];
    // SAFETY: n is below the length of the array, which is that of the widest vector.
    unsafe {
        lanes.as_mut_ptr().copy_from_nonoverlapping(p, n);
        S::widen_i8(lanes.as_ptr())
    }
}
