//! `quantization.per_token_quant_fp8`, `per_token_quant_int8` and `per_token_group_quant`.

use crate::op::gpu_op;
use crate::shape::{code, threads_for};
use crate::{Gpu, Grid, Jit, Runtime, params};
use kernels_core::{RunError, View, ViewMut};
use kernels_ops::quantization::{FLOOR, PerTokenGroupQuant, PerTokenQuantFp8, PerTokenQuantInt8};

static DYNAMIC: Jit = Jit::new("dynamic", include_str!("dynamic.cu"), &["T", "Q", "WARP_A_GROUP"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&DYNAMIC];

gpu_op! { per_token_quant_fp8 for PerTokenQuantFp8 |gpu, a| { run(gpu, &a.x, &a.q, &a.scales, None, FLOOR) } }
gpu_op! { per_token_quant_int8 for PerTokenQuantInt8 |gpu, a| { run(gpu, &a.x, &a.q, &a.scales, None, FLOOR) } }
gpu_op! { per_token_group_quant for PerTokenGroupQuant |gpu, a| {
    run(gpu, &a.x, &a.q, &a.scales, Some(a.group_size), a.eps)
} }

/// Up to here a warp does a group: a block would idle.
const WARP_GROUP: usize = 512;

/// # Safety
/// Checked arguments on a device of `R`.
unsafe fn run<R: Runtime>(
    gpu: Gpu<'_, R>,
    x: &View<'_>,
    q: &ViewMut<'_>,
    scales: &ViewMut<'_>,
    group: Option<usize>,
    eps: f32,
) -> Result<(), RunError> {
    let (Some(rows), Some(o)) = (x.rows(), q.rows()) else { return Ok(()) };
    let group = group.unwrap_or(rows.cols);
    let groups = rows.cols / group;
    let by_warp = group <= WARP_GROUP;
    let grid = match by_warp {
        true => {
            let warps = gpu.warps(128);
            Grid::of((rows.rows * groups).div_ceil(warps), 128)
        }
        false => Grid::of(rows.rows * groups, threads_for(group, x.dtype(), 512)),
    };
    let options = [code(x.dtype()), code(q.dtype()), by_warp.into(), 0];
    let params =
        params![*x, rows.stride, *q, o.stride, *scales, scales.stride(0), rows.rows, groups, group, eps];
    // SAFETY: the parameters are the kernel's, of checked arguments.
    unsafe { gpu.launch(&DYNAMIC, options, grid, &params) }
}
