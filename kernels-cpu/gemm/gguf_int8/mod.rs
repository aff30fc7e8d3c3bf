//! `gemm.linear_gguf` with activations rounded to 8 bits, once for each call: products of bytes, four or more
//! for each instruction, where floats take one.

mod activations;
mod columns;
mod few;
mod few512;
mod formats;
mod octets;
mod panel;
mod sixteen;
mod tiles;
mod wide;
mod words;

use super::output::Output;
use crate::isa::{Avx2, Elem};
use crate::pool::{Plan, split};
use crate::quantization::rows::row_bytes;
use crate::variants::with_float;
use activations::Activations;
use formats::Format;
use kernels_core::{Backend, CpuFeatures, Ctx, DTypeSet, Formats, Requirement, Rows, RunError, kernel};
use kernels_ops::gemm::LinearGguf;
use panel::{Panel, ROWS};
use std::ops::Range;

kernel!(unsafe {
    op: LinearGguf,
    backend: Backend::SIMD,
    variant: "avx2-int8",
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::GGUF),
    run: run; workspace: workspace,
    requires: &[Requirement::cpu(CpuFeatures::AVX2_TIER)],
    // Two to four times as fast as the kernels over floats.
    priority: 1,
    quantises_activations: true,
});

/// # Safety
/// The features of the spec's requirement, and checked arguments on the host.
unsafe fn run(ctx: &Ctx, a: &LinearGguf<'_>) -> Result<(), RunError> {
    let Some(x) = Activations::new(&a.x, ctx.workspace().0) else { return Ok(()) };
    let rounding = Plan { units: x.rows, work: x.rows * x.cols };
    // SAFETY: passed on; rows are handed out once each.
    split(rounding, ctx.threads, &|rows, _| unsafe { round(a, &x, rows) });
    split(plan(a, &x), ctx.threads, &|units, thread| {
        // SAFETY: passed on; units are handed out once each, and each thread has its own panels.
        unsafe { part(a, &x, units, panels(ctx, a, thread)) }
    });
    Ok(())
}

/// # Safety
/// The features of the spec's requirement, and [`Activations::round`]'s contract.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn round(a: &LinearGguf<'_>, x: &Activations, rows: Range<usize>) {
    // SAFETY: passed on.
    unsafe { x.round(&a.x, rows) }
}

/// Up to so many rows of x, blocks are unpacked in registers.
const FEW: usize = 6;

/// Panels that are unpacked together, so that the rows of x are passed over less often.
const PANELS: usize = 4;

fn plan(a: &LinearGguf<'_>, x: &Activations) -> Plan {
    // A vector holds four times as many bytes as floats.
    Plan { units: a.weight.dim(0).div_ceil(ROWS), work: x.rows.max(2) * a.weight.layout().elements() / 8 }
}

fn workspace(a: &LinearGguf<'_>, threads: usize) -> usize {
    Activations::bytes(&a.x) + threads * PANELS * Panel::bytes(a.weight.dim(1))
}

/// Where a thread's panels are.
fn panels(ctx: &Ctx, a: &LinearGguf<'_>, thread: usize) -> *mut u8 {
    let each = PANELS * Panel::bytes(a.weight.dim(1));
    ctx.workspace().0.wrapping_add(Activations::bytes(&a.x) + thread * each)
}

/// # Safety
/// Checked arguments on the host, AVX2, FMA and F16C, units that nobody else works on, and scratch for [`PANELS`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn part(a: &LinearGguf<'_>, x: &Activations, units: Range<usize>, scratch: *mut u8) {
    macro_rules! formats {
        ($($format:ident)*) => {
            match a.weight.dtype() {
                // SAFETY: passed on.
                $( kernels_core::DType::$format => with_float!(a.x.dtype(), O => unsafe {
                    typed::<formats::$format, O>(a, x, units, scratch)
                }), )*
                _ => {}
            }
        };
    }
    formats!(Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4K Q5K Q6K);
}

/// # Safety
/// As for [`part`].
#[inline(always)]
unsafe fn typed<F: Format, O: Elem>(
    a: &LinearGguf<'_>,
    x: &Activations,
    units: Range<usize>,
    scratch: *mut u8,
) {
    let (Some(rows), Some(out)) = (a.weight.rows(), Output::<O>::of(&a.out, a.bias.as_ref())) else { return };
    // SAFETY: passed on.
    unsafe {
        match x.rows <= FEW {
            true => row_by_row::<F, O>(a.weight.as_ptr(), rows, x, units, out),
            false => by_panels::<F, O>(a.weight.as_ptr(), rows, x, units, scratch, out),
        }
    }
}

/// # Safety
/// As for [`part`].
#[inline(always)]
unsafe fn row_by_row<F: Format, O: Elem>(
    weight: *const u8,
    rows: Rows,
    x: &Activations,
    units: Range<usize>,
    out: Output<O>,
) {
    let (stride, last) = (row_bytes(F::DTYPE, rows.stride), rows.rows.min(units.end * ROWS));
    // SAFETY: n and m stay inside the weight and x.
    unsafe {
        for n in units.start * ROWS..last {
            let (row, mut m) = (weight.add(n * stride), 0);
            while m + 2 <= x.rows {
                let sums = few::few::<F, 2>(row, x, m);
                out.put(m, n, sums[0]);
                out.put(m + 1, n, sums[1]);
                m += 2;
            }
            if m < x.rows {
                out.put(m, n, few::few::<F, 1>(row, x, m)[0]);
            }
        }
    }
}

/// # Safety
/// As for [`part`].
#[inline(always)]
unsafe fn by_panels<F: Format, O: Elem>(
    weight: *const u8,
    rows: Rows,
    x: &Activations,
    units: Range<usize>,
    scratch: *mut u8,
    out: Output<O>,
) {
    let stride = row_bytes(F::DTYPE, rows.stride);
    let panel = |i: usize| Panel::new(rows.cols, scratch.wrapping_add(i * Panel::bytes(rows.cols)));
    let mut first = units.start;
    while first < units.end {
        let here = PANELS.min(units.end - first);
        for i in 0..here {
            let n = (first + i) * ROWS;
            // SAFETY: the rows are inside the weight.
            unsafe { panel(i).fill::<F>(weight.add(n * stride), stride, ROWS.min(rows.rows - n), rows.cols) };
        }
        let mut m = 0;
        macro_rules! step {
            ($many:literal) => {{
                for i in 0..here {
                    let n = (first + i) * ROWS;
                    // SAFETY: the rows are inside x, the columns inside the output.
                    unsafe {
                        let sums = panel(i).times::<F, $many>(x, m);
                        for k in 0..$many {
                            out.store::<Avx2>(m + k, n, ROWS.min(rows.rows - n), sums[k]);
                        }
                    }
                }
                m += $many;
            }};
        }
        while m < x.rows {
            match x.rows - m {
                4.. => step!(4),
                2.. => step!(2),
                _ => step!(1),
            }
        }
        first += here;
    }
}
