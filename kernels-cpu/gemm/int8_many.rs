//! `gemm.int8_scaled_mm` of many rows by AVX-512 VNNI: outer products of quads, four numbers that stand where an f32 would.
//! The instruction takes unsigned bytes with signed ones: rows of `b` are moved up by 128 where they are multiplied, and 128
//! times the sum of a row of `a` is taken off. Exact.

use super::blocked::{self, Results, blocked};
use super::input::{Input, lay};
use super::outer::Multiply;
use super::output::Output;
use super::product::Weight;
use crate::isa::{Avx512, Elem, lowest};
use crate::pool::{Plan, split};
use crate::variants::with_float;
use kernels_core::{Ctx, Rows, View};
use kernels_ops::gemm::Int8ScaledMm;
use std::arch::x86_64::*;
use std::ops::Range;

/// Numbers of a quad.
const QUAD: usize = 4;

/// Rows of `a` from which on turning `b` is worth it, measured.
const MANY: usize = 64;

/// Whether there are many rows, and quads lie where an f32 may.
pub fn takes(a: &Int8ScaledMm<'_>) -> bool {
    let whole = |r: Rows| r.cols.is_multiple_of(QUAD) && r.stride.is_multiple_of(QUAD);
    let fits = |v: &View<'_>| v.rows().is_some_and(whole) && v.as_ptr::<f32>().is_aligned();
    a.a.dim(0) >= MANY && fits(&a.a) && fits(&a.b)
}

/// Rows of so many quads.
fn quads(r: Rows) -> Rows {
    Rows { rows: r.rows, cols: r.cols / QUAD, stride: r.stride / QUAD }
}

/// Bytes of scratch: `a` in blocks, the excess of each of its rows, and each thread's panels and sums.
pub fn workspace(a: &Int8ScaledMm<'_>, threads: usize) -> usize {
    sums_at(a) + threads * thread_bytes(a)
}

fn excess_at(a: &Int8ScaledMm<'_>) -> usize {
    (a.a.dim(0) * a.a.dim(1)).next_multiple_of(64)
}

fn sums_at(a: &Int8ScaledMm<'_>) -> usize {
    excess_at(a) + (size_of::<i32>() * a.a.dim(0)).next_multiple_of(64)
}

fn thread_bytes(a: &Int8ScaledMm<'_>) -> usize {
    size_of::<f32>() * blocked::scratch(a.a.dim(0))
}

fn at<T>(ctx: &Ctx, offset: usize) -> *mut T {
    ctx.workspace().0.wrapping_add(offset).cast()
}

/// # Safety
/// AVX-512 VNNI, F, BW, DQ and VL, AVX2, FMA and F16C; checked arguments on the host, which [`takes`] takes.
pub unsafe fn run(ctx: &Ctx, a: &Int8ScaledMm<'_>) {
    let copying = Plan { units: a.a.dim(0), work: a.a.layout().elements() / 4 };
    let columns = a.b.dim(0).div_ceil(blocked::UNIT);
    let products = Plan { units: columns, work: a.a.dim(0) / 16 * a.b.layout().elements() };
    // SAFETY: passed on; rows and units are handed out once each.
    unsafe {
        split(copying, ctx.threads, &|rows, _| copy(ctx, a, rows));
        split(products, ctx.threads, &|units, thread| part(ctx, a, units, thread));
    }
}

/// # Safety
/// As for [`run`]; nobody else works on these rows.
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn copy(ctx: &Ctx, a: &Int8ScaledMm<'_>, rows: Range<usize>) {
    let Some(r) = a.a.rows() else { return };
    // SAFETY: the rows are inside the matrix and the scratch; what is masked out is not touched.
    unsafe {
        lay::<Avx512, f32>(a.a.as_ptr(), quads(r), true, rows.clone(), at(ctx, 0));
        for m in rows {
            let (row, mut sum) = (a.a.as_ptr::<i8>().add(m * r.stride), _mm512_setzero_si512());
            for k in (0..r.cols).step_by(64) {
                let numbers = _mm512_maskz_loadu_epi8(lowest(r.cols - k), row.add(k));
                sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(-128), numbers);
            }
            at::<i32>(ctx, excess_at(a)).add(m).write(_mm512_reduce_add_epi32(sum));
        }
    }
}

/// # Safety
/// As for [`run`]; rows are copied, nobody else works on these units.
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn part(ctx: &Ctx, a: &Int8ScaledMm<'_>, units: Range<usize>, thread: usize) {
    let (Some(x), Some(b)) = (a.a.rows().map(quads), a.b.rows().map(quads)) else { return };
    let x = Input { rows: x.rows, cols: x.cols, cut: true, ptr: at(ctx, 0), stride: x.cols };
    let weight = Weight { ptr: a.b.as_ptr::<f32>(), rows: b, packed: false };
    let space = at(ctx, sums_at(a) + thread * thread_bytes(a));
    with_float!(a.out.dtype(), O => {
        let Some(out) = Output::<O>::of(&a.out, a.bias.as_ref()) else { return };
        let out = Sums { excess: at(ctx, excess_at(a)), out: out.scaled(&a.scales_a, &a.scales_b) };
        // SAFETY: passed on.
        unsafe { blocked::<Avx512, f32, Quads>(x, weight, units, out, space) }
    })
}

/// Of i8, with sums of i32.
struct Quads;

impl Multiply<Avx512> for Quads {
    const NUMBERS: usize = 1;

    #[inline(always)]
    unsafe fn step<E: Elem, const ROWS: usize>(
        sums: &mut [[__m512; 2]; ROWS],
        rows: [*const f32; ROWS],
        k: usize,
        at: *const E,
    ) {
        // SAFETY: by contract; an `E` is as large as a quad.
        unsafe {
            let up = _mm512_set1_epi8(-128);
            let column = |at: *const E| _mm512_xor_si512(_mm512_loadu_si512(at.cast()), up);
            let columns = [column(at), column(at.add(16))];
            for i in 0..ROWS {
                let quad = _mm512_set1_epi32(rows[i].add(k).cast::<i32>().read());
                for j in 0..2 {
                    let sum = _mm512_dpbusd_epi32(_mm512_castps_si512(sums[i][j]), columns[j], quad);
                    sums[i][j] = _mm512_castsi512_ps(sum);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        // SAFETY: by contract.
        unsafe {
            let sum = _mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b));
            _mm512_castsi512_ps(sum)
        }
    }
}

/// Sums of i32 on their way to the output, and what those of each row of `a` are too much.
#[derive(Clone, Copy)]
struct Sums<O> {
    excess: *const i32,
    out: Output<O>,
}

impl<O: Elem> Results<Avx512> for Sums<O> {
    #[inline(always)]
    unsafe fn take(self, m: usize, n: usize, count: usize, sums: __m512) {
        // SAFETY: by contract.
        unsafe {
            let excess = _mm512_set1_epi32(*self.excess.add(m));
            let dots = _mm512_sub_epi32(_mm512_castps_si512(sums), excess);
            self.out.store::<Avx512>(m, n, count, _mm512_cvtepi32_ps(dots));
        }
    }
}
