//! x as signed bytes: blocks of 32 with a scale, as `kernels_ops::gemm::int8_activations` defines them.

use crate::isa::{Avx2, Elem, Isa};
use kernels_core::{DType, View};
use kernels_ops::gemm::int8_activations::{BLOCK, TINY};
use std::ops::Range;

/// Rows of bytes, the blocks' scales, and the blocks' sums times their scales.
#[derive(Clone, Copy)]
pub struct Activations {
    pub rows: usize,
    pub cols: usize,
    /// Blocks of a row, filled up with zeros to a multiple of eight.
    pub blocks: usize,
    q: *mut i8,
    d: *mut f32,
    s: *mut f32,
}

// SAFETY: pointers into the call's scratch; threads write disjoint rows of it.
unsafe impl Sync for Activations {}

impl Activations {
    /// Bytes of scratch.
    pub fn bytes(x: &View<'_>) -> usize {
        x.rows().map_or(0, |r| (r.rows * blocks(r.cols) * (BLOCK + 8)).next_multiple_of(64))
    }

    /// In `scratch`, valid for [`Activations::bytes`].
    pub fn new(x: &View<'_>, scratch: *mut u8) -> Option<Activations> {
        let r = x.rows()?;
        let blocks = blocks(r.cols);
        let d = scratch.wrapping_add(r.rows * blocks * BLOCK).cast::<f32>();
        let s = d.wrapping_add(r.rows * blocks);
        Some(Activations { rows: r.rows, cols: r.cols, blocks, q: scratch.cast(), d, s })
    }

    /// Bytes of row `m`.
    ///
    /// # Safety
    /// `m` is below `rows`.
    #[inline(always)]
    pub unsafe fn q(&self, m: usize) -> *const i8 {
        // SAFETY: inside the scratch.
        unsafe { self.q.add(m * self.blocks * BLOCK) }
    }

    /// Scales of the blocks of row `m`.
    ///
    /// # Safety
    /// `m` is below `rows`.
    #[inline(always)]
    pub unsafe fn d(&self, m: usize) -> *const f32 {
        // SAFETY: inside the scratch.
        unsafe { self.d.add(m * self.blocks) }
    }

    /// Sums of the blocks of row `m`, times their scales.
    ///
    /// # Safety
    /// `m` is below `rows`.
    #[inline(always)]
    pub unsafe fn s(&self, m: usize) -> *const f32 {
        // SAFETY: inside the scratch.
        unsafe { self.s.add(m * self.blocks) }
    }

    /// Rounds `rows` of x.
    ///
    /// # Safety
    /// AVX2, FMA, F16C; x is on the host; nobody else works on these rows.
    #[inline(always)]
    pub unsafe fn round(&self, x: &View<'_>, rows: Range<usize>) {
        let Some(r) = x.rows() else { return };
        for m in rows {
            // SAFETY: the row is inside x and the scratch.
            unsafe {
                match x.dtype() {
                    DType::F32 => self.row(m, x.as_ptr::<f32>().add(m * r.stride)),
                    DType::F16 => self.row(m, x.as_ptr::<kernels_core::f16>().add(m * r.stride)),
                    _ => self.row(m, x.as_ptr::<kernels_core::bf16>().add(m * r.stride)),
                }
            }
        }
    }

    /// # Safety
    /// As for [`Activations::round`].
    #[inline(always)]
    unsafe fn row<T: Elem>(&self, m: usize, x: *const T) {
        type S = Avx2;
        let blocks = self.cols / BLOCK;
        // SAFETY: what fills the row up is inside the scratch.
        unsafe {
            let (at, left) = (m * self.blocks + blocks, self.blocks - blocks);
            self.q.add(at * BLOCK).write_bytes(0, left * BLOCK);
            self.d.add(at).write_bytes(0, left);
            self.s.add(at).write_bytes(0, left);
        }
        for g in 0..blocks {
            // SAFETY: four vectors are a block, and the block is inside the row.
            unsafe {
                let (mut v, mut size, mut strange) = ([S::splat(0.0); 4], S::splat(0.0), S::splat(0.0));
                for i in 0..4 {
                    v[i] = T::load::<S>(x.add(g * BLOCK + 8 * i));
                    size = S::max(S::max(v[i], S::sub(S::splat(0.0), v[i])), size);
                    // NaN for what is not finite.
                    strange = S::fma(v[i], S::splat(0.0), strange);
                }
                let largest = S::largest(size);
                let inverse = S::splat(if largest > TINY { 127.0 / largest } else { 0.0 });
                let at = m * self.blocks + g;
                let (q, mut sum) = (self.q.add(at * BLOCK), S::splat(0.0));
                for i in 0..4 {
                    let rounded = S::round(S::mul(v[i], inverse));
                    S::store_i8(q.add(8 * i), rounded);
                    sum = S::add(sum, rounded);
                }
                let d = largest / 127.0 + S::sum(strange);
                self.d.add(at).write(d);
                self.s.add(at).write(d * S::sum(sum));
            }
        }
    }
}

/// Blocks of a row with what fills it up.
fn blocks(cols: usize) -> usize {
    (cols / BLOCK).next_multiple_of(8)
}
