//! Many rows of x: eight weight rows are unpacked side by side, so that each lane of a sum is a column of the
//! output and nothing is added across lanes.

use super::activations::Activations;
use super::formats::{Format, OCTET};
use super::octets::Rest;
use crate::isa::{Avx2, Isa, Square, bytes};
use std::arch::x86_64::*;

/// Weight rows of a panel.
pub const ROWS: usize = 8;

/// Four weights of each of eight rows for each vector of bytes, and eight scales and minima for each group.
#[derive(Clone, Copy)]
pub struct Panel {
    q: *mut u8,
    d: *mut f32,
    m: *mut f32,
}

impl Panel {
    /// Bytes of scratch for rows of `cols` weights: scales for each 16, and minima for each 32, of them.
    pub fn bytes(cols: usize) -> usize {
        let cols = cols.next_multiple_of(256);
        ROWS * (cols + 4 * (cols / 16) + 4 * (cols / 32)).next_multiple_of(64)
    }

    /// In `scratch`, valid for [`Panel::bytes`] and aligned to 32.
    pub fn new(cols: usize, scratch: *mut u8) -> Panel {
        let cols = cols.next_multiple_of(256);
        let d = scratch.wrapping_add(ROWS * cols).cast::<f32>();
        Panel { q: scratch, d, m: d.wrapping_add(ROWS * (cols / 16)) }
    }

    /// Unpacks `count` rows, `stride` bytes apart; beyond `count` the last one again.
    ///
    /// # Safety
    /// AVX2 and F16C; the rows are inside the weight, the panel is this thread's.
    #[inline(always)]
    pub unsafe fn fill<F: Format>(&self, weight: *const u8, stride: usize, count: usize, cols: usize) {
        // SAFETY: every offset is inside its row, and has its place in the panel.
        unsafe {
            let row = |r: usize| weight.add(r.min(count - 1) * stride);
            for octet in 0..cols / 256 {
                let mut at = [weight; ROWS];
                for r in 0..ROWS {
                    at[r] = row(r).add(octet * F::BYTES);
                }
                self.octet::<F>(at, octet);
            }
            if !cols.is_multiple_of(256) {
                let (mut rests, mut at) = ([Rest::of::<F>(weight, cols); ROWS], [weight; ROWS]);
                for r in 0..ROWS {
                    rests[r] = Rest::of::<F>(row(r), cols);
                    at[r] = rests[r].as_ptr();
                }
                self.octet::<F>(at, cols / 256);
            }
        }
    }

    /// Unpacks eight groups of each row.
    ///
    /// # Safety
    /// As for [`Panel::fill`].
    #[inline(always)]
    unsafe fn octet<F: Format>(&self, at: [*const u8; ROWS], octet: usize) {
        // SAFETY: by contract.
        unsafe {
            let (mut d, mut m) = ([[_mm256_setzero_ps(); ROWS]; 2], [_mm256_setzero_ps(); ROWS]);
            for r in 0..ROWS {
                let scales = F::scales(at[r]);
                (d[0][r], d[1][r], m[r]) = (scales.d[0], scales.d[1], scales.m);
            }
            let halves = if F::HALVES { 2 } else { 1 };
            for h in 0..halves {
                store(self.d.add((octet * halves + h) * OCTET * ROWS), ROWS, d[h]);
            }
            if !F::SIGNED {
                store(self.m.add(octet * OCTET * ROWS), ROWS, m);
            }
            for g in 0..OCTET {
                // Words of four bytes are moved as if they were floats.
                let mut words = [_mm256_setzero_ps(); ROWS];
                for r in 0..ROWS {
                    words[r] = _mm256_castsi256_ps(F::bytes(at[r], g));
                }
                let turned = Avx2::transposed(words);
                for i in 0..ROWS {
                    let to = self.q.add(((OCTET * octet + g) * ROWS + i) * 32);
                    Avx2::store_f32(to.cast(), turned[i]);
                }
            }
        }
    }

    /// The panel's rows times `M` rows of x from `m` on.
    ///
    /// # Safety
    /// AVX2 and FMA; the panel was filled, the rows are inside x.
    #[inline(always)]
    pub unsafe fn times<F: Format, const M: usize>(&self, x: &Activations, m: usize) -> [__m256; M] {
        // SAFETY: every offset is inside the panel or its row.
        unsafe {
            let (room, mut out) = (bytes::room(F::LARGEST), [Avx2::splat(0.0); M]);
            let mut rows = [x.q(m); M];
            for i in 0..M {
                rows[i] = x.q(m + i);
            }
            for g in 0..x.cols / 32 {
                for half in 0..if F::HALVES { 2 } else { 1 } {
                    let steps = if F::HALVES { 4 } else { 8 };
                    let (mut sums, mut wide) = ([bytes::none(); M], [_mm256_setzero_si256(); M]);
                    for step in 0..steps {
                        let at = g * ROWS + 4 * half + step;
                        let q = _mm256_load_si256(self.q.add(32 * at).cast());
                        let unsigned = if F::SIGNED { _mm256_abs_epi8(q) } else { q };
                        for i in 0..M {
                            let four = _mm256_set1_epi32(rows[i].add(4 * at).cast::<i32>().read_unaligned());
                            let signed = if F::SIGNED { _mm256_sign_epi8(four, q) } else { four };
                            sums[i] = bytes::add_products(sums[i], unsigned, signed);
                            if (step + 1) % room == 0 && step + 1 < steps {
                                wide[i] = _mm256_add_epi32(wide[i], bytes::wide(sums[i]));
                                sums[i] = bytes::none();
                            }
                        }
                    }
                    let d = Avx2::load_f32(self.d.add((if F::HALVES { 2 * g + half } else { g }) * ROWS));
                    for i in 0..M {
                        let sum = _mm256_cvtepi32_ps(_mm256_add_epi32(wide[i], bytes::wide(sums[i])));
                        out[i] = Avx2::fma(Avx2::mul(sum, d), _mm256_set1_ps(*x.d(m + i).add(g)), out[i]);
                    }
                }
                if !F::SIGNED {
                    let min = Avx2::load_f32(self.m.add(g * ROWS));
                    for i in 0..M {
                        out[i] = Avx2::fma(min, _mm256_set1_ps(*x.s(m + i).add(g)), out[i]);
                    }
                }
            }
            out
        }
    }
}

/// Eight scales of each row as, for each scale, those of the eight rows, `stride` numbers apart.
///
/// # Safety
/// AVX2; `out` valid for them.
#[inline(always)]
pub unsafe fn store(out: *mut f32, stride: usize, rows: [__m256; ROWS]) {
    // SAFETY: by contract.
    unsafe {
        let turned = Avx2::transposed(rows);
        for i in 0..ROWS {
            Avx2::store_f32(out.add(i * stride), turned[i]);
        }
    }
}
