//! Scores by pairs of bf16, where the processor multiplies them: half the instructions of numbers, and no key is widened.

use super::chunk::Chunk;
use super::products::{Piece, Products, Vectors};
use super::rows::Block;
use super::scores::scores;
use super::state::{Scratch, padded};
use crate::gemm::times;
use crate::isa::Isa;
use kernels_core::{DType, View, bf16};
use kernels_ops::attention::Tensors;

/// Scores by pairs, values by numbers.
pub struct Pairs;

/// Whether queries and keys are pairs of `S`, in whole vectors.
#[inline(always)]
pub fn by_pairs<S: Isa>(q: &View<'_>, keys: &View<'_>) -> bool {
    S::PAIRS && q.dtype() == DType::BF16 && keys.dtype() == DType::BF16 && q.dim(2).is_multiple_of(2 * S::W)
}

impl<S: Isa> Products<S, bf16> for Pairs {
    const ROWS: usize = <Vectors as Products<S, bf16>>::ROWS;
    const PIECE: usize = <Vectors as Products<S, bf16>>::PIECE;

    fn query_bytes(rows: usize, dim: usize) -> usize {
        <Vectors as Products<S, bf16>>::query_bytes(rows, dim)
    }

    fn own_bytes(rows: usize, dim: usize) -> usize {
        <Vectors as Products<S, bf16>>::own_bytes(rows, dim)
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
        let dim = t.q.dim(2);
        // SAFETY: by contract; whole vectors are read, of pairs that need not lie where an f32 may.
        unsafe {
            let scale = t.sm_scale * t.k_scale;
            scores::<S, bf16, f32, times::Pairs>(s, chunk, piece, rows, (dim / 2, padded(dim)), scale)
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
        unsafe { Products::<S, bf16>::accumulate(&Vectors, t, s, chunk, piece, rows) }
    }
}
