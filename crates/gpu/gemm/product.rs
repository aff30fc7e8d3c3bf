//! `gemm.linear` and `gemm.linear_gguf`: which kernel for how many rows.

use crate::op::gpu_op;
use crate::shape::{code, too_large};
use crate::{Gpu, Grid, Jit, Params, Runtime, params};
use kernels_core::{Arch, DType, Rows, RunError, View, ViewMut};
use kernels_ops::gemm::{Linear, LinearGguf};

static GEMV: Jit = Jit::new("gemv", include_str!("gemv.cu"), &["T", "W", "M"]);
static TILES: Jit = Jit::new("tiles", include_str!("tiles.cu"), &["T", "W"]);
static MMA: Jit = Jit::new("mma", include_str!("mma.cu"), &["T"]);
/// What they are compiled from.
pub static SOURCES: &[&Jit] = &[&GEMV, &TILES, &MMA];

gpu_op! { linear for Linear |gpu, a| { run(gpu, &a.x, &a.weight, a.bias, &a.out) } }
gpu_op! { linear_gguf for LinearGguf |gpu, a| { run(gpu, &a.x, &a.weight, a.bias, &a.out) } }

/// Up to here the weight is read once for each eight rows; beyond, tiles reuse it from shared memory.
pub(super) const FEW_ROWS: usize = 16;
pub(super) const TILE: usize = 64;
pub(super) const GEMV_THREADS: u32 = 256;

/// # Safety
/// Checked arguments on a device of `R`.
unsafe fn run<R: Runtime>(
    gpu: Gpu<'_, R>,
    x: &View<'_>,
    weight: &View<'_>,
    bias: Option<View<'_>>,
    out: &ViewMut<'_>,
) -> Result<(), RunError> {
    let (Some(rows), Some(w), Some(o)) = (x.rows(), weight.rows(), out.rows()) else { return Ok(()) };
    let params = parameters(x, weight, bias, out, [rows, w, o]);
    let (t, few) = (code(x.dtype()), rows.rows <= FEW_ROWS);
    let (jit, options, blocks, threads, y) = if few {
        let at_once = rows.rows.next_power_of_two().min(8);
        let warps = gpu.warps(GEMV_THREADS);
        let options = [t, code(weight.dtype()), at_once as u16, 0];
        (&GEMV, options, w.rows.div_ceil(warps), GEMV_THREADS, rows.rows.div_ceil(at_once))
    } else if has_tensor_cores(&gpu) && x.dtype() == weight.dtype() && x.dtype() != DType::F32 {
        (&MMA, [t, 0, 0, 0], w.rows.div_ceil(TILE), 128, rows.rows.div_ceil(TILE))
    } else {
        let options = [t, code(weight.dtype()), 0, 0];
        (&TILES, options, w.rows.div_ceil(TILE), 256, rows.rows.div_ceil(TILE))
    };
    let grid = Grid::of(blocks, threads).by(y, 1).ok_or_else(|| too_large(&gpu, "rows"))?;
    // SAFETY: the parameters are the kernel's, of checked arguments.
    unsafe { gpu.launch(jit, options, grid, &params) }
}

/// What the kernels of a product take.
pub(super) fn parameters(
    x: &View<'_>,
    weight: &View<'_>,
    bias: Option<View<'_>>,
    out: &ViewMut<'_>,
    [rows, w, o]: [Rows; 3],
) -> Params {
    params![*x, rows.stride, *weight, w.stride, bias, *out, o.stride, rows.rows, w.rows, rows.cols]
}

/// Whether `mma.h` runs: bf16 products and asynchronous copies came with sm_80.
pub(crate) fn has_tensor_cores<R: Runtime>(gpu: &Gpu<'_, R>) -> bool {
    matches!(gpu.ctx().device.platform().arch, Arch::Cuda { major, .. } if major >= 8)
}
