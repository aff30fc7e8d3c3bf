//! `sampling.*` over candle tensors.

use crate::call::{Out, compute, update};
use candle_core::{Result, Tensor};
use kernels_core::{DType, View, ViewMut};
use kernels_ops::sampling::{ApplyMask, Draw, Penalties, Sample, Softmax, TopKRenorm, TopPRenorm};

/// `sampling.softmax` of `logits [.., vocabulary]` over a temperature, in f32: [`Softmax`].
///
/// # Errors
/// A temperature that is not above 0, shapes, types or strides that do not fit, a tracked tensor, or no usable
/// kernel.
pub fn softmax(logits: &Tensor, temperature: f32) -> Result<Tensor> {
    let run =
        |[logits]: [View<'_>; 1], [probs]: [ViewMut<'_>; 1]| Softmax { logits, probs, temperature }.run();
    let [y] = compute(Softmax::OP, [("logits", logits)], [f32s(logits)], run)?;
    Ok(y)
}

/// `sampling.sample`: a token for each row of `logits [rows, vocabulary]`, i32: [`Sample`].
///
/// # Errors
/// A row that leaves no choice, a parameter outside its range, shapes, types or strides that do not fit, a
/// tracked tensor, or no usable kernel.
pub fn sample(logits: &Tensor, draw: Draw) -> Result<Tensor> {
    let Draw { temperature, top_k, top_p, min_p, seed } = draw;
    let out = Out::New(DType::I32, vec![logits.dims().first().copied().unwrap_or(0)]);
    let run = |[logits]: [View<'_>; 1], [ids]: [ViewMut<'_>; 1]| {
        Sample { logits, ids, temperature, top_k, top_p, min_p, seed }.run()
    };
    let [ids] = compute(Sample::OP, [("logits", logits)], [out], run)?;
    Ok(ids)
}

/// `sampling.top_k_renorm` of `probs [rows, vocabulary]` with `k [rows]`: [`TopKRenorm`].
///
/// # Errors
/// A k below 0, shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn top_k_renorm(probs: &Tensor, k: &Tensor) -> Result<Tensor> {
    let run = |[probs, k]: [View<'_>; 2], [out]: [ViewMut<'_>; 1]| TopKRenorm { probs, k, out }.run();
    let [y] = compute(TopKRenorm::OP, [("probs", probs), ("k", k)], [f32s(probs)], run)?;
    Ok(y)
}

/// `sampling.top_p_renorm` of `probs [rows, vocabulary]` with `p [rows]`: [`TopPRenorm`].
///
/// # Errors
/// A p that is NaN, shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn top_p_renorm(probs: &Tensor, p: &Tensor) -> Result<Tensor> {
    let run = |[probs, p]: [View<'_>; 2], [out]: [ViewMut<'_>; 1]| TopPRenorm { probs, p, out }.run();
    let [y] = compute(TopPRenorm::OP, [("probs", probs), ("p", p)], [f32s(probs)], run)?;
    Ok(y)
}

/// `sampling.apply_mask`: `logits [rows, vocabulary]` with −∞ where a bit of `mask [rows, words]` is 0:
/// [`ApplyMask`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn apply_mask(logits: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let [y] = compute(ApplyMask::OP, [("mask", mask)], [Out::Copy(("logits", logits))], forbid)?;
    Ok(y)
}

/// `sampling.apply_mask`, in place.
///
/// # Errors
/// As [`apply_mask`], or tensors that share their memory.
pub fn apply_mask_inplace(logits: &Tensor, mask: &Tensor) -> Result<()> {
    update(ApplyMask::OP, [("mask", mask)], [("logits", logits)], forbid)
}

fn forbid([mask]: [View<'_>; 1], [logits]: [ViewMut<'_>; 1]) -> kernels_core::Result<()> {
    ApplyMask { logits, mask }.run()
}

/// `sampling.penalties`: `logits [rows, vocabulary]` lowered by repetition, frequency and presence `[rows]`:
/// [`Penalties`].
///
/// # Errors
/// A token beyond the vocabulary, shapes, types or strides that do not fit, a tracked tensor, or no usable
/// kernel.
pub fn penalties(
    logits: &Tensor,
    prompt_tokens: Option<&Tensor>,
    output_tokens: &Tensor,
    each: [&Tensor; 3],
) -> Result<Tensor> {
    let (reads, has_prompt) = penalty_reads(prompt_tokens, output_tokens, each);
    let run = |r: [View<'_>; 5], w: [ViewMut<'_>; 1]| lower(r, w, has_prompt);
    let [y] = compute(Penalties::OP, reads, [Out::Copy(("logits", logits))], run)?;
    Ok(y)
}

/// `sampling.penalties`, in place.
///
/// # Errors
/// As [`penalties`], or tensors that share their memory.
pub fn penalties_inplace(
    logits: &Tensor,
    prompt_tokens: Option<&Tensor>,
    output_tokens: &Tensor,
    each: [&Tensor; 3],
) -> Result<()> {
    let (reads, has_prompt) = penalty_reads(prompt_tokens, output_tokens, each);
    update(Penalties::OP, reads, [("logits", logits)], |r, w| lower(r, w, has_prompt))
}

fn penalty_reads<'t>(
    prompt_tokens: Option<&'t Tensor>,
    output_tokens: &'t Tensor,
    [repetition, frequency, presence]: [&'t Tensor; 3],
) -> ([(&'static str, &'t Tensor); 5], bool) {
    let reads = [
        ("prompt_tokens", prompt_tokens.unwrap_or(output_tokens)),
        ("output_tokens", output_tokens),
        ("repetition", repetition),
        ("frequency", frequency),
        ("presence", presence),
    ];
    (reads, prompt_tokens.is_some())
}

fn lower(
    [prompt, output_tokens, repetition, frequency, presence]: [View<'_>; 5],
    [logits]: [ViewMut<'_>; 1],
    has_prompt: bool,
) -> kernels_core::Result<()> {
    let prompt_tokens = has_prompt.then_some(prompt);
    Penalties { logits, prompt_tokens, output_tokens, repetition, frequency, presence }.run()
}

fn f32s<'t>(like: &Tensor) -> Out<'t> {
    Out::New(DType::F32, like.dims().to_vec())
}
