//! `layernorm.rmsnorm` and `layernorm.gemma_rmsnorm`.

use crate::op::gpu_op;
use crate::shape::{code, threads_for};
use crate::{Gpu, Grid, Jit, Runtime, params};
use kernels_core::{RunError, View, ViewMut};
use kernels_ops::layernorm::{GemmaRmsNorm, RmsNorm};

static RMS: Jit = Jit::new("rms", include_str!("rms.cu"), &["T", "OFFSET"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&RMS];

gpu_op! { rmsnorm for RmsNorm |gpu, a| { run(gpu, &a.x, &a.weight, &a.out, a.eps, 0) } }
gpu_op! { gemma_rmsnorm for GemmaRmsNorm |gpu, a| { run(gpu, &a.x, &a.weight, &a.out, a.eps, 1) } }

/// # Safety
/// Checked arguments on a device of `R`.
unsafe fn run<R: Runtime>(
    gpu: Gpu<'_, R>,
    x: &View<'_>,
    weight: &View<'_>,
    out: &ViewMut<'_>,
    eps: f32,
    offset: u16,
) -> Result<(), RunError> {
    let (Some(rows), Some(o)) = (x.rows(), out.rows()) else { return Ok(()) };
    let grid = Grid::of(rows.rows, threads_for(rows.cols, x.dtype(), 512));
    let params = params![*x, rows.stride, *weight, *out, o.stride, rows.rows, rows.cols, eps];
    // SAFETY: the parameters are the kernel's, of checked arguments.
    unsafe { gpu.launch(&RMS, [code(x.dtype()), offset, 0, 0], grid, &params) }
}
