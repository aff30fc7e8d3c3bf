//! `embeddings.embedding`.

use crate::op::gpu_op;
use crate::shape::{code, index_type, too_large};
use crate::{Grid, Jit, params};
use kernels_ops::embeddings::Embedding;

static EMBEDDING: Jit = Jit::new("embedding", include_str!("embedding.cu"), &["T", "W"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&EMBEDDING];

gpu_op! { embedding for Embedding |gpu, a| {
    let (Some(table), Some(o)) = (a.table.rows(), a.out.rows()) else { return Ok(()) };
    let grid = Grid::of(o.rows, 128).by(table.cols.div_ceil(8 * 128), 1);
    let grid = grid.ok_or_else(|| too_large(&gpu, "columns"))?;
    let options = [code(a.out.dtype()), code(a.table.dtype()), 0, 0];
    let params = params![
        a.ids, index_type(&a.ids), a.table, table.stride, table.rows,
        a.out, o.stride, o.rows, table.cols
    ];
    gpu.launch(&EMBEDDING, options, grid, &params)
} }
