//! `layernorm.fused_add_rmsnorm` and `layernorm.gemma_fused_add_rmsnorm`.

use crate::op::gpu_op;
use crate::shape::{code, threads_for};
use crate::{Gpu, Grid, Jit, Runtime, params};
use kernels_core::{RunError, View, ViewMut};
use kernels_ops::layernorm::{FusedAddRmsNorm, GemmaFusedAddRmsNorm};

static FUSED_ADD: Jit = Jit::new("fused_add", include_str!("fused_add.cu"), &["T", "OFFSET"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&FUSED_ADD];

gpu_op! { fused_add_rmsnorm for FusedAddRmsNorm |gpu, a| { run(gpu, &a.x, &a.residual, &a.weight, a.eps, 0) } }
gpu_op! { gemma_fused_add_rmsnorm for GemmaFusedAddRmsNorm |gpu, a| { run(gpu, &a.x, &a.residual, &a.weight, a.eps, 1) } }

/// # Safety
/// Checked arguments on a device of `R`.
unsafe fn run<R: Runtime>(
    gpu: Gpu<'_, R>,
    x: &ViewMut<'_>,
    residual: &ViewMut<'_>,
    weight: &View<'_>,
    eps: f32,
    offset: u16,
) -> Result<(), RunError> {
    let (Some(rows), Some(r)) = (x.rows(), residual.rows()) else { return Ok(()) };
    let grid = Grid::of(rows.rows, threads_for(rows.cols, x.dtype(), 512));
    let params = params![*x, rows.stride, *residual, r.stride, *weight, rows.rows, rows.cols, eps];
    // SAFETY: the parameters are the kernel's, of checked arguments.
    unsafe { gpu.launch(&FUSED_ADD, [code(x.dtype()), offset, 0, 0], grid, &params) }
}
