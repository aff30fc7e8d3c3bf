//! `kvcache.reshape_and_cache`.

use crate::embeddings::rope::THREADS;
use crate::op::gpu_op;
use crate::shape::{code, index_type, too_large};
use crate::{Grid, Jit, params};
use kernels_ops::kvcache::ReshapeAndCache;

static RESHAPE_AND_CACHE: Jit =
    Jit::new("reshape_and_cache", include_str!("reshape_and_cache.cu"), &["T", "C"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&RESHAPE_AND_CACHE];

gpu_op! { reshape_and_cache for ReshapeAndCache |gpu, a| {
    let warps = gpu.warps(THREADS);
    let (tokens, heads) = (a.key.dim(0), a.key.dim(1));
    let rows = (2 * heads).div_ceil(warps);
    let grid = Grid::of(tokens, THREADS).by(rows, 1).ok_or_else(|| too_large(&gpu, "heads"))?;
    let options = [code(a.key.dtype()), code(a.key_cache.dtype()), 0, 0];
    let params = params![
        a.key, a.key.stride(0), a.key.stride(1),
        a.value, a.value.stride(0), a.value.stride(1),
        a.key_cache, a.key_cache.stride(0), a.key_cache.stride(1), a.key_cache.stride(2),
        a.value_cache, a.value_cache.stride(0), a.value_cache.stride(1), a.value_cache.stride(2),
        a.slot_mapping, index_type(&a.slot_mapping),
        a.key_cache.dim(0), a.key_cache.dim(1), tokens, heads, a.key.dim(2), a.k_scale, a.v_scale
    ];
    gpu.launch(&RESHAPE_AND_CACHE, options, grid, &params)
} }
