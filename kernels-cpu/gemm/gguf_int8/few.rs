//! Few rows of x by AVX2: blocks are unpacked in registers as they stream by, once for all of them.

use super::activations::Activations;
use super::formats::{Format, OCTET};
use super::octets::Rest;
use crate::isa::{AHEAD, Avx2, Isa, bytes, prefetch};
use std::arch::x86_64::*;

/// Sums for one product, so that an addition need not wait for the one before.
const CHAINS: usize = 4;

/// A weight row times `M` rows of x from `m` on.
///
/// # Safety
/// AVX2, FMA and F16C; all rows are inside their tensors.
#[inline(always)]
pub unsafe fn few<F: Format, const M: usize>(weight: *const u8, x: &Activations, m: usize) -> [f32; M] {
    // SAFETY: every offset is inside its row, which x's are filled up to whole octets.
    unsafe {
        let mut sums = Sums::<M>::zero();
        for octet in 0..x.cols / 256 {
            let at = weight.add(octet * F::BYTES);
            for line in 0..F::BYTES.div_ceil(64) {
                prefetch(at.wrapping_add(AHEAD + 64 * line));
            }
            sums.add::<F>(at, x, m, octet);
        }
        if !x.cols.is_multiple_of(256) {
            sums.add::<F>(Rest::of::<F>(weight, x.cols).as_ptr(), x, m, x.cols / 256);
        }
        sums.total()
    }
}

struct Sums<const M: usize> {
    products: [[__m256; CHAINS]; M],
    minima: [__m256; M],
}

impl<const M: usize> Sums<M> {
    /// # Safety
    /// AVX.
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: by contract.
        let zero = unsafe { Avx2::splat(0.0) };
        Sums { products: [[zero; CHAINS]; M], minima: [zero; M] }
    }

    /// Adds eight groups.
    ///
    /// # Safety
    /// As for [`few`]; `at` is valid for an octet.
    #[inline(always)]
    unsafe fn add<F: Format>(&mut self, at: *const u8, x: &Activations, m: usize, octet: usize) {
        // SAFETY: by contract.
        unsafe {
            let scales = F::scales(at);
            let mut both = [[0f32; 2 * OCTET]; M];
            for i in 0..M {
                let d = Avx2::load_f32(x.d(m + i).add(OCTET * octet));
                if F::HALVES {
                    let (low, high) = (_mm256_unpacklo_ps(d, d), _mm256_unpackhi_ps(d, d));
                    let first = _mm256_permute2f128_ps::<0x20>(low, high);
                    let last = _mm256_permute2f128_ps::<0x31>(low, high);
                    Avx2::store_f32(both[i].as_mut_ptr(), Avx2::mul(first, scales.d[0]));
                    Avx2::store_f32(both[i].as_mut_ptr().add(OCTET), Avx2::mul(last, scales.d[1]));
                } else {
                    Avx2::store_f32(both[i].as_mut_ptr(), Avx2::mul(d, scales.d[0]));
                }
                if !F::SIGNED {
                    let s = Avx2::load_f32(x.s(m + i).add(OCTET * octet));
                    self.minima[i] = Avx2::fma(s, scales.m, self.minima[i]);
                }
            }
            for g in 0..OCTET {
                let q = F::bytes(at, g);
                for i in 0..M {
                    let signed = _mm256_loadu_si256(x.q(m + i).add(32 * (OCTET * octet + g)).cast());
                    let (unsigned, signed) = match F::SIGNED {
                        true => (_mm256_abs_epi8(q), _mm256_sign_epi8(signed, q)),
                        false => (q, signed),
                    };
                    let sum = bytes::wide(bytes::add_products(bytes::none(), unsigned, signed));
                    let scale = match F::HALVES {
                        true => _mm256_set_m128(_mm_set1_ps(both[i][2 * g + 1]), _mm_set1_ps(both[i][2 * g])),
                        false => _mm256_set1_ps(both[i][g]),
                    };
                    let into = &mut self.products[i][g % CHAINS];
                    *into = Avx2::fma(_mm256_cvtepi32_ps(sum), scale, *into);
                }
            }
        }
    }

    /// # Safety
    /// AVX.
    #[inline(always)]
    unsafe fn total(self) -> [f32; M] {
        let mut out = [0f32; M];
        for i in 0..M {
            let [a, b, c, d] = self.products[i];
            // SAFETY: by contract.
            out[i] =
                unsafe { Avx2::sum(Avx2::add(Avx2::add(Avx2::add(a, b), Avx2::add(c, d)), self.minima[i])) };
        }
        out
    }
}
