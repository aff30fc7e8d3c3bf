//! Products of bf16 on AMX tiles. Scores are K qᵀ, with keys as they lie and queries by columns; values are added by
//! P V, with weights as two bf16 each, whose sum they are to 2⁻¹⁶, and values in pairs of tokens.

#[cfg(test)]
mod emulated;
mod lay;
mod ops;

use super::chunk::{CHUNK, Chunk};
use super::products::{Piece, Products, Vectors};
use super::rows::Block;
use super::state::{Scratch, padded};
use crate::isa::Avx512Bf16;
use crate::isa::amx::{self, BLOCK, Floats, Product, STEP, STEPS, SUMS, TILE, Tiles, turned};
use kernels_core::{View, bf16};
use kernels_ops::attention::Tensors;
use lay::{Values, lay_weights};
use std::arch::x86_64::*;

/// Numbers of a step.
const NUMBERS: usize = Floats::NUMBERS;

/// Bytes between the two tiles of a block.
const SECOND: usize = STEPS * TILE;

/// Steps of all tokens of a chunk.
const CHUNK_STEPS: usize = CHUNK / NUMBERS;

/// Pairs of tiles of a chunk's values, or tiles of its weights, in a block.
const IN_BLOCK: usize = STEPS / CHUNK_STEPS;

/// Whether tiles do it: heads of whole steps, of which one block holds all.
fn fits(q: &View<'_>) -> bool {
    let dim = q.dim(2);
    dim > 0 && dim.is_multiple_of(NUMBERS) && dim <= STEPS * NUMBERS
}

/// What multiplies blocks of bf16.
///
/// # Safety of all methods
/// As for [`Product::two`]; `one` leaves the sums of x's second tile what they are.
#[allow(clippy::missing_safety_doc)]
trait Multiply {
    unsafe fn one(&self, block: amx::Block);
    unsafe fn two(&self, block: amx::Block);
}

impl Multiply for Tiles {
    #[inline(always)]
    unsafe fn one(&self, block: amx::Block) {
        // SAFETY: passed on.
        unsafe { Floats::one(self, block) }
    }
    #[inline(always)]
    unsafe fn two(&self, block: amx::Block) {
        // SAFETY: passed on.
        unsafe { Floats::two(self, block) }
    }
}

/// A thread's tiles.
struct OnTiles<M>(M);

/// Tiles of `rows` rows.
fn tiles(rows: usize) -> usize {
    rows.div_ceil(amx::ROWS)
}

/// Where tile `i` of a chunk's weights begins, and pair `i` of tiles of its values.
fn place(i: usize) -> usize {
    i / IN_BLOCK * BLOCK + i % IN_BLOCK * CHUNK_STEPS * TILE
}

fn values_bytes(dim: usize) -> usize {
    (dim / NUMBERS).div_ceil(IN_BLOCK).max(1) * BLOCK
}

impl<M: Multiply> Products<Avx512Bf16, bf16> for OnTiles<M> {
    const ROWS: usize = 32;
    const PIECE: usize = NUMBERS;

    fn query_bytes(rows: usize, dim: usize) -> usize {
        if rows <= amx::ROWS { dim / NUMBERS * TILE } else { tiles(rows).div_ceil(2) * BLOCK }
    }

    fn own_bytes(rows: usize, dim: usize) -> usize {
        sums_at(rows, dim) + SUMS
    }

    #[inline(always)]
    unsafe fn queries(t: &Tensors<'_, '_>, block: &Block, kv_head: usize, group: usize, to: *mut u8) {
        let rows = (block.to - block.from) * group;
        for tile in 0..tiles(rows) {
            let to = to.wrapping_add(tile / 2 * BLOCK + tile % 2 * SECOND);
            for step in 0..t.q.dim(2) / NUMBERS {
                // SAFETY: the rows are inside q, the step is inside the row, and the tile has its place in the scratch.
                unsafe {
                    let mut lines = [_mm512_setzero_ps(); amx::ROWS];
                    for i in 0..amx::ROWS.min(rows - tile * amx::ROWS) {
                        let row = block.query::<bf16>(t, kv_head, group, tile * amx::ROWS + i);
                        lines[i] = _mm512_loadu_ps(row.add(step * NUMBERS).cast());
                    }
                    let words = turned(lines);
                    for i in 0..amx::ROWS {
                        _mm512_store_ps(to.add(step * TILE + i * STEP).cast(), words[i]);
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
        let steps = t.q.dim(2) / NUMBERS;
        let (keys, sums) = (s.own, s.own.wrapping_add(sums_at(rows, t.q.dim(2))));
        let (some, at) = piece;
        for first in some.clone().step_by(2 * amx::ROWS) {
            // SAFETY: rows of keys are whole steps; every tile is inside the scratch, every score inside its row.
            unsafe {
                for i in 0..(2 * amx::ROWS).min(some.end - first) {
                    let to = keys.add(i / amx::ROWS * SECOND + i % amx::ROWS * STEP);
                    let key = chunk.keys[first + i].add(at);
                    for step in 0..steps {
                        let line = _mm512_loadu_si512(key.add(step * NUMBERS).cast());
                        _mm512_store_si512(to.add(step * TILE).cast(), line);
                    }
                }
                for pair in 0..tiles(rows).div_ceil(2) {
                    let x = s.q.wrapping_add(pair * BLOCK);
                    let block = amx::Block { weights: keys, x, steps, sums, add: false };
                    match rows - 2 * pair * amx::ROWS <= amx::ROWS {
                        true => self.0.one(block),
                        false => self.0.two(block),
                    }
                    for quarter in 0..4 {
                        let r = (2 * pair + quarter % 2) * amx::ROWS;
                        let c = first + quarter / 2 * amx::ROWS;
                        if r >= rows || c >= some.end {
                            continue;
                        }
                        let mut tile = [_mm512_setzero_ps(); amx::ROWS];
                        for i in 0..amx::ROWS {
                            tile[i] = _mm512_load_ps(sums.add(quarter * TILE + i * STEP).cast());
                        }
                        let (tile, scale) = (turned(tile), _mm512_set1_ps(t.sm_scale * t.k_scale));
                        for i in 0..amx::ROWS.min(rows - r) {
                            _mm512_storeu_ps(
                                s.scores.add((r + i) * CHUNK + c),
                                _mm512_mul_ps(tile[i], scale),
                            );
                        }
                    }
                }
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
        let dim = t.q.dim(2);
        // SAFETY: passed on; every tile is inside the scratch, every column inside the rows of sums.
        unsafe {
            let (some, at) = piece.clone();
            let values = Values { rows: &chunk.values[some.clone()], at, dim };
            // What a row does not see has weight 0, which is nothing only where values are finite.
            if s.masked || !(s.all_see(rows, &some) || values.finite()) {
                return Products::<Avx512Bf16, bf16>::accumulate(&Vectors, t, s, chunk, piece, rows);
            }
            let weights = s.own.add(values_bytes(dim));
            let sums = s.own.add(sums_at(rows, dim));
            let steps = some.len().div_ceil(NUMBERS);
            values.lay(s.own);
            lay_weights(weights, s, rows, some);
            for tile in 0..tiles(rows) {
                for pair in 0..dim / NUMBERS {
                    let (weights, x) = (weights.add(place(tile)), s.own.add(place(pair)));
                    self.0.two(amx::Block { weights, x, steps, sums, add: false });
                    for i in 0..amx::ROWS.min(rows - tile * amx::ROWS) {
                        let row = s.state.sums.add((tile * amx::ROWS + i) * padded(dim) + pair * NUMBERS);
                        for half in 0..2 {
                            let sum =
                                |quarter: usize| _mm512_load_ps(sums.add(quarter * TILE + i * STEP).cast());
                            let new = _mm512_add_ps(sum(half), sum(2 + half));
                            let at = row.add(half * 16);
                            _mm512_storeu_ps(at, _mm512_add_ps(_mm512_loadu_ps(at), new));
                        }
                    }
                }
            }
        }
    }
}

/// Where in its own scratch the sums of two tiles by two are: after values and weights.
fn sums_at(rows: usize, dim: usize) -> usize {
    values_bytes(dim) + tiles(rows).div_ceil(IN_BLOCK) * BLOCK
}
