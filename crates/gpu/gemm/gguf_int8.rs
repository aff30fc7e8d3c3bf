//! `gemm.linear_gguf` with activations rounded to 8 bits, in a pass of its own before the product.

use super::product::{FEW_ROWS, GEMV_THREADS, TILE};
use crate::op::gpu_op;
use crate::shape::{code, index_type, rows_grid, too_large};
use crate::{Grid, Jit, params};
use kernels_core::DType;
use kernels_ops::gemm::{LinearGguf, int8_activations};

static ROUND: Jit = Jit::new("round_int8", include_str!("round_int8.cu"), &["T"]);
static GEMV: Jit = Jit::new("gemv_int8", include_str!("gemv_int8.cu"), &["W", "M"]);
static TILES: Jit = Jit::new("tiles_int8", include_str!("tiles_int8.cu"), &["W"]);
/// What they are compiled from.
pub static SOURCES: &[&Jit] = &[&ROUND, &GEMV, &TILES];

/// `pk_rounded` of `rounded.h`: two floats for each block.
const BLOCK_BYTES: usize = 2 * size_of::<f32>();

/// Memory for the rounded activations: their bytes, then what is known of each block.
pub fn rounded(a: &LinearGguf<'_>, _: usize) -> usize {
    let elements = a.x.layout().elements();
    elements + elements / int8_activations::BLOCK * BLOCK_BYTES
}

gpu_op! { linear_gguf for LinearGguf |gpu, a, ctx| {
    let (Some(x), Some(w), Some(out)) = (a.x.rows(), a.weight.rows(), a.out.rows()) else { return Ok(()) };
    let (bytes, _) = ctx.workspace();
    let blocks = bytes.wrapping_add(x.rows * x.cols);
    // A thread for each element, where that grid counts 16 bytes for each.
    let grid = rows_grid(x.rows, x.cols * 4, DType::F32);
    gpu.launch(&ROUND, [code(a.x.dtype()), 0, 0, 0], grid, &params![a.x, x.stride, bytes, blocks, x.rows, x.cols])?;
    let params = params![
        bytes, blocks, a.weight, w.stride, a.bias, a.out, out.stride, index_type(&a.x), x.rows, w.rows, x.cols
    ];
    let weight = code(a.weight.dtype());
    let (jit, options, blocks, y) = if x.rows <= FEW_ROWS {
        let at_once = x.rows.next_power_of_two().min(8);
        (&GEMV, [weight, at_once as u16, 0, 0], w.rows.div_ceil(gpu.warps(GEMV_THREADS)), x.rows.div_ceil(at_once))
    } else {
        (&TILES, [weight, 0, 0, 0], w.rows.div_ceil(TILE), x.rows.div_ceil(TILE))
    };
    let grid = Grid::of(blocks, GEMV_THREADS).by(y, 1).ok_or_else(|| too_large(&gpu, "rows"))?;
    gpu.launch(jit, options, grid, &params)
} }
