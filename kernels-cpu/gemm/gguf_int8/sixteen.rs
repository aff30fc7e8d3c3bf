//! Sixteen weight rows, unpacked, and their products on tiles.

use super::columns::{GROUP, X};
use super::formats::{Format, OCTET, Scales};
use super::octets::Rest;
use super::panel::store;
use crate::isa::amx::{ROWS, SUMS, TILE, Tiles, four};
use crate::isa::prefetch;
use crate::quantization::rows::row_bytes;
use kernels_core::Rows;
use std::arch::x86_64::*;
use std::ops::Range;

/// Octets of weights that are unpacked together: with their scales they stay in L1.
pub const OCTETS: usize = 4;

/// Groups of 16 weight rows: bytes row by row, and for each group (or half) 16 scales, and 16 minima.
#[derive(Clone, Copy)]
pub struct Sixteen {
    pub q: *mut u8,
    pub d: *mut f32,
    pub m: *mut f32,
    products: *mut u8,
}

impl Sixteen {
    /// Of scratch: of groups the bytes, scales (two for each group) and minima, and products twice.
    pub const BYTES: usize = OCTETS * OCTET * (GROUP + 3 * 64) + 2 * SUMS;

    /// In `space`, valid for [`Sixteen::BYTES`].
    pub fn new(space: *mut u8) -> Sixteen {
        let groups = OCTETS * OCTET;
        let d = space.wrapping_add(groups * GROUP);
        let m = d.wrapping_add(groups * 2 * 64);
        Sixteen { q: space, d: d.cast(), m: m.cast(), products: m.wrapping_add(groups * 64) }
    }

    /// Unpacks octets of weight rows from `n` on; past the last the last again. `unsigned`: signed bytes are moved up by
    /// 128.
    ///
    /// # Safety
    /// AVX-512 F, BW, DQ and VL, AVX2 and F16C; rows, groups and sums are inside what they belong to.
    #[inline(always)]
    pub unsafe fn fill<F: Format>(
        self,
        unsigned: bool,
        weight: *const u8,
        rows: Rows,
        n: usize,
        octets: Range<usize>,
    ) {
        // SAFETY: every octet is inside its row, or a copy of the row's rest.
        unsafe {
            for octet in octets.clone() {
                let group = (octet - octets.start) * OCTET;
                // Of eight rows at a time.
                let mut scales = [[[_mm256_setzero_ps(); 8]; 2]; 2];
                let mut minima = [[_mm256_setzero_ps(); 8]; 2];
                for r in 0..ROWS {
                    let row = weight.add((n + r).min(rows.rows - 1) * row_bytes(F::DTYPE, rows.stride));
                    let copy;
                    let at = if (octet + 1) * 256 <= rows.cols {
                        row.add(octet * F::BYTES)
                    } else {
                        copy = Rest::of::<F>(row, rows.cols);
                        copy.as_ptr()
                    };
                    let Scales { d, m } = F::scales(at);
                    let (eight, i) = (r / 8, r % 8);
                    (scales[0][eight][i], scales[1][eight][i], minima[eight][i]) = (d[0], d[1], m);
                    for g in 0..OCTET {
                        let to = self.q.add((group + g) * GROUP + 32 * r);
                        let bytes = F::bytes(at, g);
                        let bytes = match F::SIGNED && unsigned {
                            true => _mm256_xor_si256(bytes, _mm256_set1_epi8(-128)),
                            false => bytes,
                        };
                        _mm256_storeu_si256(to.cast(), bytes);
                    }
                }
                let halves = if F::HALVES { 2 } else { 1 };
                for eight in 0..2 {
                    for h in 0..halves {
                        let to = self.d.add((group * halves + h * OCTET) * ROWS + 8 * eight);
                        store(to, ROWS, scales[h][eight]);
                    }
                    if !F::SIGNED {
                        store(self.m.add(group * ROWS + 8 * eight), ROWS, minima[eight]);
                    }
                }
            }
        }
    }
}

/// What multiplies sixteen weight rows with sixteen rows of x.
///
/// # Safety of all methods
/// The implementation's features, with AVX-512 F, BW, DQ and VL, AVX2 and F16C; rows, groups and sums are inside what
/// they belong to.
#[allow(clippy::missing_safety_doc)]
pub trait Multiplier<F: Format> {
    /// Weights are taken as unsigned bytes.
    const UNSIGNED: bool;

    unsafe fn ready() -> Self;

    /// Adds the products of `groups` groups with a tile of x to `sums`, or begins them.
    unsafe fn times(
        &self,
        weights: Sixteen,
        x: &X<'_>,
        tile: usize,
        first: usize,
        groups: usize,
        sums: *mut f32,
    );
}

impl<F: Format, const BYTES: u16> Multiplier<F> for Tiles<BYTES> {
    const UNSIGNED: bool = false;

    #[inline(always)]
    unsafe fn ready() -> Self {
        // SAFETY: passed on.
        unsafe { Tiles::configured() }
    }

    #[inline(always)]
    unsafe fn times(
        &self,
        weights: Sixteen,
        x: &X<'_>,
        tile: usize,
        first: usize,
        groups: usize,
        sums: *mut f32,
    ) {
        let each = BYTES as usize;
        // SAFETY: by contract.
        unsafe {
            let mut acc = [_mm512_setzero_ps(); ROWS];
            if first > 0 {
                for i in 0..ROWS {
                    acc[i] = _mm512_loadu_ps(sums.add(i * ROWS));
                }
            }
            let multiply = |step: usize| {
                let to = weights.products.wrapping_add(step / (4 * each) % 2 * SUMS);
                let group = step / 32;
                four(self, weights.q.add(group * GROUP), x.q(tile, first + group), to);
                to.cast_const()
            };
            let mut products = multiply(0);
            for step in (0..groups * 32).step_by(4 * each) {
                // What tiles store can be loaded only some time after it.
                let next = step + 4 * each;
                let ready = if next < groups * 32 { multiply(next) } else { products };
                let here = std::mem::replace(&mut products, ready);
                let soon = x.q(tile, first + (step + 2 * 4 * each) / 32);
                for line in 0..each {
                    prefetch(soon.wrapping_add(64 * line));
                }
                for i in 0..4 {
                    let group = (step + i * each) / 32;
                    let [dx, sx] = x.scales(tile, first + group).map(|p| _mm512_loadu_ps(p));
                    let d = weights.d.add((step / each + i) * ROWS);
                    for r in 0..ROWS {
                        let product = _mm512_loadu_si512(here.add(i * TILE + r * 64).cast());
                        let scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(product), _mm512_set1_ps(*d.add(r)));
                        acc[r] = _mm512_fmadd_ps(scaled, dx, acc[r]);
                    }
                    if !F::SIGNED {
                        let m = weights.m.add(group * ROWS);
                        for r in 0..ROWS {
                            acc[r] = _mm512_fmadd_ps(_mm512_set1_ps(*m.add(r)), sx, acc[r]);
                        }
                    }
                }
            }
            for i in 0..ROWS {
                _mm512_storeu_ps(sums.add(i * ROWS), acc[i]);
            }
        }
    }
}
