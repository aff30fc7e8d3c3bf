//! Many rows of x: weights are widened and turned once for all of them, into panels of two vectors' columns in
//! which each step along k is next to the one before. A tile of outer products then loads two vectors and a few
//! single numbers for up to 12 multiply-adds, where dot products load as much as they multiply.
//!
//! Turning costs about one operation for each weight; the panels of a block stay in L1, the sums in L2. A weight that
//! was packed ahead of the calls is in panels already, of its own type, and widened where it is multiplied.

use super::input::{DEPTH, Input};
use super::output::Output;
use super::product::Weight;
use super::turn::turn;
use crate::isa::{AHEAD, Elem, Isa, prefetch};
use std::ops::Range;

/// Columns of a unit of work: a panel of the widest vectors.
pub const UNIT: usize = 32;

/// Columns that are summed together, so that rows of x are passed over less often.
const COLUMNS: usize = 2 * UNIT;

/// Rows of x whose sums are kept: some 128 KiB.
const ROWS: usize = 512;

/// Rows of the largest tile, by which a block may be longer.
const MOST: usize = 12;

/// Numbers of scratch for a thread.
pub fn scratch(x_rows: usize) -> usize {
    COLUMNS * (DEPTH + x_rows.min(ROWS + MOST))
}

/// All rows of x times the weight rows of `units`, groups of [`UNIT`].
///
/// # Safety
/// `S`'s features; the rows are inside their tensors, `space` is valid for [`scratch`], nobody else works on these
/// units.
#[inline(always)]
pub unsafe fn blocked<S: Isa, W: Elem, O: Elem>(
    x: Input,
    weight: Weight<W>,
    units: Range<usize>,
    out: Output<O>,
    space: *mut f32,
) {
    let blocks = x.rows.div_ceil(ROWS);
    let (mut n, last) = (units.start * UNIT, weight.rows.rows.min(units.end * UNIT));
    while n < last {
        let columns = Columns { n, count: COLUMNS.min(last - n), panels: space };
        for block in 0..blocks {
            // Blocks of about the same size, of whole tiles.
            let bound = |i: usize| (x.rows * i / blocks).next_multiple_of(S::TILE).min(x.rows);
            let (start, end) = (bound(block), bound(block + 1));
            // SAFETY: by contract; the sums follow the panels.
            unsafe {
                let sums = space.add(COLUMNS * DEPTH);
                columns.sum::<S, W>(x, (start, end), weight, sums);
                columns.finish::<S, O>((start, end), sums, out);
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
    unsafe fn sum<S: Isa, W: Elem>(
        self,
        x: Input,
        (start, end): (usize, usize),
        Weight { ptr: weight, rows, packed }: Weight<W>,
        sums: *mut f32,
    ) {
        let width = 2 * S::W;
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
                        let source = weight.add(first * rows.stride + k);
                        let count = width.min(rows.rows - first);
                        turn::<S, W>(source, rows.stride, count, depth, self.panels.add(p * width * DEPTH));
                    }
                }
                for m in (start..end).step_by(S::TILE) {
                    let (tile, sums) = (x.tile(m, k, depth), sums.add((m - start) * COLUMNS));
                    let rows = S::TILE.min(end - m);
                    match packed {
                        true => {
                            let panels = (weight.add(self.n * x.cols + k * width), width * x.cols);
                            self.tiles::<S, W>(tile, panels, rows, depth, sums, (k > 0, m == start));
                        }
                        false => {
                            let panels = (self.panels.cast_const(), width * DEPTH);
                            self.tiles::<S, f32>(tile, panels, rows, depth, sums, (k > 0, false));
                        }
                    }
                }
                k += depth;
            }
        }
    }

    /// `rows` rows of x times all panels, the first one and how far apart they are; `first` where these panels come
    /// from memory now.
    ///
    /// # Safety
    /// As for [`blocked`].
    #[inline(always)]
    unsafe fn tiles<S: Isa, E: Elem>(
        self,
        x: *const f32,
        (panels, stride): (*const E, usize),
        rows: usize,
        depth: usize,
        sums: *mut f32,
        (add, first): (bool, bool),
    ) {
        let (width, mut m) = (2 * S::W, 0);
        macro_rules! tiles {
            ($rows:literal) => {{
                for p in 0..self.count.div_ceil(width) {
                    // SAFETY: rows and columns have their place in the scratch.
                    unsafe {
                        let panel = panels.add(p * stride);
                        let (x, sums) = (x.add(m * depth), sums.add(m * COLUMNS + p * width));
                        // Of the rows of x that come next each panel asks for a part.
                        let ahead = x.wrapping_add($rows * depth + 2 * DEPTH * p);
                        match first && m == 0 {
                            true => tile::<S, E, $rows, true>(x, panel, depth, sums, add, ahead),
                            false => tile::<S, E, $rows, false>(x, panel, depth, sums, add, ahead),
                        }
                    }
                }
                m += $rows;
            }};
        }
        while m < rows {
            match rows - m {
                12.. if S::TILE >= 12 => tiles!(12),
                6.. if S::TILE >= 6 => tiles!(6),
                4.. if S::TILE >= 6 => tiles!(4),
                2.. => tiles!(2),
                _ => tiles!(1),
            }
        }
    }

    /// # Safety
    /// As for [`blocked`].
    #[inline(always)]
    unsafe fn finish<S: Isa, O: Elem>(self, (start, end): (usize, usize), sums: *const f32, out: Output<O>) {
        for m in start..end {
            for j in (0..self.count).step_by(S::W) {
                // SAFETY: the columns are inside the output.
                unsafe {
                    let dots = S::load_f32(sums.add((m - start) * COLUMNS + j));
                    out.store::<S>(m, self.n + j, S::W.min(self.count - j), dots);
                }
            }
        }
    }
}

/// `ROWS` rows of x, `depth` apart, times a panel, added to `sums` or written there. From `ahead` on, a line is asked
/// for each eight steps, and where the panel is `STREAMED` from memory, what of it comes next.
///
/// # Safety
/// As for [`blocked`].
#[inline(always)]
unsafe fn tile<S: Isa, E: Elem, const ROWS: usize, const STREAMED: bool>(
    x: *const f32,
    panel: *const E,
    depth: usize,
    sums: *mut f32,
    add: bool,
    ahead: *const f32,
) {
    // SAFETY: every offset is below `depth` and inside its row.
    unsafe {
        let mut acc = [[S::splat(0.0); 2]; ROWS];
        let mut rows = [x; ROWS];
        for i in 0..ROWS {
            rows[i] = x.add(i * depth);
        }
        for k in 0..depth {
            if k % 8 == 0 {
                prefetch(ahead.wrapping_add(2 * k));
            }
            let at = panel.add(k * 2 * S::W);
            if STREAMED {
                prefetch(at.cast::<u8>().wrapping_add(AHEAD));
                prefetch(at.add(S::W).cast::<u8>().wrapping_add(AHEAD));
            }
            let (a, b) = (E::load::<S>(at), E::load::<S>(at.add(S::W)));
            for i in 0..ROWS {
                let v = S::splat(*rows[i].add(k));
                acc[i][0] = S::fma(v, a, acc[i][0]);
                acc[i][1] = S::fma(v, b, acc[i][1]);
            }
        }
        for i in 0..ROWS {
            for j in 0..2 {
                let at = sums.add(i * COLUMNS + j * S::W);
                let before = if add { S::load_f32(at) } else { S::splat(0.0) };
                S::store_f32(at, S::add(before, acc[i][j]));
            }
        }
    }
}
