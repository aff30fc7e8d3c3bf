//! The inner product of matrices with few rows of x, and of attention's scores: a tile of dot products along the dense
//! dimension of both operands, in registers.
//!
//! Both x and the weight are rows along k, so nothing is transposed or packed. A tile of 6 × 4 needs
//! 10 loads for 24 fused multiply-adds; with a 16-bit weight the widening costs 2 more instructions a load,
//! which leaves about three quarters of the f32 rate (against half of it for `vdpbf16ps` on the chips measured).

use crate::isa::{Elem, Isa, load_tail};

/// Rows of weight in a tile.
pub const NR: usize = 4;

/// Rows of x in the largest tile: as many accumulators as there are registers.
#[inline(always)]
pub const fn largest_mr<S: Isa>() -> usize {
    if S::W == 16 { 6 } else { 2 }
}

/// Dot products of `MR` rows of f32 with `NR` rows of `W`, `k` elements each.
///
/// # Safety
/// `S`'s features; all pointers valid for `k` elements.
#[inline(always)]
pub unsafe fn tile<S: Isa, W: Elem, const MR: usize>(
    x: [*const f32; MR],
    w: [*const W; NR],
    k: usize,
) -> [[f32; NR]; MR] {
    // SAFETY: every offset is below k.
    unsafe {
        let mut acc = [[S::splat(0.0); NR]; MR];
        let mut i = 0;
        while i + S::W <= k {
            let mut wv = [S::splat(0.0); NR];
            for n in 0..NR {
                wv[n] = W::load::<S>(w[n].add(i));
            }
            for m in 0..MR {
                let xv = S::load_f32(x[m].add(i));
                for n in 0..NR {
                    acc[m][n] = S::fma(xv, wv[n], acc[m][n]);
                }
            }
            i += S::W;
        }
        if i < k {
            let mut wv = [S::splat(0.0); NR];
            for n in 0..NR {
                wv[n] = load_tail::<S, W>(w[n].add(i), k - i, 0.0);
            }
            for m in 0..MR {
                let xv = load_tail::<S, f32>(x[m].add(i), k - i, 0.0);
                for n in 0..NR {
                    acc[m][n] = S::fma(xv, wv[n], acc[m][n]);
                }
            }
        }
        let mut out = [[0f32; NR]; MR];
        for m in 0..MR {
            out[m] = S::sum4(acc[m]);
        }
        out
    }
}
