//! Scores by pairs of bf16, where the processor multiplies them: half the instructions of numbers, and no key is widened.

use super::chunk::Chunk;
use super::panels::turned_scores;
use super::products::{Piece, Products};
use super::rows::Block;
use super::scores::scores;
use super::state::{Scratch, padded};
use crate::gemm::times;
use crate::isa::Isa;
use kernels_core::{DType, View, bf16};
use kernels_ops::attention::Tensors;

/// Scores by pairs, values as `P` does it.
pub struct Pairs<P>(pub P);

/// Whether queries and keys are pairs, in whole vectors.
#[inline(always)]
pub fn are_pairs<S: Isa>(q: &View<'_>, keys: &View<'_>) -> bool {
    q.dtype() == DType::BF16 && keys.dtype() == DType::BF16 && q.dim(2).is_multiple_of(2 * S::W)
}

/// Whether they are pairs that `S` multiplies.
#[inline(always)]
pub fn by_pairs<S: Isa>(q: &View<'_>, keys: &View<'_>) -> bool {
    S::PAIRS && are_pairs::<S>(q, keys)
}

impl<S: Isa, P: Products<S, bf16>> Products<S, bf16> for Pairs<P> {
    const ROWS: usize = P::ROWS;
    const PIECE: usize = P::PIECE;
    const FEW: usize = P::FEW;

    fn query_bytes(rows: usize, dim: usize) -> usize {
        P::query_bytes(rows, dim)
    }

    fn own_bytes(rows: usize, dim: usize) -> usize {
        P::own_bytes(rows, dim)
    }

    /// As they are: the scales come to the scores.
    #[inline(always)]
    unsafe fn queries(t: &Tensors<'_, '_>, block: &Block, kv_head: usize, group: usize, to: *mut u8) {
        let dim = t.q.dim(2);
        for r in 0..(block.to - block.from) * group {
            // SAFETY: the row is inside q; the target, of numbers twice as large, is inside the scratch.
            unsafe {
                let query = block.query::<bf16>(t, kv_head, group, r);
                query.copy_to_nonoverlapping(to.cast::<f32>().add(r * padded(dim)).cast(), dim);
            }
        }
    }

    #[inline(always)]
    unsafe fn scores(
        &self,
        t: &Tensors<'_, '_>,
        s: &Scratch,
        chunk: &Chunk<bf16>,
        piece: Piece,
        rows: usize,
    ) {
        let (dim, scale) = (t.q.dim(2), t.sm_scale * t.k_scale);
        let row = (dim / 2, padded(dim));
        // SAFETY: by contract; whole vectors are read, of pairs that need not lie where an f32 may.
        unsafe {
            match rows <= P::FEW {
                true => scores::<S, bf16, f32, times::Pairs>(s, chunk, piece, rows, row, scale),
                false => turned_scores::<S, bf16, f32, times::Pairs>(s, chunk, piece, rows, row, scale),
            }
        }
    }

    #[inline(always)]
    unsafe fn accumulate(
        &self,
        t: &Tensors<'_, '_>,
        s: &Scratch,
        chunk: &Chunk<bf16>,
        piece: Piece,
        rows: usize,
    ) {
        // SAFETY: passed on.
        unsafe { self.0.accumulate(t, s, chunk, piece, rows) }
    }
}
