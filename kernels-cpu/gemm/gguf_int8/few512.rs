//! Few rows of x by AVX-512 VNNI: two groups of 32 weights for each vector, unpacked in registers as they stream by, once
//! for up to four rows of x.

use super::activations::Activations;
use super::formats::{self, OCTET};
use super::octets::Rest;
use super::wide::{VECTORS, Wide};
use super::{Output, ROWS, plan};
use crate::isa::{AHEAD, Elem, prefetch};
use crate::pool::{Plan, split};
use crate::quantization::rows::row_bytes;
use crate::variants::with_float;
use kernels_core::{Ctx, RunError};
use kernels_ops::gemm::{LinearGguf, int8_activations::BLOCK};
use std::arch::x86_64::*;
use std::ops::Range;

/// Up to so many rows of x, this is the fastest.
pub const FEW: usize = 8;

/// Rounded rows of x in the order of [`Wide::ORDER`]; and what sums of products begin with, so that weights count from
/// [`Wide::CENTRE`].
#[derive(Clone, Copy)]
struct Few {
    x: Activations,
    q: *mut i8,
    begin: *mut i32,
}

// SAFETY: pointers into the call's scratch; threads write disjoint rows of it.
unsafe impl Sync for Few {}

impl Few {
    fn new(a: &LinearGguf<'_>, scratch: *mut u8) -> Option<Few> {
        let x = Activations::new(&a.x, scratch)?;
        let q = scratch.wrapping_add(Activations::bytes(&a.x)).cast::<i8>();
        Some(Few { x, q, begin: q.wrapping_add(x.rows * x.blocks * BLOCK).cast() })
    }

    /// Vector `v` of an octet of row `m`, of bytes or of their sums.
    #[inline(always)]
    fn at(&self, m: usize, octet: usize, v: usize) -> usize {
        ((m * self.x.blocks + octet * OCTET) / OCTET * VECTORS + v) * 64
    }

    /// Rounds a row.
    ///
    /// # Safety
    /// AVX-512 F and VNNI, and [`Activations::round`]'s contract.
    #[inline(always)]
    unsafe fn round<F: Wide>(&self, a: &LinearGguf<'_>, m: usize) {
        // SAFETY: passed on; every octet is inside the row.
        unsafe {
            self.x.round(&a.x, m..m + 1);
            for octet in 0..self.x.blocks / OCTET {
                let from = self.x.q(m).add(octet * OCTET * BLOCK);
                let to = self.q.add(self.at(m, octet, 0));
                for (i, half) in F::ORDER.into_iter().enumerate() {
                    _mm_storeu_si128(to.add(16 * i).cast(), _mm_loadu_si128(from.add(16 * half).cast()));
                }
                if F::CENTRE == 0 {
                    continue;
                }
                let (together, none) = (if F::MERGED { 2 } else { 1 }, _mm512_setzero_si512());
                for v in (0..VECTORS).step_by(together) {
                    let mut sums = none;
                    for v in v..v + together {
                        let q = _mm512_loadu_si512(to.add(64 * v).cast());
                        sums = _mm512_dpbusd_epi32(sums, _mm512_set1_epi8(F::CENTRE as i8), q);
                    }
                    let begin = self.begin.cast::<u8>().add(self.at(m, octet, v));
                    _mm512_storeu_si512(begin.cast(), _mm512_sub_epi32(none, sums));
                }
            }
        }
    }
}

pub fn workspace(a: &LinearGguf<'_>) -> usize {
    // Bytes in another order, and their sums: no more than the bytes with their scales, twice.
    3 * Activations::bytes(&a.x)
}

/// # Safety
/// AVX-512 F, BW, DQ, VL and VNNI, AVX2, FMA and F16C; checked arguments on the host.
pub unsafe fn run(ctx: &Ctx, a: &LinearGguf<'_>) -> Result<(), RunError> {
    macro_rules! formats {
        ($($format:ident)*) => {
            match a.weight.dtype() {
                // SAFETY: passed on.
                $( kernels_core::DType::$format => unsafe { typed::<formats::$format>(ctx, a) }, )*
                _ => {}
            }
        };
    }
    formats!(Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4K Q5K Q6K);
    Ok(())
}

/// # Safety
/// As for [`run`].
unsafe fn typed<F: Wide>(ctx: &Ctx, a: &LinearGguf<'_>) {
    let Some(x) = Few::new(a, ctx.workspace().0) else { return };
    let rounding = Plan { units: x.x.rows, work: x.x.rows * x.x.cols };
    // SAFETY: passed on; rows and units are handed out once each.
    split(rounding, ctx.threads, &|rows, _| unsafe { round::<F>(a, &x, rows) });
    // SAFETY: as above.
    split(plan(a, &x.x), ctx.threads, &|units, _| unsafe { part::<F>(a, &x, units) });
}

/// # Safety
/// As for [`run`]; rows that nobody else works on.
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn round<F: Wide>(a: &LinearGguf<'_>, x: &Few, rows: Range<usize>) {
    for m in rows {
        // SAFETY: passed on.
        unsafe { x.round::<F>(a, m) };
    }
}

/// # Safety
/// As for [`run`]; units that nobody else works on.
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn part<F: Wide>(a: &LinearGguf<'_>, x: &Few, units: Range<usize>) {
    let Some(rows) = a.weight.rows() else { return };
    let (stride, last) = (row_bytes(F::DTYPE, rows.stride), rows.rows.min(units.end * ROWS));
    with_float!(a.x.dtype(), O => {
        let Some(out) = Output::<O>::of(&a.out, a.bias.as_ref()) else { return };
        for n in units.start * ROWS..last {
            let row = a.weight.as_ptr::<u8>().wrapping_add(n * stride);
            let mut m = 0;
            // SAFETY: n and m stay inside the weight and x.
            unsafe {
                while m + 4 <= x.x.rows {
                    put::<F, O, 4>(row, x, (m, n), out);
                    m += 4;
                }
                if m + 2 <= x.x.rows {
                    put::<F, O, 2>(row, x, (m, n), out);
                    m += 2;
                }
                if m < x.x.rows {
                    put::<F, O, 1>(row, x, (m, n), out);
                }
            }
        }
    })
}

/// A weight row times `M` rows of x, from row `m` of the output on.
///
/// # Safety
/// As for [`part`]; `row` is row `n` of the weight.
#[inline(always)]
unsafe fn put<F: Wide, O: Elem, const M: usize>(
    row: *const u8,
    x: &Few,
    (m, n): (usize, usize),
    out: Output<O>,
) {
    // SAFETY: every octet is inside the row, which x's are filled up to whole octets.
    unsafe {
        let mut sums = Sums::<M>::zero();
        for octet in 0..x.x.cols / 256 {
            let at = row.add(octet * F::BYTES);
            for line in 0..F::BYTES.div_ceil(64) {
                prefetch(at.wrapping_add(AHEAD + 64 * line));
            }
            sums.add::<F>(at, x, m, octet);
        }
        if !x.x.cols.is_multiple_of(256) {
            sums.add::<F>(Rest::of::<F>(row, x.x.cols).as_ptr(), x, m, x.x.cols / 256);
        }
        for i in 0..M {
            out.put(m + i, n, sums.total(i));
        }
    }
}

/// Which of an octet's scales each lane of each vector has.
const fn places<F: Wide>() -> [[i32; 16]; VECTORS] {
    let (mut places, mut at) = ([[0; 16]; VECTORS], 0);
    while at < 16 * VECTORS {
        let half = F::ORDER[at / 4];
        places[at / 16][at % 16] = (if F::HALVES { half } else { half / 2 }) as i32;
        at += 1;
    }
    places
}

/// A sum for each vector of an octet, so that an addition need not wait for the one before.
struct Sums<const M: usize> {
    products: [[__m512; VECTORS]; M],
    minima: [__m256; M],
}

impl<const M: usize> Sums<M> {
    /// # Safety
    /// AVX-512 F.
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: by contract.
        unsafe { Sums { products: [[_mm512_setzero_ps(); VECTORS]; M], minima: [_mm256_setzero_ps(); M] } }
    }

    /// Adds eight groups.
    ///
    /// # Safety
    /// As for [`put`]; `at` is valid for an octet.
    #[inline(always)]
    unsafe fn add<F: Wide>(&mut self, at: *const u8, x: &Few, m: usize, octet: usize) {
        // SAFETY: by contract.
        unsafe {
            let place = |p: &[i32; 16]| _mm512_loadu_si512(p.as_ptr().cast());
            let (d, minima) = F::wide_scales(at);
            let mut both = [_mm512_setzero_ps(); M];
            for i in 0..M {
                let mut dx = _mm512_castps256_ps512(_mm256_loadu_ps(x.x.d(m + i).add(OCTET * octet)));
                if F::HALVES {
                    dx = _mm512_permutexvar_ps(place(&[0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]), dx);
                }
                both[i] = _mm512_mul_ps(dx, d);
                if F::CENTRE == 0 {
                    let s = _mm256_loadu_ps(x.x.s(m + i).add(OCTET * octet));
                    self.minima[i] = _mm256_fmadd_ps(s, minima, self.minima[i]);
                }
            }
            let (places, q) = (const { places::<F>() }, F::vectors(at));
            for i in 0..M {
                let mut sums = _mm512_setzero_si512();
                for v in 0..VECTORS {
                    let here = x.at(m + i, octet, v);
                    let begins = !F::MERGED || v % 2 == 0;
                    if begins && F::CENTRE > 0 {
                        sums = _mm512_loadu_si512(x.begin.cast::<u8>().add(here).cast());
                    } else if begins {
                        sums = _mm512_setzero_si512();
                    }
                    sums = _mm512_dpbusd_epi32(sums, q[v], _mm512_loadu_si512(x.q.add(here).cast()));
                    if !F::MERGED || v % 2 == 1 {
                        let scale = _mm512_permutexvar_ps(place(&places[v]), both[i]);
                        self.products[i][v] =
                            _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), scale, self.products[i][v]);
                    }
                }
            }
        }
    }

    /// Of row `i`.
    ///
    /// # Safety
    /// AVX-512 F and DQ.
    #[inline(always)]
    unsafe fn total(&self, i: usize) -> f32 {
        let [a, b, c, d] = self.products[i];
        // SAFETY: by contract.
        unsafe {
            let all = _mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d));
            let minima = _mm512_zextps256_ps512(self.minima[i]);
            _mm512_reduce_add_ps(_mm512_add_ps(all, minima))
        }
    }
}
