//! `layernorm.layernorm`.

use crate::op::gpu_op;
use crate::shape::{code, threads_for};
use crate::{Grid, Jit, params};
use kernels_ops::layernorm::LayerNorm;

static LAYERNORM: Jit = Jit::new("layernorm", include_str!("layernorm.cu"), &["T"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&LAYERNORM];

gpu_op! { layernorm for LayerNorm |gpu, a| {
    let (Some(rows), Some(o)) = (a.x.rows(), a.out.rows()) else { return Ok(()) };
    let grid = Grid::of(rows.rows, threads_for(rows.cols, a.x.dtype(), 512));
    let params = params![a.x, rows.stride, a.weight, a.bias, a.out, o.stride, rows.rows, rows.cols, a.eps];
    gpu.launch(&LAYERNORM, [code(a.x.dtype()), 0, 0, 0], grid, &params)
} }
