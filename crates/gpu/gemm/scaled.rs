//! `gemm.fp8_scaled_mm` and `gemm.int8_scaled_mm`.

use crate::op::gpu_op;
use crate::shape::{code, too_large};
use crate::{Gpu, Grid, Jit, Runtime, params};
use kernels_core::{RunError, View, ViewMut};
use kernels_ops::gemm::{Fp8ScaledMm, Int8ScaledMm};

static SCALED: Jit = Jit::new("scaled", include_str!("scaled.cu"), &["T", "Q"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&SCALED];

gpu_op! { fp8_scaled_mm for Fp8ScaledMm |gpu, a| { run(gpu, [&a.a, &a.b], [a.scales_a, a.scales_b], a.bias, &a.out) } }
gpu_op! { int8_scaled_mm for Int8ScaledMm |gpu, a| { run(gpu, [&a.a, &a.b], [a.scales_a, a.scales_b], a.bias, &a.out) } }

const ROWS: usize = 32;
const FEATURES: usize = 64;

/// # Safety
/// Checked arguments on a device of `R`.
unsafe fn run<R: Runtime>(
    gpu: Gpu<'_, R>,
    [a, b]: [&View<'_>; 2],
    [scales_a, scales_b]: [View<'_>; 2],
    bias: Option<View<'_>>,
    out: &ViewMut<'_>,
) -> Result<(), RunError> {
    let (Some(rows), Some(w), Some(o)) = (a.rows(), b.rows(), out.rows()) else { return Ok(()) };
    let grid = Grid::of(w.rows.div_ceil(FEATURES), 256).by(rows.rows.div_ceil(ROWS), 1);
    let grid = grid.ok_or_else(|| too_large(&gpu, "rows"))?;
    let params = params![
        *a,
        rows.stride,
        *b,
        w.stride,
        scales_a,
        scales_b,
        bias,
        *out,
        o.stride,
        rows.rows,
        w.rows,
        rows.cols
    ];
    // SAFETY: the parameters are the kernel's, of checked arguments.
    unsafe { gpu.launch(&SCALED, [code(out.dtype()), code(a.dtype()), 0, 0], grid, &params) }
}
