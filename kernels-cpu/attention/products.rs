//! How a block's products are done: on vectors, by every instruction set and in every type, or on tiles.

use super::chunk::Chunk;
use super::rows::Block;
use super::scores::scores;
use super::state::{Scratch, padded};
use super::values::accumulate;
use crate::gemm::times::Numbers;
use crate::isa::{Elem, Isa, load_some};
use crate::variants::with_float;
use kernels_ops::attention::Tensors;
use std::ops::Range;

/// Tokens of a chunk, and how many elements after the first head's the head's keys or values are.
pub type Piece = (Range<usize>, usize);

/// The products of a block's queries with keys of a chunk, and of weights with its values.
///
/// # Safety of all methods
/// `S`'s features and the implementation's own, checked arguments on the host, and a scratch that was sized by the
/// two sizes, with the queries in it and, for [`Products::accumulate`], the weights and what each row sees.
#[allow(clippy::missing_safety_doc)]
pub trait Products<S: Isa, C: Elem> {
    /// Query rows of a block of one key-value head; more only where a group of heads is larger.
    const ROWS: usize;

    /// Tokens whose heads are passed over together, where a block has several.
    const PIECE: usize;

    /// Up to so many rows keys are not turned.
    const FEW: usize = usize::MAX;

    /// Bytes of the queries of `rows` rows of one key-value head.
    fn query_bytes(rows: usize, dim: usize) -> usize;

    /// Bytes of scratch of its own, for so many rows of one key-value head.
    fn own_bytes(rows: usize, dim: usize) -> usize;

    /// The block's queries of one key-value head, as [`Products::scores`] takes them.
    unsafe fn queries(t: &Tensors<'_, '_>, block: &Block, kv_head: usize, group: usize, to: *mut u8);

    /// `rows × tokens` into the scratch's rows of scores: q · k times the scale of the scores and of the keys.
    unsafe fn scores(&self, t: &Tensors<'_, '_>, s: &Scratch, chunk: &Chunk<C>, piece: Piece, rows: usize);

    /// The piece's weighted values to the sums of all rows. A value that a row does not see is not even multiplied by
    /// zero where it may be NaN.
    unsafe fn accumulate(
        &self,
        t: &Tensors<'_, '_>,
        s: &Scratch,
        chunk: &Chunk<C>,
        piece: Piece,
        rows: usize,
    );

    /// The sums of all rows in their order, once every token is in them.
    #[inline(always)]
    unsafe fn settle(_: &Scratch, _rows: usize, _dim: usize) {}
}

/// By fused multiply-adds of f32.
pub struct Vectors;

impl<S: Isa, C: Elem> Products<S, C> for Vectors {
    const ROWS: usize = 16;
    const PIECE: usize = 16;

    fn query_bytes(rows: usize, dim: usize) -> usize {
        4 * rows * padded(dim)
    }

    fn own_bytes(_: usize, _: usize) -> usize {
        0
    }

    #[inline(always)]
    unsafe fn queries(t: &Tensors<'_, '_>, block: &Block, kv_head: usize, group: usize, to: *mut u8) {
        let (dim, scale) = (t.q.dim(2), t.sm_scale * t.k_scale);
        with_float!(t.q.dtype(), Q => {
            for r in 0..(block.to - block.from) * group {
                // SAFETY: the row is inside q; the target, whole vectors, is inside the scratch.
                unsafe {
                    let query = block.query::<Q>(t, kv_head, group, r);
                    let target = to.cast::<f32>().add(r * padded(dim));
                    for k in (0..dim).step_by(S::W) {
                        let v = load_some::<S, Q>(query.add(k), dim - k, 0.0);
                        S::store_f32(target.add(k), S::mul(v, S::splat(scale)));
                    }
                }
            }
        });
    }

    #[inline(always)]
    unsafe fn scores(&self, t: &Tensors<'_, '_>, s: &Scratch, chunk: &Chunk<C>, piece: Piece, rows: usize) {
        let dim = t.q.dim(2);
        // SAFETY: passed on. The scales are in the queries.
        unsafe { scores::<S, C, C, Numbers>(s, chunk, piece, rows, (dim, padded(dim)), 1.0) }
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
        // SAFETY: passed on.
        unsafe { accumulate::<S, C, Vectors>(s, chunk, piece, rows, t.q.dim(2)) }
    }
}
