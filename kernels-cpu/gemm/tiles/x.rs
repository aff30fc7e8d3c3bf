//! x by columns, in words of 4 bytes.

use super::UNIT;
use super::lay::Source;
use crate::isa::amx::{BLOCK, Product, ROWS, STEP, STEPS, TILE, turned};
use crate::pool::Plan;
use kernels_core::{Rows, View};
use std::arch::x86_64::*;
use std::ops::Range;

/// Rows of x in blocks of two tiles, for each part of the columns one after the other.
#[derive(Clone, Copy)]
pub struct X {
    pub rows: usize,
    pub blocks: usize,
    pub parts: usize,
    last_steps: usize,
    ptr: *mut u8,
}

// SAFETY: the call's own scratch, of which each thread writes its part.
unsafe impl Sync for X {}

impl X {
    /// How x of these many columns is cut, in `scratch`.
    pub fn new<P: Product>(x: &View<'_>, scratch: *mut u8) -> Option<X> {
        let Rows { rows, cols, .. } = x.rows()?;
        let steps = cols.div_ceil(P::NUMBERS).max(1);
        let parts = steps.div_ceil(STEPS);
        let last_steps = steps - (parts - 1) * STEPS;
        Some(X { rows, blocks: rows.div_ceil(UNIT), parts, last_steps, ptr: scratch })
    }

    /// Bytes of scratch.
    pub fn bytes(&self) -> usize {
        self.parts * self.blocks * BLOCK
    }

    /// How laying splits: by tiles.
    pub fn plan(&self) -> Plan {
        Plan { units: 2 * self.blocks, work: self.bytes() / 4 }
    }

    /// Steps of a part.
    pub fn steps(&self, part: usize) -> usize {
        if part + 1 == self.parts { self.last_steps } else { STEPS }
    }

    /// Two tiles' rows of a part.
    pub fn block(&self, part: usize, block: usize) -> *mut u8 {
        self.ptr.wrapping_add((part * self.blocks + block) * BLOCK)
    }

    /// Lays tiles; rows past the last are zeros.
    ///
    /// # Safety
    /// AVX-512 F, BW, DQ and AVX2; x is inside its tensor and was made for `P`; nobody else works on these tiles.
    #[inline(always)]
    pub unsafe fn lay<P: Product, T: Source<P>>(&self, (x, rows): (*const T, Rows), tiles: Range<usize>) {
        for tile in tiles {
            for step in 0..(self.parts - 1) * STEPS + self.last_steps {
                let k = step * P::NUMBERS;
                let count = P::NUMBERS.min(rows.cols.saturating_sub(k));
                let at = (tile % 2) * STEPS * TILE + (step % STEPS) * TILE;
                let to = self.block(step / STEPS, tile / 2).wrapping_add(at);
                // SAFETY: `count` numbers are left in each row, and the tile has its place in the scratch.
                unsafe {
                    let mut lines = [_mm512_setzero_ps(); ROWS];
                    for i in 0..ROWS {
                        let m = tile * ROWS + i;
                        if m < rows.rows {
                            let at = x.add(m * rows.stride + k);
                            let line = if count == P::NUMBERS { T::line(at) } else { T::tail(at, count) };
                            lines[i] = _mm512_castsi512_ps(line);
                        }
                    }
                    let words = turned(lines);
                    for i in 0..ROWS {
                        _mm512_store_ps(to.add(i * STEP).cast(), words[i]);
                    }
                }
            }
        }
    }
}
