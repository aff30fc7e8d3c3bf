//! Rounded rows of x by columns, as tiles take them.

use super::activations::Activations;
use super::formats::OCTET;
use crate::isa::amx::{ROWS, turned};
use kernels_ops::gemm::LinearGguf;
use std::arch::x86_64::*;
use std::ops::Range;

/// Bytes of a group of 32 numbers of 16 rows.
pub const GROUP: usize = 32 * ROWS;

/// Rounded rows of x by columns, in tiles of 16 rows: for each group its bytes in words of 4, scales, and sums times
/// scales.
#[derive(Clone, Copy)]
pub struct X<'x> {
    pub from: &'x Activations,
    pub tiles: usize,
    pub groups: usize,
    ptr: *mut u8,
}

// SAFETY: the call's own scratch, of which each thread writes its part.
unsafe impl Sync for X<'_> {}

impl X<'_> {
    /// In `ptr`, valid for [`X::bytes`].
    pub fn new(from: &Activations, ptr: *mut u8) -> X<'_> {
        X { from, tiles: from.rows.div_ceil(ROWS), groups: (from.cols / 32).next_multiple_of(OCTET), ptr }
    }

    /// Bytes of scratch.
    pub fn bytes(&self) -> usize {
        self.tiles * self.groups * (GROUP + 2 * 64)
    }

    /// What follows it in the scratch.
    pub fn end(&self) -> *mut u8 {
        self.ptr.wrapping_add(self.bytes())
    }

    /// Bytes of a group of a tile.
    pub fn q(&self, tile: usize, group: usize) -> *mut u8 {
        self.ptr.wrapping_add((tile * self.groups + group) * GROUP)
    }

    /// Scales of a group, and sums times them.
    pub fn scales(&self, tile: usize, group: usize) -> [*mut f32; 2] {
        let at = self.ptr.wrapping_add(self.tiles * self.groups * GROUP).cast::<f32>();
        [0, 1].map(|i| at.wrapping_add(((i * self.tiles + tile) * self.groups + group) * ROWS))
    }
}

/// Rounds and lays tiles; rows past the last are zeros.
///
/// # Safety
/// The features of the spec's requirement, checked arguments on the host, tiles that nobody else works on.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
pub unsafe fn lay(a: &LinearGguf<'_>, x: &X<'_>, tiles: Range<usize>) {
    // SAFETY: passed on; every row is inside x, and has its place in the scratch.
    unsafe {
        for tile in tiles {
            let rows = tile * ROWS..x.from.rows.min((tile + 1) * ROWS);
            x.from.round(&a.x, rows.clone());
            for pair in 0..x.groups / 2 {
                let mut words = [_mm512_setzero_ps(); ROWS];
                for m in rows.clone() {
                    words[m - rows.start] = _mm512_loadu_ps(x.from.q(m).add(64 * pair).cast());
                }
                let words = turned(words);
                for i in 0..ROWS {
                    _mm512_storeu_ps(x.q(tile, 2 * pair).add(64 * i).cast(), words[i]);
                }
            }
            for group in 0..x.groups {
                let to = x.scales(tile, group);
                for i in 0..ROWS {
                    let m = rows.start + i;
                    let (d, s) = match m < rows.end {
                        true => (*x.from.d(m).add(group), *x.from.s(m).add(group)),
                        false => (0.0, 0.0),
                    };
                    to[0].add(i).write(d);
                    to[1].add(i).write(s);
                }
            }
        }
    }
}
