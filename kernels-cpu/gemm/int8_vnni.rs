//! `gemm.int8_scaled_mm` by AVX-512 VNNI. Many rows go to [`int8_many`]; few are dot products along the dense dimension
//! of both matrices, 64 numbers for each instruction. It takes unsigned bytes with signed ones: rows of `a` are copied
//! once a call, moved up by 128, and 128 times the sum of a row of `b` is taken off. Exact.
//!
//! Copied rows lie an odd number of lines apart: a power of two apart, as they often come, rows fall into the same sets of
//! L1.

use super::{int8_many, output::Output};
use crate::isa::{Avx512, Elem, lowest, prefetch_later};
use crate::pool::{Plan, split};
use crate::scratch::odd_lines;
use crate::variants::with_float;
use kernels_core::{
    Backend, CpuFeatures, Ctx, DType, DTypeSet, Formats, Requirement, Rows, RunError, kernel,
};
use kernels_ops::gemm::Int8ScaledMm;
use std::arch::x86_64::*;
use std::ops::Range;

kernel!(unsafe {
    op: Int8ScaledMm,
    backend: Backend::SIMD,
    variant: "avx512vnni",
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::of(&[DType::I8])),
    run: run; workspace: workspace,
    requires: &[Requirement::cpu(CpuFeatures::AVX512_TIER.union(CpuFeatures::AVX512VNNI))],
    // Twice as fast as pairs of products, however much those kernels require.
    priority: 1,
});

/// Rows of `b` of a unit: a vector of the output.
const UNIT: usize = 16;

/// Rows of `b` that are multiplied together.
const NR: usize = 4;

/// Bytes of `a` that stay in a core's L2 while the rows of `b` pass over them.
const BLOCK: usize = 704 << 10;

/// Numbers of a vector.
const W: usize = 64;

fn plan(a: &Int8ScaledMm<'_>) -> Plan {
    let b = &a.b;
    Plan { units: b.dim(0).div_ceil(UNIT), work: a.a.dim(0).max(16) / 16 * b.layout().elements() }
}

pub fn workspace(a: &Int8ScaledMm<'_>, threads: usize) -> usize {
    if int8_many::takes(a) {
        return int8_many::workspace(a, threads);
    }
    a.a.dim(0) * odd_lines(a.a.dim(1))
}

/// # Safety
/// The features of the spec's requirement, and checked arguments on the host.
pub unsafe fn run(ctx: &Ctx, a: &Int8ScaledMm<'_>) -> Result<(), RunError> {
    if int8_many::takes(a) {
        // SAFETY: passed on.
        unsafe { int8_many::run(ctx, a) };
        return Ok(());
    }
    let (Some(x), Some(w)) = (a.a.rows(), a.b.rows()) else { return Ok(()) };
    let copy = Copied { ptr: ctx.workspace().0, stride: odd_lines(x.cols) };
    let copying = Plan { units: x.rows, work: x.rows * x.cols / 4 };
    // SAFETY: passed on; rows and units are handed out once each.
    split(copying, ctx.threads, &|rows, _| unsafe { copy.rows(a.a.as_ptr(), x, rows) });
    // SAFETY: as above.
    split(plan(a), ctx.threads, &|units, _| unsafe { part(a, (copy, x.rows), w, units) });
    Ok(())
}

/// Rows of `a`, moved up.
#[derive(Clone, Copy)]
struct Copied {
    ptr: *mut u8,
    stride: usize,
}

// SAFETY: the call's own scratch, of which each thread writes its part.
unsafe impl Sync for Copied {}

impl Copied {
    /// # Safety
    /// AVX-512 F and BW; the rows are inside the matrix and the scratch, nobody else works on them.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn rows(self, x: *const i8, Rows { cols, stride, .. }: Rows, rows: Range<usize>) {
        for m in rows {
            for k in (0..cols).step_by(W) {
                // SAFETY: what is masked out is not touched, and a whole vector has its place in the scratch.
                unsafe {
                    let numbers = _mm512_maskz_loadu_epi8(lowest(cols - k), x.add(m * stride + k));
                    let up = _mm512_xor_si512(numbers, _mm512_set1_epi8(-128));
                    _mm512_store_si512(self.ptr.add(m * self.stride + k).cast(), up);
                }
            }
        }
    }
}

/// # Safety
/// The features of the spec's requirement, checked arguments on the host, units that nobody else works on.
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn part(a: &Int8ScaledMm<'_>, (x, rows): (Copied, usize), w: Rows, units: Range<usize>) {
    let block = (BLOCK / x.stride).max(UNIT);
    with_float!(a.out.dtype(), O => {
        let Some(out) = Output::<O>::of(&a.out, a.bias.as_ref()) else { return };
        let product = Product { x, w: (a.b.as_ptr(), w), out: out.scaled(&a.scales_a, &a.scales_b) };
        for start in (0..rows).step_by(block) {
            for n in units.clone().map(|u| u * UNIT) {
                // SAFETY: the rows are inside their matrices.
                unsafe { product.unit(start..rows.min(start + block), n) };
            }
        }
    })
}

#[derive(Clone, Copy)]
struct Product<O> {
    x: Copied,
    w: (*const i8, Rows),
    out: Output<O>,
}

/// What is asked for from memory meanwhile, as far as L2: as many rows of `b` as a unit has, in one piece, from `next` on;
/// a part of them for each of so many `rows` of x, so that memory is never idle.
struct Ahead {
    next: *const i8,
    rows: usize,
}

/// Of each row of `b` in a unit, what its sums are too much.
type Excess = [__m128i; UNIT / NR];

impl<O: Elem> Product<O> {
    /// All of `rows` times the rows of `b` from `n` on.
    ///
    /// # Safety
    /// As for [`part`]; the rows are inside their matrices.
    #[inline(always)]
    unsafe fn unit(self, Range { start: mut m, end }: Range<usize>, n: usize) {
        // SAFETY: m and what is added to it never pass the end.
        unsafe {
            let mut excess = [_mm_setzero_si128(); UNIT / NR];
            let next = self.w.0.wrapping_add((n + UNIT) * self.w.1.stride);
            let mut ahead = Ahead { next, rows: end - m };
            // The first rows find out the excess.
            match end - m {
                0 => return,
                1 => self.rows::<1, true>(&mut m, n, &mut excess, &mut ahead),
                2 | 3 => self.rows::<2, true>(&mut m, n, &mut excess, &mut ahead),
                _ => self.rows::<4, true>(&mut m, n, &mut excess, &mut ahead),
            }
            while m + 6 <= end {
                self.rows::<6, false>(&mut m, n, &mut excess, &mut ahead);
            }
            while m + 2 <= end {
                self.rows::<2, false>(&mut m, n, &mut excess, &mut ahead);
            }
            if m < end {
                self.rows::<1, false>(&mut m, n, &mut excess, &mut ahead);
            }
        }
    }

    /// `MR` rows from `m` on, which is moved past them.
    ///
    /// # Safety
    /// As for [`Product::unit`].
    #[inline(always)]
    unsafe fn rows<const MR: usize, const FIRST: bool>(
        self,
        m: &mut usize,
        n: usize,
        excess: &mut Excess,
        ahead: &mut Ahead,
    ) {
        let (w, b) = self.w;
        // Of four rows' lines.
        let lines = (NR * b.cols * MR).div_ceil(W * ahead.rows);
        // SAFETY: the rows of x are inside the copy; rows of b past the last repeat it.
        unsafe {
            let mut xs = [self.x.ptr.cast_const(); MR];
            for i in 0..MR {
                xs[i] = self.x.ptr.add((*m + i) * self.x.stride);
            }
            let mut dots = [[_mm_setzero_si128(); UNIT / NR]; MR];
            for j in 0..UNIT / NR {
                let mut ws = [w; NR];
                for i in 0..NR {
                    ws[i] = w.add((n + NR * j + i).min(b.rows - 1) * b.stride);
                }
                let (sums, all) = dot_products::<MR, FIRST>(xs, ws, b.cols, (ahead.next, lines));
                ahead.next = ahead.next.wrapping_add(lines * W);
                if FIRST {
                    excess[j] = all;
                }
                for i in 0..MR {
                    dots[i][j] = _mm_sub_epi32(sums[i], excess[j]);
                }
            }
            for i in 0..MR {
                let dots = _mm512_cvtepi32_ps(_mm512_loadu_si512(dots[i].as_ptr().cast()));
                self.out.store::<Avx512>(*m + i, n, UNIT.min(b.rows - n), dots);
            }
        }
        *m += MR;
    }
}

/// Sums of `MR` copied rows with each of four rows of `b`, of `cols` numbers, while so many `lines` are asked for from
/// `next` on. Where the rows are met `FIRST`, what the sums are too much comes with them.
///
/// # Safety
/// AVX-512 F, BW and VNNI; `x` are rows of the copy, `w` is valid for `cols` numbers.
#[inline(always)]
unsafe fn dot_products<const MR: usize, const FIRST: bool>(
    x: [*const u8; MR],
    w: [*const i8; NR],
    cols: usize,
    (next, lines): (*const i8, usize),
) -> ([__m128i; MR], __m128i) {
    // SAFETY: every offset is below cols, up to whole vectors in the copy; what is masked out is not touched.
    unsafe {
        let zero = _mm512_setzero_si512();
        let (mut sums, mut all) = ([[zero; NR]; MR], [zero; NR]);
        macro_rules! step {
            ($k:expr, |$w:ident| $load:expr) => {
                let mut ws = [zero; NR];
                for n in 0..NR {
                    let $w = w[n].add($k);
                    ws[n] = $load;
                    if FIRST {
                        all[n] = _mm512_dpbusd_epi32(all[n], _mm512_set1_epi8(-128), ws[n]);
                    }
                }
                for m in 0..MR {
                    let x = _mm512_load_si512(x[m].add($k).cast());
                    for n in 0..NR {
                        sums[m][n] = _mm512_dpbusd_epi32(sums[m][n], x, ws[n]);
                    }
                }
            };
        }
        let full = cols - cols % W;
        let (each, mut line) = (lines.div_ceil((full / W).max(1)), 0);
        for k in (0..full).step_by(W) {
            for line in line..lines.min(line + each) {
                prefetch_later(next.wrapping_add(line * W));
            }
            line += each;
            step!(k, |w| _mm512_loadu_si512(w.cast()));
        }
        if full < cols {
            step!(full, |w| _mm512_maskz_loadu_epi8(lowest(cols - full), w));
        }
        let mut out = [_mm_setzero_si128(); MR];
        for m in 0..MR {
            out[m] = total(sums[m]);
        }
        (out, total(all))
    }
}

/// The sums of four vectors.
///
/// # Safety
/// AVX-512 F.
#[inline(always)]
unsafe fn total([a, b, c, d]: [__m512i; NR]) -> __m128i {
    // SAFETY: by contract.
    unsafe {
        let two = |a, b| _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (ab, cd) = (two(a, b), two(c, d));
        let four = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
        let half = _mm256_add_epi32(_mm512_castsi512_si256(four), _mm512_extracti64x4_epi64::<1>(four));
        _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
    }
}
