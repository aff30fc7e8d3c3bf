//! `quantization.dequantize_gguf`.

use crate::op::gpu_op;
use crate::shape::{code, too_large};
use crate::{Grid, Jit, params};
use kernels_ops::quantization::DequantizeGguf;

static DEQUANTIZE: Jit = Jit::new("dequantize", include_str!("dequantize.cu"), &["T", "W"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&DEQUANTIZE];

gpu_op! { dequantize_gguf for DequantizeGguf |gpu, a| {
    let (Some(w), Some(o)) = (a.weight.rows(), a.out.rows()) else { return Ok(()) };
    let grid = Grid::of(w.rows, 128).by(w.cols.div_ceil(8 * 128), 1);
    let grid = grid.ok_or_else(|| too_large(&gpu, "columns"))?;
    let options = [code(a.out.dtype()), code(a.weight.dtype()), 0, 0];
    let params = params![a.weight, w.stride, a.out, o.stride, w.rows, w.cols];
    gpu.launch(&DEQUANTIZE, options, grid, &params)
} }
