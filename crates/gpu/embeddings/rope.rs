//! `embeddings.rope`, and with a norm in front `layernorm.qk_norm_rope`.

use crate::op::gpu_op;
use crate::shape::{code, index_type, too_large};
use crate::{Gpu, Grid, Jit, Runtime, params};
use kernels_core::{RunError, View, ViewMut};
use kernels_ops::embeddings::Rope;
use kernels_ops::layernorm::QkNormRope;

static ROPE: Jit = Jit::new("rope", include_str!("rope.cu"), &["T", "NORM"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&ROPE];

gpu_op! { rope for Rope |gpu, a| {
    run(gpu, &a.positions, [&a.q, &a.k], &a.cos_sin_cache, a.is_neox, None)
} }
gpu_op! { qk_norm_rope for QkNormRope |gpu, a| {
    let norm = ([a.q_weight, a.k_weight], a.eps);
    run(gpu, &a.positions, [&a.q, &a.k], &a.cos_sin_cache, a.is_neox, Some(norm))
} }

/// Threads of a block: a warp a head.
pub(crate) const THREADS: u32 = 128;

/// # Safety
/// Checked arguments on a device of `R`.
unsafe fn run<R: Runtime>(
    gpu: Gpu<'_, R>,
    positions: &View<'_>,
    [q, k]: [&ViewMut<'_>; 2],
    cos_sin: &View<'_>,
    neox: bool,
    norm: Option<([View<'_>; 2], f32)>,
) -> Result<(), RunError> {
    let warps = gpu.warps(THREADS);
    let (tokens, heads) = (q.dim(0), q.dim(1) + k.dim(1));
    let grid =
        Grid::of(tokens, THREADS).by(heads.div_ceil(warps), 1).ok_or_else(|| too_large(&gpu, "heads"))?;
    let options = [code(q.dtype()), norm.is_some().into(), 0, 0];
    let (weights, eps) = norm.map_or(([None; 2], 0.0), |(w, eps)| (w.map(Some), eps));
    let params = params![
        *positions,
        index_type(positions),
        *q,
        q.stride(0),
        q.stride(1),
        *k,
        k.stride(0),
        k.stride(1),
        *cos_sin,
        cos_sin.stride(0),
        cos_sin.dim(0),
        tokens,
        q.dim(1),
        k.dim(1),
        q.dim(2),
        cos_sin.dim(1) / 2,
        neox,
        weights[0],
        weights[1],
        eps
    ];
    // SAFETY: the parameters are the kernel's, of checked arguments.
    unsafe { gpu.launch(&ROPE, options, grid, &params) }
}
