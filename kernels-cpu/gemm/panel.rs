//! Some weight rows times a few rows of x, with bias, rounded once into the output. The rows of x take several turns at a
//! piece of the weights; in each a part of the next piece is asked for, so that memory is never idle.

use super::input::{Input, MANY};
use super::output::Output;
use super::tile::{Ahead, NR, add, largest_mr};
use super::times::Times;
use crate::isa::{Elem, Isa};
use std::mem::MaybeUninit;

/// Elements of each weight row that all rows of x are multiplied with before the next ones: they stay in L1.
const DEPTH: usize = 1024;

/// x times `count` weight rows from row `n` on (`w[j]` is row `n + j`; beyond `count` the last one again). The same of
/// the rows that come next begins `next` elements after each.
///
/// # Safety
/// `S`'s features; fewer rows than [`MANY`]; weight rows valid for `cols` elements, the output for the rows and columns
/// named.
#[inline(always)]
pub unsafe fn panel<S: Isa, W: Elem, O: Elem, T: Times>(
    x: Input,
    (w, next): ([*const W; NR], usize),
    (n, count): (usize, usize),
    out: Output<O>,
) {
    // SAFETY: m + MR never passes the end, k + depth neither; sums are written before they are read.
    unsafe {
        let (mut sums, end) = ([const { MaybeUninit::<[S::V; NR]>::uninit() }; MANY], x.rows.min(MANY));
        for row in &mut sums[..end] {
            row.write([S::splat(0.0); NR]);
        }
        let sums = sums.as_mut_ptr().cast::<[S::V; NR]>();
        let most = largest_mr::<S>();
        // Six, then four, two and one.
        let turns = if most == 6 { end / 6 + [0, 1, 1, 2, 1, 2][end % 6] } else { end.div_ceil(2) };
        for k in (0..x.cols).step_by(DEPTH) {
            let depth = DEPTH.min(x.cols - k);
            let (mut at, mut ahead) = (w, Ahead { next: w[0].wrapping_add(next + k * NR), turn: 0, turns });
            for j in 0..NR {
                at[j] = w[j].add(k);
            }
            let mut m = 0;
            macro_rules! some {
                ($rows:literal) => {{
                    let mut rows = [x.ptr; $rows];
                    for i in 0..$rows {
                        rows[i] = x.ptr.add((m + i) * x.stride + k);
                    }
                    add::<S, W, T, $rows>(&mut *sums.add(m).cast(), rows, at, depth, Some(ahead));
                    m += $rows;
                    ahead.turn += 1;
                }};
            }
            while m < end {
                match end - m {
                    6.. if most == 6 => some!(6),
                    4.. if most == 6 => some!(4),
                    2.. => some!(2),
                    _ => some!(1),
                }
            }
        }
        for m in 0..end {
            let dots = S::sum4(*sums.add(m));
            for j in 0..count {
                out.put(m, n + j, dots[j]);
            }
        }
    }
}
