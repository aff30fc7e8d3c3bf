//! `embeddings.*` over candle tensors.

use crate::call::{Out, compute, like, result_type, update};
use crate::quantization::quantised;
use candle_core::quantized::QTensor;
use candle_core::{DType, Result, Tensor};
use kernels_core::{View, ViewMut};
use kernels_ops::embeddings::{Embedding, Rope};

/// `embeddings.embedding`: rows of `table [vocabulary, hidden]` by `ids [tokens]`: [`Embedding`].
///
/// # Errors
/// An id outside the table, shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn embedding(ids: &Tensor, table: &Tensor) -> Result<Tensor> {
    let (op, source) = (Embedding::OP, ("table", table));
    let shape = vec![ids.elem_count(), table.dims().last().copied().unwrap_or(0)];
    let out = like(op, source, shape)?;
    let run = |[ids, table]: [View<'_>; 2], [out]: [ViewMut<'_>; 1]| Embedding { ids, table, out }.run();
    let [y] = compute(op, [("ids", ids), source], [out], run)?;
    Ok(y)
}

/// `embeddings.embedding` of a quantised table, as `dtype`: [`Embedding`].
///
/// # Errors
/// As [`embedding`], or a block format without kernels.
pub fn embedding_gguf(ids: &Tensor, table: &QTensor, dtype: DType) -> Result<Tensor> {
    let op = Embedding::OP;
    quantised(op, "table", table, |table| {
        let shape = vec![ids.elem_count(), table.shape().last().copied().unwrap_or(0)];
        let to = result_type(op, dtype)?;
        let run = |[ids]: [View<'_>; 1], [out]: [ViewMut<'_>; 1]| Embedding { ids, table, out }.run();
        let [y] = compute(op, [("ids", ids)], [Out::New(to, shape)], run)?;
        Ok(y)
    })
}

/// `embeddings.rope` of `q [tokens, heads, head_dim]` and `k`: both, turned: [`Rope`].
///
/// # Errors
/// A position outside the cache, shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn rope(
    positions: &Tensor,
    q: &Tensor,
    k: &Tensor,
    cos_sin_cache: &Tensor,
    is_neox: bool,
) -> Result<(Tensor, Tensor)> {
    let reads = [("positions", positions), ("cos_sin_cache", cos_sin_cache)];
    let outs = [Out::Copy(("q", q)), Out::Copy(("k", k))];
    let [q, k] = compute(Rope::OP, reads, outs, |r, w| run(r, w, is_neox))?;
    Ok((q, k))
}

/// `embeddings.rope`, q and k in place.
///
/// # Errors
/// As [`rope`], or tensors that share their memory.
pub fn rope_inplace(
    positions: &Tensor,
    q: &Tensor,
    k: &Tensor,
    cos_sin_cache: &Tensor,
    is_neox: bool,
) -> Result<()> {
    let reads = [("positions", positions), ("cos_sin_cache", cos_sin_cache)];
    update(Rope::OP, reads, [("q", q), ("k", k)], |r, w| run(r, w, is_neox))
}

fn run(
    [positions, cos_sin_cache]: [View<'_>; 2],
    [q, k]: [ViewMut<'_>; 2],
    is_neox: bool,
) -> kernels_core::Result<()> {
    Rope { positions, q, k, cos_sin_cache, is_neox }.run()
}

/// The cache of cosines and sines for `theta`, `[max_positions, rotary_dim]` f32:
/// [`kernels_ops::embeddings::cos_sin_cache`].
///
/// # Errors
/// No memory.
pub fn cos_sin_cache(max_positions: usize, rotary_dim: usize, theta: f64) -> Result<Tensor> {
    let cache = kernels_ops::embeddings::cos_sin_cache(max_positions, rotary_dim, theta);
    let values = cache.and_then(|c| c.to_vec::<f32>()).map_err(crate::error::at_edge)?;
    Tensor::from_vec(values, (max_positions, rotary_dim / 2 * 2), &candle_core::Device::Cpu)
}
