//! A panel: some weight rows times all rows of x, with bias, rounded once into the output.

use super::tile::{NR, largest_mr, tile};
use crate::isa::{Elem, Isa};
use crate::quantization::rows::convert;
use kernels_core::{Rows, View};

/// Rows of x that stay in a core's L2 (at 4096 columns 1 MiB) while a panel passes over them.
pub const X_BLOCK: usize = 64;

/// x as f32 rows.
#[derive(Clone, Copy)]
pub struct Input {
    pub rows: usize,
    pub cols: usize,
    pub ptr: *const f32,
    pub stride: usize,
}

/// Bytes of scratch for x as f32: none where it is f32 already.
pub fn input_bytes(x: &View<'_>) -> usize {
    match (x.dtype(), x.rows()) {
        (kernels_core::DType::F32, _) | (_, None) => 0,
        (_, Some(r)) => (4 * r.rows * padded(r.cols)).next_multiple_of(64),
    }
}

fn padded(cols: usize) -> usize {
    cols.next_multiple_of(16)
}

/// Widens x into scratch, where it is not f32.
///
/// # Safety
/// `S`'s features; `scratch` valid for [`input_bytes`].
#[inline(always)]
pub unsafe fn widen<S: Isa>(x: &View<'_>, scratch: *mut u8) {
    let Some(r) = x.rows() else { return };
    // SAFETY: row i is inside x and inside the scratch.
    unsafe {
        match x.dtype() {
            kernels_core::DType::F16 => rows::<S, kernels_core::f16>(x.as_ptr(), r, scratch.cast()),
            kernels_core::DType::BF16 => rows::<S, kernels_core::bf16>(x.as_ptr(), r, scratch.cast()),
            kernels_core::DType::F8E4M3 => rows::<S, kernels_core::F8E4M3>(x.as_ptr(), r, scratch.cast()),
            _ => {}
        }
    }
}

/// # Safety
/// As for [`widen`].
#[inline(always)]
unsafe fn rows<S: Isa, T: Elem>(x: *const T, r: Rows, out: *mut f32) {
    for i in 0..r.rows {
        // SAFETY: row i is inside both.
        unsafe { convert::<S, T, f32>(x.add(i * r.stride), out.add(i * padded(r.cols)), r.cols) };
    }
}

/// x as f32 rows after [`widen`].
pub fn input(x: &View<'_>, scratch: *mut u8) -> Option<Input> {
    let r = x.rows()?;
    Some(match x.dtype() {
        kernels_core::DType::F32 => Input { rows: r.rows, cols: r.cols, ptr: x.as_ptr(), stride: r.stride },
        _ => Input { rows: r.rows, cols: r.cols, ptr: scratch.cast_const().cast(), stride: padded(r.cols) },
    })
}

/// Where results go.
#[derive(Clone, Copy)]
pub struct Output<O> {
    pub ptr: *mut O,
    pub stride: usize,
    pub bias: Option<*const O>,
    /// What results are multiplied by before the bias: of each row of x, and of each weight row.
    pub scales: Option<(*const f32, *const f32)>,
}

/// Rows `start..end` of x times `count` weight rows from row `n` on (`w[j]` is row `n + j`; beyond `count` the
/// last one again).
///
/// # Safety
/// `S`'s features; weight rows valid for `cols` elements, the output for the rows and columns named.
#[inline(always)]
pub unsafe fn panel<S: Isa, W: Elem, O: Elem>(
    x: Input,
    (start, end): (usize, usize),
    w: [*const W; NR],
    (n, count): (usize, usize),
    out: Output<O>,
) {
    // SAFETY: m + MR never passes end.
    unsafe {
        let mut m = start;
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
