//! `sampling.penalties`.

use crate::op::gpu_op;
use crate::shape::{code, index_type, threads_for};
use crate::{Grid, Jit, params};
use kernels_ops::sampling::Penalties;

static PENALTIES: Jit = Jit::new("penalties", include_str!("penalties.cu"), &["T"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&PENALTIES];

/// Memory for a count of each token of each row.
pub fn counts(a: &Penalties<'_>, _: usize) -> usize {
    a.logits.layout().elements() * size_of::<u32>()
}

gpu_op! { penalties for Penalties |gpu, a, ctx| {
    let Some(x) = a.logits.rows() else { return Ok(()) };
    let list = |v: &kernels_core::View<'_>| (index_type(v), v.stride(0), v.dim(1));
    let (prompt_type, prompt_stride, prompt_length) = a.prompt_tokens.as_ref().map_or((0, 0, 0), list);
    let (output_type, output_stride, output_length) = list(&a.output_tokens);
    let params = params![
        a.logits, x.stride, a.prompt_tokens, prompt_type, prompt_stride, prompt_length,
        a.output_tokens, output_type, output_stride, output_length,
        a.repetition, a.frequency, a.presence, ctx.workspace().0, x.rows, x.cols
    ];
    let grid = Grid::of(x.rows, threads_for(x.cols, a.logits.dtype(), 1024));
    gpu.launch(&PENALTIES, [code(a.logits.dtype()), 0, 0, 0], grid, &params)
} }
