//! The inner product of matrices with few rows of x, and of attention's scores: a tile of dot products along the dense
//! dimension of both operands, in registers.
//!
//! Both x and the weight are rows along k, so nothing is transposed or packed. A tile of 6 × 4 needs
//! 10 loads for 24 fused multiply-adds; with a 16-bit weight the widening costs 2 more instructions a load,
//! which leaves about three quarters of the f32 rate.

use super::times::Times;
use crate::isa::{Elem, Isa, load_tail, prefetch_later};

/// Rows of weight in a tile.
pub const NR: usize = 4;

/// Rows of x in the largest tile: as many accumulators as there are registers.
#[inline(always)]
pub const fn largest_mr<S: Isa>() -> usize {
    if S::W == 16 { 6 } else { 2 }
}

/// Dot products of `MR` rows of x with `NR` rows of `W`, `k` elements each.
///
/// # Safety
/// `S`'s features; all pointers valid for `k` elements, those of x for `T::PARTS` as many; whole vectors, where that is 2.
#[inline(always)]
pub unsafe fn tile<S: Isa, W: Elem, T: Times, const MR: usize>(
    x: [*const f32; MR],
    w: [*const W; NR],
    k: usize,
) -> [[f32; NR]; MR] {
    // SAFETY: passed on.
    unsafe {
        let (mut sums, mut out) = ([[S::splat(0.0); NR]; MR], [[0f32; NR]; MR]);
        add::<S, W, T, MR>(&mut sums, x, w, k, None);
        for m in 0..MR {
            out[m] = S::sum4(sums[m]);
        }
        out
    }
}

/// What is asked for from memory meanwhile, as far as L2: as many weights as there are here, but in one piece, at `next`;
/// a part of them in each of `turns` calls.
#[derive(Clone, Copy)]
pub struct Ahead<W> {
    pub next: *const W,
    pub turn: usize,
    pub turns: usize,
}

/// Adds such products to sums that are apart in lanes.
///
/// # Safety
/// As for [`tile`]; whole vectors, where `T` takes several of x for each.
#[inline(always)]
pub unsafe fn add<S: Isa, W: Elem, T: Times, const MR: usize>(
    sums: &mut [[S::V; NR]; MR],
    x: [*const f32; MR],
    w: [*const W; NR],
    k: usize,
    ahead: Option<Ahead<W>>,
) {
    // SAFETY: every offset is below k.
    unsafe {
        let (mut acc, mut i, mut left) = (*sums, 0, ahead.map_or(0, |a| a.turn));
        while i + S::W <= k {
            if let Some(Ahead { next, turns, .. }) = ahead {
                if left == 0 {
                    left = turns;
                    for line in (0..NR * S::W * size_of::<W>()).step_by(64) {
                        prefetch_later(next.wrapping_add(i * NR).cast::<u8>().wrapping_add(line));
                    }
                }
                left -= 1;
            }
            let mut wv = [S::splat(0.0); NR];
            for n in 0..NR {
                wv[n] = W::load::<S>(w[n].add(i));
            }
            let mut parts = [[S::splat(0.0); 2]; NR];
            for n in 0..NR {
                parts[n] = T::parts::<S>(wv[n]);
            }
            for part in 0..T::PARTS {
                for m in 0..MR {
                    let xv = S::load_f32(x[m].add(T::PARTS * i + part * S::W));
                    for n in 0..NR {
                        acc[m][n] = T::times::<S>(acc[m][n], xv, parts[n][part]);
                    }
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
                    acc[m][n] = T::times::<S>(acc[m][n], xv, wv[n]);
                }
            }
        }
        *sums = acc;
    }
}
