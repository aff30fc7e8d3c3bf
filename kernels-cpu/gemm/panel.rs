//! Some weight rows times a few rows of x, with bias, rounded once into the output.

use super::input::Input;
use super::tile::{NR, largest_mr, tile};
use crate::isa::{Elem, Isa};

/// Where results go.
#[derive(Clone, Copy)]
pub struct Output<O> {
    pub ptr: *mut O,
    pub stride: usize,
    pub bias: Option<*const O>,
    /// What results are multiplied by before the bias: of each row of x, and of each weight row.
    pub scales: Option<(*const f32, *const f32)>,
}

impl<O> Output<O> {
    /// Without the first `n` columns.
    ///
    /// # Safety
    /// There are that many.
    #[inline(always)]
    pub unsafe fn from_column(self, n: usize) -> Self {
        // SAFETY: by contract.
        unsafe {
            Output {
                ptr: self.ptr.add(n),
                bias: self.bias.map(|b| b.add(n)),
                scales: self.scales.map(|(x, w)| (x, w.add(n))),
                ..self
            }
        }
    }
}

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
                let dot = match out.scales {
                    Some((x, w)) => dots[i][j] * *x.add(m + i) * *w.add(n + j),
                    None => dots[i][j],
                };
                let bias = match out.bias {
                    Some(bias) => (*bias.add(n + j)).to_f32(),
                    None => 0.0,
                };
                out.ptr.add((m + i) * out.stride + n + j).write(O::from_f32(dot + bias));
            }
        }
    }
}
