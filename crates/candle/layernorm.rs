//! `layernorm.*` over candle tensors.

use crate::call::{Out, compute, like, update};
use candle_core::{Result, Tensor};
use kernels_core::{View, ViewMut};
use kernels_ops::layernorm::{
    FusedAddRmsNorm, GemmaFusedAddRmsNorm, GemmaRmsNorm, LayerNorm, QkNormRope, RmsNorm,
};

/// `layernorm.rmsnorm` of `x [.., hidden]` with `weight [hidden]`: [`RmsNorm`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn rmsnorm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    let (op, input) = (RmsNorm::OP, ("x", x));
    let out = like(op, input, x.dims().to_vec())?;
    let run = |[x, weight]: [View<'_>; 2], [out]: [ViewMut<'_>; 1]| RmsNorm { x, weight, out, eps }.run();
    let [y] = compute(op, [input, ("weight", weight)], [out], run)?;
    Ok(y)
}

/// `layernorm.gemma_rmsnorm` of `x [.., hidden]` with `weight [hidden]`: [`GemmaRmsNorm`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn gemma_rmsnorm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    let (op, input) = (GemmaRmsNorm::OP, ("x", x));
    let out = like(op, input, x.dims().to_vec())?;
    let run =
        |[x, weight]: [View<'_>; 2], [out]: [ViewMut<'_>; 1]| GemmaRmsNorm { x, weight, out, eps }.run();
    let [y] = compute(op, [input, ("weight", weight)], [out], run)?;
    Ok(y)
}

/// `layernorm.fused_add_rmsnorm`: the normalised sum, and the sum: [`FusedAddRmsNorm`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn fused_add_rmsnorm(
    x: &Tensor,
    residual: &Tensor,
    weight: &Tensor,
    eps: f32,
) -> Result<(Tensor, Tensor)> {
    let outs = [Out::Copy(("x", x)), Out::Copy(("residual", residual))];
    let run = |[weight]: [View<'_>; 1], [x, residual]: [ViewMut<'_>; 2]| {
        FusedAddRmsNorm { x, residual, weight, eps }.run()
    };
    let [y, sum] = compute(FusedAddRmsNorm::OP, [("weight", weight)], outs, run)?;
    Ok((y, sum))
}

/// `layernorm.fused_add_rmsnorm`, both tensors in place.
///
/// # Errors
/// As [`fused_add_rmsnorm`], or tensors that share their memory.
pub fn fused_add_rmsnorm_inplace(x: &Tensor, residual: &Tensor, weight: &Tensor, eps: f32) -> Result<()> {
    let writes = [("x", x), ("residual", residual)];
    let run = |[weight]: [View<'_>; 1], [x, residual]: [ViewMut<'_>; 2]| {
        FusedAddRmsNorm { x, residual, weight, eps }.run()
    };
    update(FusedAddRmsNorm::OP, [("weight", weight)], writes, run)
}

/// `layernorm.gemma_fused_add_rmsnorm`: the normalised sum, and the sum: [`GemmaFusedAddRmsNorm`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn gemma_fused_add_rmsnorm(
    x: &Tensor,
    residual: &Tensor,
    weight: &Tensor,
    eps: f32,
) -> Result<(Tensor, Tensor)> {
    let outs = [Out::Copy(("x", x)), Out::Copy(("residual", residual))];
    let run = |[weight]: [View<'_>; 1], [x, residual]: [ViewMut<'_>; 2]| {
        GemmaFusedAddRmsNorm { x, residual, weight, eps }.run()
    };
    let [y, sum] = compute(GemmaFusedAddRmsNorm::OP, [("weight", weight)], outs, run)?;
    Ok((y, sum))
}

/// `layernorm.gemma_fused_add_rmsnorm`, both tensors in place.
///
/// # Errors
/// As [`gemma_fused_add_rmsnorm`], or tensors that share their memory.
pub fn gemma_fused_add_rmsnorm_inplace(
    x: &Tensor,
    residual: &Tensor,
    weight: &Tensor,
    eps: f32,
) -> Result<()> {
    let writes = [("x", x), ("residual", residual)];
    let run = |[weight]: [View<'_>; 1], [x, residual]: [ViewMut<'_>; 2]| {
        GemmaFusedAddRmsNorm { x, residual, weight, eps }.run()
    };
    update(GemmaFusedAddRmsNorm::OP, [("weight", weight)], writes, run)
}

/// `layernorm.layernorm` of `x [.., hidden]` with `weight [hidden]` and a bias: [`LayerNorm`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn layernorm(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, eps: f32) -> Result<Tensor> {
    let (op, input, has_bias) = (LayerNorm::OP, ("x", x), bias.is_some());
    let out = like(op, input, x.dims().to_vec())?;
    let reads = [input, ("weight", weight), ("bias", bias.unwrap_or(weight))];
    let run = |[x, weight, bias]: [View<'_>; 3], [out]: [ViewMut<'_>; 1]| {
        LayerNorm { x, weight, bias: has_bias.then_some(bias), out, eps }.run()
    };
    let [y] = compute(op, reads, [out], run)?;
    Ok(y)
}

/// `layernorm.qk_norm_rope` of `q [tokens, heads, head_dim]` and `k`: both, normalised and turned: [`QkNormRope`].
///
/// # Errors
/// A position outside the cache, shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn qk_norm_rope(
    q: &Tensor,
    k: &Tensor,
    [q_weight, k_weight]: [&Tensor; 2],
    eps: f32,
    positions: &Tensor,
    cos_sin_cache: &Tensor,
    is_neox: bool,
) -> Result<(Tensor, Tensor)> {
    let reads = qk_reads(q_weight, k_weight, positions, cos_sin_cache);
    let outs = [Out::Copy(("q", q)), Out::Copy(("k", k))];
    let [q, k] = compute(QkNormRope::OP, reads, outs, |r, w| qk_run(r, w, eps, is_neox))?;
    Ok((q, k))
}

/// `layernorm.qk_norm_rope`, q and k in place.
///
/// # Errors
/// As [`qk_norm_rope`], or tensors that share their memory.
pub fn qk_norm_rope_inplace(
    q: &Tensor,
    k: &Tensor,
    [q_weight, k_weight]: [&Tensor; 2],
    eps: f32,
    positions: &Tensor,
    cos_sin_cache: &Tensor,
    is_neox: bool,
) -> Result<()> {
    let reads = qk_reads(q_weight, k_weight, positions, cos_sin_cache);
    update(QkNormRope::OP, reads, [("q", q), ("k", k)], |r, w| qk_run(r, w, eps, is_neox))
}

fn qk_reads<'t>(
    q_weight: &'t Tensor,
    k_weight: &'t Tensor,
    positions: &'t Tensor,
    cos_sin_cache: &'t Tensor,
) -> [(&'static str, &'t Tensor); 4] {
    [
        ("q_weight", q_weight),
        ("k_weight", k_weight),
        ("positions", positions),
        ("cos_sin_cache", cos_sin_cache),
    ]
}

fn qk_run(
    [q_weight, k_weight, positions, cos_sin_cache]: [View<'_>; 4],
    [q, k]: [ViewMut<'_>; 2],
    eps: f32,
    is_neox: bool,
) -> kernels_core::Result<()> {
    QkNormRope { q, k, q_weight, k_weight, positions, cos_sin_cache, eps, is_neox }.run()
}
