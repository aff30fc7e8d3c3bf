//! `activation.silu_and_mul_quant`.

use crate::op::gpu_op;
use crate::shape::{code, threads_for};
use crate::{Grid, Jit, params};
use kernels_ops::activation::SiluAndMulQuant;
use kernels_ops::quantization::FLOOR;

static SILU_AND_MUL_QUANT: Jit =
    Jit::new("silu_and_mul_quant", include_str!("silu_and_mul_quant.cu"), &["T", "Q"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&SILU_AND_MUL_QUANT];

gpu_op! { silu_and_mul_quant for SiluAndMulQuant |gpu, a| {
    let (Some(rows), Some(q)) = (a.x.rows(), a.q.rows()) else { return Ok(()) };
    let grid = Grid::of(rows.rows, threads_for(q.cols, a.x.dtype(), 512));
    let params = params![a.x, rows.stride, a.q, q.stride, a.scales, a.scales.stride(0), rows.rows, q.cols, FLOOR];
    gpu.launch(&SILU_AND_MUL_QUANT, [code(a.x.dtype()), code(a.q.dtype()), 0, 0], grid, &params)
} }
