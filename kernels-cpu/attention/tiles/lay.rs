//! Values and weights as tiles take them.

use super::{NUMBERS, SECOND, place};
use crate::attention::chunk::CHUNK;
use crate::attention::state::Scratch;
use crate::isa::amx::{self, STEP, TILE};
use kernels_core::bf16;
use std::arch::x86_64::*;
use std::ops::Range;

/// Values of some tokens.
pub struct Values<'a> {
    pub rows: &'a [*const bf16],
    /// Elements from there to the head's.
    pub at: usize,
    pub dim: usize,
}

impl Values<'_> {
    /// Whether none is infinite or NaN.
    ///
    /// # Safety
    /// AVX-512 BW; the values are whole vectors inside the cache.
    #[inline(always)]
    pub unsafe fn finite(&self) -> bool {
        // SAFETY: by contract.
        unsafe {
            let exponent = _mm512_set1_epi16(0x7F80);
            let mut wrong = 0;
            for row in self.rows {
                for step in 0..self.dim / NUMBERS {
                    let v = _mm512_loadu_si512(row.add(self.at + step * NUMBERS).cast());
                    wrong |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(v, exponent), exponent);
                }
            }
            wrong == 0
        }
    }

    /// As pairs of tiles, 16 columns each: rows of pairs of tokens. Tokens after the last are zeros.
    ///
    /// # Safety
    /// AVX-512 F and BW; the values are whole vectors inside the cache, and have their place.
    #[inline(always)]
    pub unsafe fn lay(&self, to: *mut u8) {
        // SAFETY: by contract.
        unsafe {
            // Lanes interleave their lower and their upper halves: what is to come out together is put there.
            let spread = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
            for i in (0..self.rows.len().next_multiple_of(NUMBERS)).step_by(2) {
                let to = to.add(i / NUMBERS * TILE + i % NUMBERS / 2 * STEP);
                for pair in 0..self.dim / NUMBERS {
                    let mut v = [_mm512_setzero_si512(); 2];
                    for j in 0..2 {
                        if i + j < self.rows.len() {
                            let line =
                                _mm512_loadu_si512(self.rows[i + j].add(self.at + pair * NUMBERS).cast());
                            v[j] = _mm512_permutexvar_epi64(spread, line);
                        }
                    }
                    let to = to.add(place(pair));
                    _mm512_store_si512(to.cast(), _mm512_unpacklo_epi16(v[0], v[1]));
                    _mm512_store_si512(to.add(SECOND).cast(), _mm512_unpackhi_epi16(v[0], v[1]));
                }
            }
        }
    }
}

/// Weights as pairs of tiles: their upper halves, and what these leave.
///
/// # Safety
/// AVX-512 F and BF16; the rows' weights are in the scratch, and have their place.
#[inline(always)]
pub unsafe fn lay_weights(to: *mut u8, s: &Scratch, rows: usize, tokens: Range<usize>) {
    // SAFETY: by contract.
    unsafe {
        let upper = _mm512_set1_epi32(0xFFFF_0000_u32 as i32);
        for r in 0..rows {
            let to = to.add(place(r / amx::ROWS) + r % amx::ROWS * STEP);
            for step in 0..tokens.len().div_ceil(NUMBERS) {
                let (mut high, mut low) = ([_mm512_setzero_ps(); 2], [_mm512_setzero_ps(); 2]);
                for half in 0..2 {
                    let c = tokens.start + step * NUMBERS + half * 16;
                    // Weights are there for whole vectors of tokens.
                    if c < tokens.end {
                        let w = _mm512_loadu_ps(s.scores.add(r * CHUNK + c));
                        high[half] = _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(w), upper));
                        low[half] = _mm512_sub_ps(w, high[half]);
                    }
                }
                let to = to.add(step * TILE);
                let pack =
                    |[a, b]: [__m512; 2]| std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(b, a));
                _mm512_store_si512(to.cast(), pack(high));
                _mm512_store_si512(to.add(SECOND).cast(), pack(low));
            }
        }
    }
}
