//! What a block of rows keeps while it passes over tokens.

use super::chunk::CHUNK;
use super::products::Products;
use crate::isa::{Elem, Isa};
use std::ops::Range;

/// Numbers of a row of queries or sums: whole panels of every instruction set.
pub fn padded(dim: usize) -> usize {
    dim.next_multiple_of(32)
}

/// Of each row: the weighted sum of values, the largest score, and the sum of weights.
#[derive(Clone, Copy)]
pub struct State {
    pub sums: *mut f32,
    pub max: *mut f32,
    pub total: *mut f32,
}

impl State {
    /// Bytes of the state of so many rows, whole cache lines.
    pub fn bytes(rows: usize, pad: usize) -> usize {
        (4 * rows * (pad + 2)).next_multiple_of(64)
    }

    /// Of `rows` rows, from `base` on.
    pub fn at(base: *mut u8, rows: usize, pad: usize) -> State {
        let sums = base.cast::<f32>();
        let max = sums.wrapping_add(rows * pad);
        State { sums, max, total: max.wrapping_add(rows) }
    }

    /// Of the rows after `row`.
    #[inline(always)]
    pub fn after(&self, row: usize, pad: usize) -> State {
        State {
            sums: self.sums.wrapping_add(row * pad),
            max: self.max.wrapping_add(row),
            total: self.total.wrapping_add(row),
        }
    }

    /// Nothing seen.
    ///
    /// # Safety
    /// The state has so many rows.
    #[inline(always)]
    pub unsafe fn clear(&self, rows: usize, pad: usize) {
        // SAFETY: by contract.
        unsafe {
            self.sums.write_bytes(0, rows * pad);
            for r in 0..rows {
                self.max.add(r).write(f32::NEG_INFINITY);
                self.total.add(r).write(0.0);
            }
        }
    }

    /// What other tokens gave, to this.
    ///
    /// # Safety
    /// `S`'s features; both states have so many rows.
    #[inline(always)]
    pub unsafe fn add<S: Isa>(&self, other: &State, rows: usize, pad: usize) {
        for r in 0..rows {
            // SAFETY: by contract.
            unsafe {
                let (a, b) = (*self.max.add(r), *other.max.add(r));
                let max = if a > b { a } else { b };
                // Where nothing was seen there is nothing to scale, but a NaN stays.
                let factor = |m: f32| if m == f32::NEG_INFINITY { 1.0 } else { (m - max).exp() };
                let (fa, fb) = (factor(a), factor(b));
                self.max.add(r).write(max);
                self.total.add(r).write(*self.total.add(r) * fa + *other.total.add(r) * fb);
                let (va, vb, mut i) = (S::splat(fa), S::splat(fb), r * pad);
                while i < (r + 1) * pad {
                    let scaled = S::mul(S::load_f32(other.sums.add(i)), vb);
                    S::store_f32(self.sums.add(i), S::fma(S::load_f32(self.sums.add(i)), va, scaled));
                    i += S::W;
                }
            }
        }
    }
}

/// How large the scratch of one thread is.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Key-value heads of a block.
    pub heads: usize,
    /// Rows of each.
    pub rows: usize,
    pub dim: usize,
}

/// A thread's scratch: queries of all rows, and their scores of a chunk.
#[derive(Clone, Copy)]
pub struct Scratch {
    pub q: *mut u8,
    pub scores: *mut f32,
    /// The first and one past the last token of the chunk that each row sees.
    pub seen: *mut [u32; 2],
    /// What the products need besides.
    pub own: *mut u8,
    pub state: State,
    /// Some tokens between those may be hidden: their weights are [`super::chunk::HIDDEN`].
    pub masked: bool,
}

impl Scratch {
    /// Bytes, whole cache lines; the state not counted.
    pub fn bytes<S: Isa, C: Elem, P: Products<S, C>>(Sizes { heads, rows, dim }: Sizes) -> usize {
        let queries = (heads * P::query_bytes(rows, dim)).next_multiple_of(64);
        queries + P::own_bytes(rows, dim) + (4 * heads * rows * (CHUNK + 2)).next_multiple_of(64)
    }

    /// From `base` on.
    pub fn at<S: Isa, C: Elem, P: Products<S, C>>(
        base: *mut u8,
        Sizes { heads, rows, dim }: Sizes,
        state: State,
        masked: bool,
    ) -> Scratch {
        let own = base.wrapping_add((heads * P::query_bytes(rows, dim)).next_multiple_of(64));
        let scores = own.wrapping_add(P::own_bytes(rows, dim)).cast::<f32>();
        Scratch {
            q: base,
            scores,
            seen: scores.wrapping_add(heads * rows * CHUNK).cast(),
            own,
            state,
            masked,
        }
    }

    /// For the rows after `row`, with their queries.
    #[inline(always)]
    pub fn after(&self, row: usize, pad: usize, q: *mut u8) -> Scratch {
        Scratch {
            q,
            scores: self.scores.wrapping_add(row * CHUNK),
            seen: self.seen.wrapping_add(row),
            state: self.state.after(row, pad),
            ..*self
        }
    }

    /// Whether each of the first `rows` rows sees every token of `some`.
    ///
    /// # Safety
    /// What they see is written.
    #[inline(always)]
    pub unsafe fn all_see(&self, rows: usize, some: &Range<usize>) -> bool {
        // SAFETY: by contract.
        let seen = |r: usize| unsafe { *self.seen.add(r) };
        (0..rows).map(seen).all(|[from, to]| from as usize <= some.start && some.end <= to as usize)
    }
}
