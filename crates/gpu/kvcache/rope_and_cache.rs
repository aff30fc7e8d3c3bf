//! `kvcache.rope_and_cache`, and with a norm in front `kvcache.qk_norm_rope_store`.

use crate::embeddings::rope::THREADS;
use crate::op::gpu_op;
use crate::shape::{code, index_type, too_large};
use crate::{Grid, Jit, params};
use kernels_core::View;
use kernels_ops::kvcache::{QkNormRopeStore, RopeAndCache};

static ROPE_AND_CACHE: Jit =
    Jit::new("rope_and_cache", include_str!("rope_and_cache.cu"), &["T", "C", "NORM"]);
/// What it is compiled from.
pub static SOURCES: &[&Jit] = &[&ROPE_AND_CACHE];

/// The launch of either op: their arguments are the same but for the norm's.
macro_rules! queue {
    ($gpu:ident, $a:ident, $weights:expr, $eps:expr) => {{
        let warps = $gpu.warps(THREADS);
        let (tokens, heads) = ($a.q.dim(0), $a.q.dim(1) + 2 * $a.k.dim(1));
        let grid = Grid::of(tokens, THREADS)
            .by(heads.div_ceil(warps), 1)
            .ok_or_else(|| too_large(&$gpu, "heads"))?;
        let [q_weight, k_weight] = $weights;
        let options = [code($a.q.dtype()), code($a.key_cache.dtype()), q_weight.is_some().into(), 0];
        let params = params![
            $a.positions,
            index_type(&$a.positions),
            $a.q,
            $a.q.stride(0),
            $a.q.stride(1),
            $a.k,
            $a.k.stride(0),
            $a.k.stride(1),
            $a.value,
            $a.value.stride(0),
            $a.value.stride(1),
            $a.cos_sin_cache,
            $a.cos_sin_cache.stride(0),
            $a.cos_sin_cache.dim(0),
            $a.key_cache,
            $a.key_cache.stride(0),
            $a.key_cache.stride(1),
            $a.key_cache.stride(2),
            $a.value_cache,
            $a.value_cache.stride(0),
            $a.value_cache.stride(1),
            $a.value_cache.stride(2),
            $a.slot_mapping,
            index_type(&$a.slot_mapping),
            $a.key_cache.dim(0),
            $a.key_cache.dim(1),
            tokens,
            $a.q.dim(1),
            $a.k.dim(1),
            $a.q.dim(2),
            $a.cos_sin_cache.dim(1) / 2,
            $a.is_neox,
            $a.k_scale,
            $a.v_scale,
            q_weight,
            k_weight,
            $eps
        ];
        $gpu.launch(&ROPE_AND_CACHE, options, grid, &params)
    }};
}

gpu_op! { rope_and_cache for RopeAndCache |gpu, a| { queue!(gpu, a, [None::<View<'_>>; 2], 0.0f32) } }
gpu_op! { qk_norm_rope_store for QkNormRopeStore |gpu, a| {
    queue!(gpu, a, [Some(a.q_weight), Some(a.k_weight)], a.eps)
} }
