//! `activation.silu_and_mul`, `gelu_and_mul` and `gelu_tanh_and_mul`.

use crate::op::gpu_op;
use crate::shape::{code, rows_grid};
use crate::{Gpu, Jit, Runtime, params};
use kernels_core::{RunError, View, ViewMut};
use kernels_ops::activation::{GeluAndMul, GeluTanhAndMul, SiluAndMul};

static GATED: Jit = Jit::new("gated", include_str!("gated.cu"), &["T", "F"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&GATED];

gpu_op! { silu_and_mul for SiluAndMul |gpu, a| { run(gpu, &a.x, &a.out, 0) } }
gpu_op! { gelu_and_mul for GeluAndMul |gpu, a| { run(gpu, &a.x, &a.out, 1) } }
gpu_op! { gelu_tanh_and_mul for GeluTanhAndMul |gpu, a| { run(gpu, &a.x, &a.out, 2) } }

/// # Safety
/// Checked arguments on a device of `R`.
unsafe fn run<R: Runtime>(
    gpu: Gpu<'_, R>,
    x: &View<'_>,
    out: &ViewMut<'_>,
    function: u16,
) -> Result<(), RunError> {
    let (Some(rows), Some(o)) = (x.rows(), out.rows()) else { return Ok(()) };
    let grid = rows_grid(rows.rows, o.cols, x.dtype());
    let params = params![*x, rows.stride, *out, o.stride, rows.rows, o.cols];
    // SAFETY: the parameters are the kernel's, of checked arguments.
    unsafe { gpu.launch(&GATED, [code(x.dtype()), function, 0, 0], grid, &params) }
}
