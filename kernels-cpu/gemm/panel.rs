//! Some weight rows times a few rows of x, with bias, rounded once into the output.

use super::input::Input;
use super::output::Output;
use super::tile::{NR, largest_mr, tile};
use crate::isa::{Elem, Isa};

/// x times `count` weight rows from row `n` on (`w[j]` is row `n + j`; beyond `count` the last one again).
///
/// # Safety
/// `S`'s features; weight rows valid for `cols` elements, the output for the rows and columns named.
#[inline(always)]
pub unsafe fn panel<S: Isa, W: Elem, O: Elem>(
    x: Input,
    w: [*const W; NR],
    (n, count): (usize, usize),
    out: Output<O>,
) {
    // SAFETY: m + MR never passes the end.
    unsafe {
        let (mut m, end) = (0, x.rows);
        if largest_mr::<S>() == 6 {
            while m + 6 <= end {
                step::<S, W, O, 6>(x, m, w, (n, count), out);
                m += 6;
            }
            if m + 4 <= end {
                step::<S, W, O, 4>(x, m, w, (n, count), out);
                m += 4;
            }
        }
        while m + 2 <= end {
            step::<S, W, O, 2>(x, m, w, (n, count), out);
            m += 2;
        }
        if m < end {
            step::<S, W, O, 1>(x, m, w, (n, count), out);
        }
    }
}

/// # Safety
/// As for [`panel`], for rows `m..m + MR`.
#[inline(always)]
unsafe fn step<S: Isa, W: Elem, O: Elem, const MR: usize>(
    x: Input,
    m: usize,
    w: [*const W; NR],
    (n, count): (usize, usize),
    out: Output<O>,
) {
    // SAFETY: passed on.
    unsafe {
        let mut rows = [x.ptr; MR];
        for i in 0..MR {
            rows[i] = x.ptr.add((m + i) * x.stride);
        }
        let dots = tile::<S, W, MR>(rows, w, x.cols);
        for i in 0..MR {
            for j in 0..count {
                out.put(m + i, n + j, dots[i][j]);
            }
        }
    }
}
