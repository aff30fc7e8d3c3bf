//! Products of many rows: keys are turned and values widened once for all of them, into panels that stay in L1.

use super::chunk::{CHUNK, Chunk};
use super::products::{Piece, Products, Vectors};
use super::rows::Block;
use super::state::{Scratch, padded};
use crate::gemm::outer::{Outer, Panels as Columns, outer};
use crate::gemm::times::{Numbers, Times};
use crate::gemm::turn::turn;
use crate::isa::{Elem, Isa, load_tail};
use kernels_ops::attention::Tensors;

/// By outer products.
pub struct Panels;

impl<S: Isa, C: Elem> Products<S, C> for Panels {
    const ROWS: usize = 128;
    const PIECE: usize = CHUNK;
    // Measured: up to so many rows turning keys takes longer than it saves.
    const FEW: usize = 12;

    fn query_bytes(rows: usize, dim: usize) -> usize {
        <Vectors as Products<S, C>>::query_bytes(rows, dim)
    }

    fn own_bytes(_: usize, dim: usize) -> usize {
        4 * CHUNK * padded(dim)
    }

    #[inline(always)]
    unsafe fn queries(t: &Tensors<'_, '_>, block: &Block, kv_head: usize, group: usize, to: *mut u8) {
        // SAFETY: passed on.
        unsafe { <Vectors as Products<S, C>>::queries(t, block, kv_head, group, to) }
    }

    #[inline(always)]
    unsafe fn scores(&self, t: &Tensors<'_, '_>, s: &Scratch, chunk: &Chunk<C>, piece: Piece, rows: usize) {
        // SAFETY: passed on. The scales are in the queries.
        unsafe {
            match rows <= <Self as Products<S, C>>::FEW {
                true => Products::<S, C>::scores(&Vectors, t, s, chunk, piece, rows),
                false => turned_scores::<S, C, C, Numbers>(
                    s,
                    chunk,
                    piece,
                    rows,
                    (t.q.dim(2), padded(t.q.dim(2))),
                    1.0,
                ),
            }
        }
    }

    #[inline(always)]
    unsafe fn accumulate(
        &self,
        t: &Tensors<'_, '_>,
        s: &Scratch,
        chunk: &Chunk<C>,
        piece: Piece,
        rows: usize,
    ) {
        let (dim, (some, at)) = (t.q.dim(2), piece.clone());
        let (panel, pad) = (s.own.cast::<f32>(), padded(dim));
        // SAFETY: by contract; values have their place in the scratch, and weights are there for every token.
        unsafe {
            let with_panels = rows > <Self as Products<S, C>>::FEW && !s.masked && {
                let finite = widen::<S, C>(&chunk.values[some.clone()], at, dim, panel);
                // What a row does not see has weight 0, which is nothing only where values are finite.
                finite || s.all_see(rows, &some)
            };
            if !with_panels {
                return Products::<S, C>::accumulate(&Vectors, t, s, chunk, piece, rows);
            }
            let panels =
                Columns { first: panel.cast_const(), count: pad / (2 * S::W), apart: 2 * S::W, stride: pad };
            let (x, sums) = ((s.scores.add(some.start).cast_const(), CHUNK), (s.state.sums, pad));
            outer::<S, f32, Numbers, CHUNK>(
                Outer { x, panels, depth: some.len(), sums, add: true, streamed: false },
                rows,
            );
        }
    }
}

/// As [`super::scores::scores`], of keys that are turned first, into the scratch of the products.
///
/// # Safety
/// As for [`Products::scores`], with scratch for `steps` of a panel.
#[inline(always)]
pub(super) unsafe fn turned_scores<S: Isa, C: Elem, W: Elem, T: Times>(
    s: &Scratch,
    chunk: &Chunk<C>,
    (some, at): Piece,
    rows: usize,
    (steps, padded): (usize, usize),
    scale: f32,
) {
    let (panel, width) = (s.own.cast::<f32>(), 2 * S::W);
    for first in some.clone().step_by(width) {
        // SAFETY: keys past the last are the last again, and their scores are never used; a panel has its place.
        unsafe {
            let mut keys = [chunk.keys[first].cast::<W>(); 32];
            for i in 0..width {
                keys[i] = chunk.keys[(first + i).min(some.end - 1)].add(at).cast();
            }
            turn::<S, W>(&keys[..width], steps, panel, 0);
            let panels = Columns { first: panel.cast_const(), count: 1, apart: 0, stride: width };
            let (x, sums) = ((s.q.cast_const().cast(), padded), (s.scores.add(first), CHUNK));
            outer::<S, f32, T, 0>(Outer { x, panels, depth: steps, sums, add: false, streamed: false }, rows);
            if scale != 1.0 {
                for r in 0..rows {
                    for half in 0..2 {
                        let at = sums.0.add(r * CHUNK + half * S::W);
                        S::store_f32(at, S::mul(S::load_f32(at), S::splat(scale)));
                    }
                }
            }
        }
    }
}

/// Values as rows of f32, zeros past the last column; whether all are finite.
///
/// # Safety
/// `S`'s features; the values are inside the cache and have their place.
#[inline(always)]
unsafe fn widen<S: Isa, C: Elem>(values: &[*const C], at: usize, dim: usize, to: *mut f32) -> bool {
    // SAFETY: by contract.
    unsafe {
        let (zero, mut wrong, pad) = (S::splat(0.0), S::splat(0.0), padded(dim));
        for (i, row) in values.iter().enumerate() {
            for j in (0..pad).step_by(S::W) {
                let from = row.wrapping_add(at + j);
                let v = match dim.saturating_sub(j) {
                    0 => zero,
                    left if left < S::W => load_tail::<S, C>(from, left, 0.0),
                    _ => C::load::<S>(from),
                };
                // NaN where it is not finite, and for good.
                wrong = S::fma(v, zero, wrong);
                S::store_f32(to.add(i * pad + j), v);
            }
        }
        S::sum(wrong) == 0.0
    }
}
