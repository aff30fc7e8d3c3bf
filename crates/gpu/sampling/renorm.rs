//! `sampling.top_k_renorm` and `sampling.top_p_renorm`.

use super::sample::unit_bits;
use crate::op::gpu_op;
use crate::shape::{index_type, threads_for};
use crate::{Gpu, Grid, Jit, Runtime, params};
use kernels_core::{RunError, View, ViewMut};
use kernels_ops::sampling::{TopKRenorm, TopPRenorm};

static RENORM: Jit = Jit::new("renorm", include_str!("renorm.cu"), &["TOP_K"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&RENORM];

gpu_op! { top_k_renorm for TopKRenorm |gpu, a| { run(gpu, &a.probs, &a.k, &a.out, 1) } }
gpu_op! { top_p_renorm for TopPRenorm |gpu, a| { run(gpu, &a.probs, &a.p, &a.out, 0) } }

/// # Safety
/// Checked arguments on a device of `R`.
unsafe fn run<R: Runtime>(
    gpu: Gpu<'_, R>,
    probs: &View<'_>,
    parameter: &View<'_>,
    out: &ViewMut<'_>,
    top_k: u16,
) -> Result<(), RunError> {
    let (Some(p), Some(o)) = (probs.rows(), out.rows()) else { return Ok(()) };
    let unit = 2f64.powi(unit_bits(p.cols));
    let kind = index_type(parameter);
    let params = params![*probs, p.stride, *parameter, kind, *out, o.stride, p.rows, p.cols, unit];
    let grid = Grid::of(p.rows, threads_for(p.cols, probs.dtype(), 1024));
    // SAFETY: the parameters are the kernel's, of checked arguments.
    unsafe { gpu.launch(&RENORM, [top_k, 0, 0, 0], grid, &params) }
}
