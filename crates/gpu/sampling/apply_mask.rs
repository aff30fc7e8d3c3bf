//! `sampling.apply_mask`.

use crate::op::gpu_op;
use crate::shape::{code, rows_grid};
use crate::{Jit, params};
use kernels_ops::sampling::ApplyMask;

static APPLY_MASK: Jit = Jit::new("apply_mask", include_str!("apply_mask.cu"), &["T"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&APPLY_MASK];

gpu_op! { apply_mask for ApplyMask |gpu, a| {
    let (Some(x), Some(m)) = (a.logits.rows(), a.mask.rows()) else { return Ok(()) };
    let params = params![a.logits, x.stride, a.mask, m.stride, x.rows, x.cols];
    let grid = rows_grid(x.rows, x.cols, a.logits.dtype());
    gpu.launch(&APPLY_MASK, [code(a.logits.dtype()), 0, 0, 0], grid, &params)
} }
