//! x as f32. A few rows stay rows; many are cut into blocks of columns, in which the rows follow each other.
//!
//! Rows of a model's width are a power of two apart, so that the same column of each falls into the same few sets of
//! a cache. A block is read from its beginning to its end.

use crate::isa::{Elem, Isa};
use crate::pool::Plan;
use crate::quantization::rows::convert;
use crate::scratch::odd_lines;
use kernels_core::{DType, Rows, View};
use std::ops::Range;

/// Rows of x from which on its columns are cut into blocks, and weights turned: measured under every instruction set.
pub const MANY: usize = 33;

/// Up to so many rows of f32, or of pairs, stay where they are.
const FEW: usize = 4;

/// Steps along k of a block, and of a panel of weights: 16 KiB of 16 columns.
pub const DEPTH: usize = 256;

/// x as f32: in rows `stride` apart, or `cut` into blocks of columns.
#[derive(Clone, Copy)]
pub struct Input {
    pub rows: usize,
    pub cols: usize,
    pub cut: bool,
    pub ptr: *const f32,
    pub stride: usize,
}

/// Whether x times a weight that comes in panels already, or not, is cut.
pub fn is_cut(x: &View<'_>, packed: bool) -> bool {
    packed || x.rows().is_some_and(|r| r.rows >= MANY)
}

impl Input {
    /// Bytes of scratch: none for a few rows that are f32 already.
    pub fn bytes(x: &View<'_>, cut: bool) -> usize {
        let Some(r) = x.rows() else { return 0 };
        let bytes = match (x.dtype(), cut) {
            (DType::F32, _) if stays(r, cut) => 0,
            (_, false) => 4 * r.rows * padded(r.cols),
            (_, true) => 4 * r.rows * r.cols,
        };
        bytes.next_multiple_of(64)
    }

    /// How [`Input::prepare`] splits: by rows.
    pub fn plan(x: &View<'_>, cut: bool) -> Plan {
        match (x.rows(), Input::bytes(x, cut)) {
            (None, _) | (_, 0) => Plan { units: 0, work: 0 },
            (Some(r), _) => Plan { units: r.rows, work: r.rows * r.cols },
        }
    }

    /// Widens rows of x into scratch.
    ///
    /// # Safety
    /// `S`'s features; `scratch` valid for [`Input::bytes`]; nobody else works on these rows.
    #[inline(always)]
    pub unsafe fn prepare<S: Isa>(x: &View<'_>, cut: bool, rows: Range<usize>, scratch: *mut u8) {
        let Some(r) = x.rows() else { return };
        let to = scratch.cast::<f32>();
        // SAFETY: passed on.
        unsafe {
            match x.dtype() {
                DType::F32 => lay::<S, f32>(x.as_ptr(), r, cut, rows, to),
                DType::F16 => lay::<S, kernels_core::f16>(x.as_ptr(), r, cut, rows, to),
                DType::BF16 => lay::<S, kernels_core::bf16>(x.as_ptr(), r, cut, rows, to),
                DType::F8E4M3 => lay::<S, kernels_core::F8E4M3>(x.as_ptr(), r, cut, rows, to),
                _ => {}
            }
        }
    }

    /// Lays rows of pairs into scratch, unless they stay where they are.
    ///
    /// # Safety
    /// As for [`Input::prepare`], of an x that [`can_pair`].
    #[inline(always)]
    pub unsafe fn prepare_pairs<S: Isa>(x: &View<'_>, cut: bool, rows: Range<usize>, scratch: *mut u8) {
        let Some(r) = x.rows() else { return };
        if !stays(r, cut) {
            // SAFETY: passed on.
            unsafe { lay::<S, f32>(x.as_ptr(), paired(r), cut, rows, scratch.cast()) }
        }
    }

    /// x after [`Input::prepare_pairs`].
    pub fn of_pairs(x: &View<'_>, cut: bool, scratch: *mut u8) -> Option<Input> {
        let r = paired(x.rows()?);
        let (ptr, stride) = match stays(r, cut) {
            true => (x.as_ptr(), r.stride),
            false => (scratch.cast_const().cast(), padded(r.cols)),
        };
        Some(Input { rows: r.rows, cols: r.cols, cut, ptr, stride })
    }

    /// x after [`Input::prepare`].
    pub fn of(x: &View<'_>, cut: bool, scratch: *mut u8) -> Option<Input> {
        let r = x.rows()?;
        let (ptr, stride) = match Input::bytes(x, cut) {
            0 => (x.as_ptr(), r.stride),
            _ => (scratch.cast_const().cast(), padded(r.cols)),
        };
        Some(Input { rows: r.rows, cols: r.cols, cut, ptr, stride })
    }

    /// Of blocks: steps `k..k + depth` of row `m` and, `depth` apart, of the rows after it. `k` is a multiple of
    /// [`DEPTH`], and `depth` is that or what is left.
    ///
    /// # Safety
    /// Both are inside x.
    #[inline(always)]
    pub unsafe fn tile(self, m: usize, k: usize, depth: usize) -> *const f32 {
        // SAFETY: inside the scratch.
        unsafe { self.ptr.add(k * self.rows + m * depth) }
    }
}

/// Whether rows of f32, or of pairs, are multiplied where they are.
fn stays(r: Rows, cut: bool) -> bool {
    !cut && r.rows <= FEW
}

/// Whether the rows of a tensor of bf16 are pairs that lie where an f32 may.
pub fn can_pair(x: &View<'_>) -> bool {
    let whole = |r: Rows| r.cols.is_multiple_of(2) && r.stride.is_multiple_of(2);
    x.dtype() == DType::BF16 && x.rows().is_some_and(whole) && x.as_ptr::<f32>().is_aligned()
}

/// Rows of so many pairs.
pub fn paired(r: Rows) -> Rows {
    Rows { rows: r.rows, cols: r.cols / 2, stride: r.stride / 2 }
}

/// Numbers from one row in scratch to the next.
fn padded(cols: usize) -> usize {
    odd_lines(4 * cols) / 4
}

/// Rows of `T`, cut or not, into scratch.
///
/// # Safety
/// As for [`Input::prepare`].
#[inline(always)]
pub unsafe fn lay<S: Isa, T: Elem>(x: *const T, r: Rows, cut: bool, rows: Range<usize>, to: *mut f32) {
    for m in rows {
        // SAFETY: the row is inside x, and has its place in the scratch.
        unsafe {
            let row = x.add(m * r.stride);
            if !cut {
                convert::<S, T, f32>(row, to.add(m * padded(r.cols)), r.cols);
                continue;
            }
            let mut k = 0;
            while k < r.cols {
                let depth = DEPTH.min(r.cols - k);
                convert::<S, T, f32>(row.add(k), to.add(k * r.rows + m * depth), depth);
                k += depth;
            }
        }
    }
}
