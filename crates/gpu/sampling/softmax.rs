//! `sampling.softmax`.

use crate::op::gpu_op;
use crate::shape::{code, threads_for};
use crate::{Grid, Jit, params};
use kernels_ops::sampling::Softmax;

static SOFTMAX: Jit = Jit::new("softmax", include_str!("softmax.cu"), &["T"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&SOFTMAX];

gpu_op! { softmax for Softmax |gpu, a| {
    let (Some(x), Some(p)) = (a.logits.rows(), a.probs.rows()) else { return Ok(()) };
    let params = params![a.logits, x.stride, a.probs, p.stride, x.rows, x.cols, a.temperature];
    let grid = Grid::of(x.rows, threads_for(x.cols, a.logits.dtype(), 1024));
    gpu.launch(&SOFTMAX, [code(a.logits.dtype()), 0, 0, 0], grid, &params)
} }
