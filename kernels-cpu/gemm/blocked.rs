//! Many rows of x: weights are widened and turned once for all of them, into panels of two vectors' columns in
//! which each step along k is next to the one before. A tile of outer products then loads two vectors and a few
//! single numbers for up to 12 multiply-adds, where dot products load as much as they multiply.
//!
//! Turning costs about one operation for each weight; the panels of a block stay in L1, the sums in L2. A weight that
//! was packed ahead of the calls is in panels already, of its own type, and widened where it is multiplied. Pairs of bf16
//! are turned as what they stand for, numbers of f32, and never widened.

use super::input::{DEPTH, Input};
use super::outer::{Multiply, Outer, Panels, outer};
use super::output::Output;
use super::product::Weight;
use super::turn::turn;
use crate::isa::{Elem, Isa};
use std::ops::Range;

/// Columns of a unit of work: a panel of the widest vectors.
pub const UNIT: usize = 32;

/// Columns that are summed together, so that rows of x are passed over less often.
const COLUMNS: usize = 2 * UNIT;

/// Up to so many rows of x weights are all that takes time.
const FEW: usize = 4;

/// Rows of x whose sums are kept: some 128 KiB.
const ROWS: usize = 512;

/// Rows of the largest tile, by which a block may be longer.
const MOST: usize = 12;

/// What becomes of sums.
pub trait Results<S: Isa>: Copy {
    /// Those of `count` columns of row `m` from `n` on, at most a vector.
    ///
    /// # Safety
    /// `S`'s features; the elements are inside the output.
    unsafe fn take(self, m: usize, n: usize, count: usize, sums: S::V);
}

impl<S: Isa, O: Elem> Results<S> for Output<O> {
    #[inline(always)]
    unsafe fn take(self, m: usize, n: usize, count: usize, sums: S::V) {
        // SAFETY: passed on.
        unsafe { self.store::<S>(m, n, count, sums) }
    }
}

/// Numbers of scratch for a thread.
pub fn scratch(x_rows: usize) -> usize {
    COLUMNS * (DEPTH + x_rows.min(ROWS + MOST))
}

/// All rows of x times the weight rows of `units`, groups of [`UNIT`].
///
/// # Safety
/// `S`'s features; the rows are inside their tensors, and `M`'s, packed where it takes several numbers of x a step;
/// `space` is valid for [`scratch`], nobody else works on these units.
#[inline(always)]
pub unsafe fn blocked<S: Isa, W: Elem, M: Multiply<S>>(
    x: Input,
    weight: Weight<W>,
    units: Range<usize>,
    out: impl Results<S>,
    space: *mut f32,
) {
    let blocks = x.rows.div_ceil(ROWS);
    let (mut n, last) = (units.start * UNIT, weight.rows.rows.min(units.end * UNIT));
    // Packed panels lie one after another: memory is read from one end to the other, unless x takes longer.
    let together = if weight.packed && x.rows <= FEW { UNIT } else { COLUMNS };
    while n < last {
        let columns = Columns { n, count: together.min(last - n), panels: space };
        for block in 0..blocks {
            // Blocks of about the same size, of whole tiles.
            let bound = |i: usize| (x.rows * i / blocks).next_multiple_of(S::TILE).min(x.rows);
            let (start, end) = (bound(block), bound(block + 1));
            // SAFETY: by contract; the sums follow the panels.
            unsafe {
                let sums = space.add(COLUMNS * DEPTH);
                columns.sum::<S, W, M>(x, (start, end), weight, sums);
                columns.finish::<S>((start, end), sums, out);
            }
        }
        n += columns.count;
    }
}

/// Columns `n..n + count` of the output.
#[derive(Clone, Copy)]
struct Columns {
    n: usize,
    count: usize,
    panels: *mut f32,
}

impl Columns {
    /// # Safety
    /// As for [`blocked`].
    #[inline(always)]
    unsafe fn sum<S: Isa, W: Elem, M: Multiply<S>>(
        self,
        x: Input,
        (start, end): (usize, usize),
        Weight { ptr: weight, rows, packed }: Weight<W>,
        sums: *mut f32,
    ) {
        let (width, steps) = (2 * S::W, x.cols / M::NUMBERS);
        // SAFETY: rows m.. and columns n.. are inside their tensors, and have their place in the scratch.
        unsafe {
            if x.cols == 0 {
                sums.write_bytes(0, COLUMNS * (end - start));
            }
            let mut k = 0;
            while k < x.cols {
                let depth = DEPTH.min(x.cols - k);
                if !packed {
                    for p in 0..self.count.div_ceil(width) {
                        let first = self.n + p * width;
                        let mut sources = [weight; UNIT];
                        for i in 0..width {
                            sources[i] = weight.add((first + i).min(rows.rows - 1) * rows.stride + k);
                        }
                        turn::<S, W>(&sources[..width], depth, self.panels.add(p * width * DEPTH), DEPTH);
                    }
                }
                for m in (start..end).step_by(S::TILE) {
                    let x = (x.tile(m, k, depth), depth);
                    let sums = (sums.add((m - start) * COLUMNS), COLUMNS);
                    let (rows, count) = (S::TILE.min(end - m), self.count.div_ceil(width));
                    match packed {
                        true => {
                            let first = weight.add(self.n * steps + k / M::NUMBERS * width);
                            let panels = Panels { first, count, apart: width * steps, stride: width };
                            let (depth, streamed) = (depth / M::NUMBERS, m == start);
                            outer::<S, W, M, DEPTH>(
                                Outer { x, panels, depth, sums, add: k > 0, streamed },
                                rows,
                            );
                        }
                        false => {
                            let first = self.panels.cast_const();
                            let panels = Panels { first, count, apart: width * DEPTH, stride: width };
                            let streamed = false;
                            outer::<S, f32, M, DEPTH>(
                                Outer { x, panels, depth, sums, add: k > 0, streamed },
                                rows,
                            );
                        }
                    }
                }
                k += depth;
            }
        }
    }

    /// # Safety
    /// As for [`blocked`].
    #[inline(always)]
    unsafe fn finish<S: Isa>(self, (start, end): (usize, usize), sums: *const f32, out: impl Results<S>) {
        for m in start..end {
            for j in (0..self.count).step_by(S::W) {
                // SAFETY: the columns are inside the output.
                unsafe {
                    let dots = S::load_f32(sums.add((m - start) * COLUMNS + j));
                    out.take(m, self.n + j, S::W.min(self.count - j), dots);
                }
            }
        }
    }
}
