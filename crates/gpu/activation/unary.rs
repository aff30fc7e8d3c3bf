//! `activation.gelu_quick`, `relu2` and, in place, `softcap`.

use crate::op::gpu_op;
use crate::shape::{code, rows_grid};
use crate::{Gpu, Jit, Runtime, params};
use kernels_core::{RunError, View, ViewMut};
use kernels_ops::activation::{GeluQuick, Relu2, Softcap};

static UNARY: Jit = Jit::new("unary", include_str!("unary.cu"), &["T", "F"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&UNARY];

gpu_op! { gelu_quick for GeluQuick |gpu, a| { run(gpu, a.x, &a.out, 0, 0.0) } }
gpu_op! { relu2 for Relu2 |gpu, a| { run(gpu, a.x, &a.out, 1, 0.0) } }
gpu_op! { softcap for Softcap |gpu, a| { run(gpu, a.x.as_view(), &a.x, 2, a.cap) } }

/// # Safety
/// Checked arguments on a device of `R`.
unsafe fn run<R: Runtime>(
    gpu: Gpu<'_, R>,
    x: View<'_>,
    out: &ViewMut<'_>,
    function: u16,
    cap: f32,
) -> Result<(), RunError> {
    let (Some(rows), Some(o)) = (x.rows(), out.rows()) else { return Ok(()) };
    let grid = rows_grid(rows.rows, rows.cols, x.dtype());
    let params = params![x, rows.stride, *out, o.stride, rows.rows, rows.cols, cap];
    // SAFETY: the parameters are the kernel's, of checked arguments.
    unsafe { gpu.launch(&UNARY, [code(x.dtype()), function, 0, 0], grid, &params) }
}
