//! Products of blocks on AMX tiles of bf16 and i8: 32 weight rows by 32 rows of x at a time.
//!
//! Weights are copied once a call into blocks that stay in L1, which is what asks memory for them; x is laid by
//! columns once a call. A block of x stays in L2 while the weight rows of a unit's group pass over it, and the sums
//! of the group too. What one row of x gives does not depend on the others.

mod lay;
mod ops;
mod x;

use super::output::{Output, store_turned};
use crate::isa::Elem;
use crate::isa::amx::{Ahead, BLOCK, Block, Product, ROWS, STEP, STEPS, SUMS, TILE};
use kernels_core::Rows;
use lay::Source;
use std::arch::x86_64::*;
use std::ops::Range;
use x::X;

/// Weight rows of a unit of work, and rows of x of a block.
const UNIT: usize = 2 * ROWS;

/// Units whose sums are kept, so that x is passed over less often.
const GROUP: usize = 16;

/// Blocks of x whose sums are kept: with [`GROUP`] 1 MiB of them.
const BLOCKS: usize = 16;

/// Up to so many blocks of x, a unit's weights are read from their beginning to their end.
const FEW: usize = 2;

fn group(x: &X) -> usize {
    if x.blocks <= FEW { 1 } else { GROUP }
}

/// Bytes of scratch of a thread.
fn scratch(x: &X) -> usize {
    BLOCK + group(x) * x.blocks.min(BLOCKS) * SUMS
}

/// All rows of x times the weight rows of `units`.
///
/// # Safety
/// `P`'s features; x is laid, the rows are inside their tensors, `space` is valid for [`scratch`],
/// nobody else works on these units.
#[inline(always)]
unsafe fn product<P: Product, W: Source<P>, O: Elem>(
    x: &X,
    (weight, rows): (*const W, Rows),
    units: Range<usize>,
    out: Output<O>,
    space: *mut u8,
) {
    let group = group(x);
    // SAFETY: by contract; every block, row and sum is inside what it belongs to.
    unsafe {
        let ready = P::ready();
        let mut first = units.start;
        while first < units.end {
            let (last, mut from) = (units.end.min(first + group), 0);
            while from < x.blocks {
                let to = x.blocks.min(from + BLOCKS);
                let sums =
                    |u, block| space.wrapping_add(BLOCK + ((u - first) * (to - from) + block - from) * SUMS);
                for part in 0..x.parts {
                    for u in first..last {
                        let weights = Weights { weight, rows, u, part };
                        weights.lay::<P>(x.steps(part), space);
                        let ahead = weights.next(last, x.parts).ahead::<P>();
                        let at = |block| Block {
                            weights: space,
                            x: x.block(part, block),
                            steps: x.steps(part),
                            sums: sums(u, block),
                            add: part > 0,
                        };
                        match x.rows <= from * UNIT + ROWS {
                            true => P::one_ahead(&ready, at(from), ahead),
                            false => P::two_ahead(&ready, at(from), ahead),
                        }
                        for block in from + 1..to {
                            P::two(&ready, at(block));
                        }
                    }
                }
                for u in first..last {
                    for block in from..to {
                        finish::<P, O>((block * UNIT, x.rows), (u * UNIT, rows.rows), sums(u, block), out);
                    }
                }
                from = to;
            }
            first = last;
        }
    }
}

/// Part `part` of the columns of weight rows `UNIT u ..`.
#[derive(Clone, Copy)]
struct Weights<W> {
    weight: *const W,
    rows: Rows,
    u: usize,
    part: usize,
}

impl<W> Weights<W> {
    /// What is laid after it.
    fn next(self, last: usize, parts: usize) -> Self {
        match self {
            Weights { u, .. } if u + 1 < last => Weights { u: u + 1, ..self },
            Weights { part, .. } if part + 1 < parts => Weights { part: part + 1, ..self },
            _ => Weights { u: last, part: 0, ..self },
        }
    }

    fn ahead<P: Product>(self) -> Ahead {
        let row = self.weight.wrapping_add(self.u * UNIT * self.rows.stride + self.part * STEPS * P::NUMBERS);
        Ahead { row: row.cast(), stride: self.rows.stride * size_of::<W>() }
    }

    /// Copies it. Rows past the last are the last again.
    ///
    /// # Safety
    /// As for [`product`].
    #[inline(always)]
    unsafe fn lay<P: Product>(self, steps: usize, space: *mut u8)
    where
        W: Source<P>,
    {
        let k = self.part * STEPS * P::NUMBERS;
        let left = self.rows.cols.saturating_sub(k);
        for r in 0..UNIT {
            let row = (self.u * UNIT + r).min(self.rows.rows - 1);
            let to = space.wrapping_add((r / ROWS) * STEPS * TILE + (r % ROWS) * STEP);
            // SAFETY: so many numbers are left in the row, and each line has its place in the block.
            unsafe {
                let from = self.weight.add(row * self.rows.stride + k);
                if left >= STEPS * P::NUMBERS {
                    for step in 0..STEPS {
                        _mm512_store_si512(to.add(step * TILE).cast(), W::line(from.add(step * P::NUMBERS)));
                    }
                    continue;
                }
                for step in 0..steps {
                    let count = P::NUMBERS.min(left.saturating_sub(step * P::NUMBERS));
                    let line = W::tail(from.add(step * P::NUMBERS), count);
                    _mm512_store_si512(to.add(step * TILE).cast(), line);
                }
            }
        }
    }
}

/// A block of sums, turned, to where they go.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
unsafe fn finish<P: Product, O: Elem>(
    (m, x_rows): (usize, usize),
    (n, weight_rows): (usize, usize),
    sums: *const u8,
    out: Output<O>,
) {
    for (quarter, (n, m)) in
        [(n, m), (n, m + ROWS), (n + ROWS, m), (n + ROWS, m + ROWS)].into_iter().enumerate()
    {
        let (columns, rows) = (weight_rows.saturating_sub(n).min(ROWS), x_rows.saturating_sub(m).min(ROWS));
        if columns == 0 || rows == 0 {
            continue;
        }
        // SAFETY: the tile is inside the sums, and what is stored inside the output.
        unsafe {
            let mut tile = [_mm512_setzero_ps(); ROWS];
            for i in 0..ROWS {
                tile[i] = P::sums(sums.add(quarter * TILE + i * 64));
            }
            store_turned::<P::Store, O>(out, (m, rows), (n, columns), tile);
        }
    }
}
