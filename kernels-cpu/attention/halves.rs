//! bf16 where no instruction multiplies it: a vector of pairs comes apart into its even and its odd numbers by two
//! instructions, where widening takes two for each half. Queries are laid out likewise, and so are sums until all
//! tokens are added up.

use super::chunk::Chunk;
use super::pairs::are_pairs;
use super::products::{Piece, Products, Vectors};
use super::rows::Block;
use super::scores::scores;
use super::state::{Scratch, padded};
use super::values::{Columns, accumulate};
use crate::gemm::times;
use crate::isa::Isa;
use kernels_core::{View, bf16};
use kernels_ops::attention::Tensors;

/// By fused multiply-adds of f32, of pairs taken apart.
pub struct Halves;

/// Whether queries and keys are pairs that `S` takes apart but does not multiply.
#[inline(always)]
pub fn by_halves<S: Isa>(q: &View<'_>, keys: &View<'_>) -> bool {
    S::HALVES && are_pairs::<S>(q, keys)
}

impl<S: Isa> Columns<S, bf16> for Halves {
    const LEAST: usize = 2;

    #[inline(always)]
    unsafe fn load<const NV: usize>(at: *const bf16) -> [S::V; NV] {
        // SAFETY: by contract: so many pairs are there, which need not lie where an f32 may.
        unsafe {
            let mut columns = [S::splat(0.0); NV];
            for v in 0..NV / 2 {
                let [even, odd] = S::even_odd_bf16(S::load_f32(at.add(2 * v * S::W).cast()));
                (columns[2 * v], columns[2 * v + 1]) = (even, odd);
            }
            columns
        }
    }
}

impl<S: Isa> Products<S, bf16> for Halves {
    const ROWS: usize = <Vectors as Products<S, bf16>>::ROWS;
    const PIECE: usize = <Vectors as Products<S, bf16>>::PIECE;

    fn query_bytes(rows: usize, dim: usize) -> usize {
        <Vectors as Products<S, bf16>>::query_bytes(rows, dim)
    }

    fn own_bytes(_: usize, _: usize) -> usize {
        0
    }

    #[inline(always)]
    unsafe fn queries(t: &Tensors<'_, '_>, block: &Block, kv_head: usize, group: usize, to: *mut u8) {
        let (dim, scale) = (t.q.dim(2), t.sm_scale * t.k_scale);
        for r in 0..(block.to - block.from) * group {
            // SAFETY: the row is inside q, of whole pairs of vectors; the target is inside the scratch.
            unsafe {
                let query = block.query::<bf16>(t, kv_head, group, r);
                let target = to.cast::<f32>().add(r * padded(dim));
                for k in (0..dim).step_by(2 * S::W) {
                    let halves = <Halves as Columns<S, bf16>>::load::<2>(query.add(k));
                    for half in 0..2 {
                        let scaled = S::mul(halves[half], S::splat(scale));
                        S::store_f32(target.add(k + half * S::W), scaled);
                    }
                }
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
        let row = (t.q.dim(2) / 2, padded(t.q.dim(2)));
        // SAFETY: passed on. The scales are in the queries.
        unsafe { scores::<S, bf16, f32, times::Halves>(s, chunk, piece, rows, row, 1.0) }
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
        unsafe { accumulate::<S, bf16, Halves>(s, chunk, piece, rows, t.q.dim(2)) }
    }

    #[inline(always)]
    unsafe fn settle(s: &Scratch, rows: usize, dim: usize) {
        for r in 0..rows {
            for k in (0..dim).step_by(2 * S::W) {
                // SAFETY: by contract; whole pairs of vectors.
                unsafe {
                    let at = s.state.sums.add(r * padded(dim) + k);
                    let [a, b] = S::interleave([S::load_f32(at), S::load_f32(at.add(S::W))]);
                    S::store_f32(at, a);
                    S::store_f32(at.add(S::W), b);
                }
            }
        }
    }
}
