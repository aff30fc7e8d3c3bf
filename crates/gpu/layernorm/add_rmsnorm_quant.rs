//! `layernorm.add_rmsnorm_quant`.

use crate::op::gpu_op;
use crate::shape::{code, threads_for};
use crate::{Grid, Jit, params};
use kernels_ops::layernorm::AddRmsNormQuant;
use kernels_ops::quantization::FLOOR;

static ADD_RMSNORM_QUANT: Jit =
    Jit::new("add_rmsnorm_quant", include_str!("add_rmsnorm_quant.cu"), &["T", "Q"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&ADD_RMSNORM_QUANT];

gpu_op! { add_rmsnorm_quant for AddRmsNormQuant |gpu, a| {
    let (Some(rows), Some(r), Some(q)) = (a.x.rows(), a.residual.rows(), a.q.rows()) else { return Ok(()) };
    let grid = Grid::of(rows.rows, threads_for(rows.cols, a.x.dtype(), 512));
    let params = params![
        a.x, rows.stride, a.residual, r.stride, a.weight, a.q, q.stride,
        a.scales, a.scales.stride(0), rows.rows, rows.cols, a.eps, FLOOR
    ];
    gpu.launch(&ADD_RMSNORM_QUANT, [code(a.x.dtype()), code(a.q.dtype()), 0, 0], grid, &params)
} }
