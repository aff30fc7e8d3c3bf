//! `gemm.linear` of many 16-bit rows by the products that sm_90a alone has.

use super::product::{FEW_ROWS, parameters};
use crate::op::gpu_op;
use crate::shape::{code, too_large};
use crate::{Grid, Jit};
use kernels_core::{Key, Reason};
use kernels_ops::gemm::Linear;

static WGMMA: Jit = Jit::new("wgmma", include_str!("wgmma.cu"), &["T"]);
/// What they are compiled from.
pub static SOURCES: &[&Jit] = &[&WGMMA];

const TILE: usize = 128;
/// Four stages of two tiles of 64 columns, and room to begin at a multiple of 1024.
const SHARED: usize = 4 * 2 * TILE * 64 * 2 + 1024;

/// Whether there are rows enough.
///
/// # Errors
/// There are too few, which `nvrtc`'s other kernel reads the weight once for.
pub fn gate(key: &Key) -> Result<(), Reason> {
    match usize::from(key.fact) > FEW_ROWS {
        true => Ok(()),
        false => Err(Reason::Shape { detail: format!("takes more than {FEW_ROWS} rows") }),
    }
}

gpu_op! { linear for Linear |gpu, a| {
    let (Some(x), Some(w), Some(out)) = (a.x.rows(), a.weight.rows(), a.out.rows()) else { return Ok(()) };
    let grid = Grid::of(w.rows.div_ceil(TILE), 256).by(x.rows.div_ceil(TILE), 1);
    let grid = Grid { shared: SHARED as u32, ..grid.ok_or_else(|| too_large(&gpu, "rows"))? };
    let params = parameters(&a.x, &a.weight, a.bias, &a.out, [x, w, out]);
    gpu.launch(&WGMMA, [code(a.x.dtype()), 0, 0, 0], grid, &params)
} }
