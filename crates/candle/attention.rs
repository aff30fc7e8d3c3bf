//! `attention.*` over candle tensors. An i8 cache is `U8`.

use crate::call::{Out, compute, dtype_of};
use crate::dtype::signed;
use candle_core::{Result, Tensor};
use kernels_core::{DType, View, ViewMut};
use kernels_ops::attention::{Decode, MergeState, Prefill};

/// How scores are made: [`kernels_ops::attention::Options`] with candle's tensors.
#[derive(Clone, Copy, Debug)]
pub struct Options<'t> {
    /// Factor of the scores, 1 / √head_dim as a rule.
    pub sm_scale: f32,
    /// Scores become cap · tanh(score / cap); 0 for none.
    pub logit_cap: f32,
    /// How many tokens a row sees at most, its own included; 0 for all.
    pub window: usize,
    /// `[num_heads]` f32: a score of each head that has no value.
    pub sinks: Option<&'t Tensor>,
    /// What stored keys are multiplied by.
    pub k_scale: f32,
    /// What stored values are multiplied by.
    pub v_scale: f32,
}

impl Options<'_> {
    /// Plain scores times `sm_scale`.
    pub fn scaled(sm_scale: f32) -> Self {
        Options { sm_scale, logit_cap: 0.0, window: 0, sinks: None, k_scale: 1.0, v_scale: 1.0 }
    }
}

/// `attention.decode` of `q [batch, heads, head_dim]` over paged caches: output, and LSE `[batch, heads]`:
/// [`Decode`].
///
/// # Errors
/// A length or block outside the tables, shapes, types or strides that do not fit, a tracked tensor, or no
/// usable kernel.
pub fn decode(
    q: &Tensor,
    [key_cache, value_cache]: [&Tensor; 2],
    block_table: &Tensor,
    seq_lens: &Tensor,
    options: Options<'_>,
) -> Result<(Tensor, Tensor)> {
    let Options { sm_scale, logit_cap, window, k_scale, v_scale, .. } = options;
    let has_sinks = options.sinks.is_some();
    let reads = [
        ("q", q),
        ("key_cache", key_cache),
        ("value_cache", value_cache),
        ("block_table", block_table),
        ("seq_lens", seq_lens),
        ("sinks", options.sinks.unwrap_or(q)),
    ];
    let run = |[q, key_cache, value_cache, block_table, seq_lens, sinks]: [View<'_>; 6],
               [out, lse]: [ViewMut<'_>; 2]| {
        Decode {
            q,
            key_cache: signed(key_cache),
            value_cache: signed(value_cache),
            block_table,
            seq_lens,
            sinks: has_sinks.then_some(sinks),
            out,
            lse: Some(lse),
            sm_scale,
            logit_cap,
            window,
            k_scale,
            v_scale,
        }
        .run()
    };
    let [out, lse] = compute(Decode::OP, reads, outs(Decode::OP, q)?, run)?;
    Ok((out, lse))
}

/// `attention.prefill` of `q [new tokens, heads, head_dim]` over paged caches: output, and LSE
/// `[new tokens, heads]`; `mask` is bytes `[any]` and where each sequence's begin: [`Prefill`].
///
/// # Errors
/// A length, offset or block outside its range, shapes, types or strides that do not fit, a tracked tensor, or no
/// usable kernel.
pub fn prefill(
    q: &Tensor,
    [key_cache, value_cache]: [&Tensor; 2],
    block_table: &Tensor,
    seq_lens: &Tensor,
    qo_indptr: &Tensor,
    mask: Option<[&Tensor; 2]>,
    options: Options<'_>,
    is_causal: bool,
) -> Result<(Tensor, Tensor)> {
    let Options { sm_scale, logit_cap, window, k_scale, v_scale, .. } = options;
    let (has_sinks, has_mask) = (options.sinks.is_some(), mask.is_some());
    let [bytes, indptr] = mask.unwrap_or([q, q]);
    let reads = [
        ("q", q),
        ("key_cache", key_cache),
        ("value_cache", value_cache),
        ("block_table", block_table),
        ("seq_lens", seq_lens),
        ("qo_indptr", qo_indptr),
        ("sinks", options.sinks.unwrap_or(q)),
        ("mask", bytes),
        ("mask_indptr", indptr),
    ];
    let run = |[q, keys, values, block_table, seq_lens, qo_indptr, sinks, mask, mask_indptr]: [View<'_>;
                   9],
               [out, lse]: [ViewMut<'_>; 2]| {
        Prefill {
            q,
            key_cache: signed(keys),
            value_cache: signed(values),
            block_table,
            seq_lens,
            qo_indptr,
            sinks: has_sinks.then_some(sinks),
            mask: has_mask.then_some(mask),
            mask_indptr: has_mask.then_some(mask_indptr),
            out,
            lse: Some(lse),
            sm_scale,
            logit_cap,
            window,
            k_scale,
            v_scale,
            is_causal,
        }
        .run()
    };
    let [out, lse] = compute(Prefill::OP, reads, outs(Prefill::OP, q)?, run)?;
    Ok((out, lse))
}

/// `attention.merge_state`: two results over disjoint tokens as one, output and LSE: [`MergeState`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn merge_state(
    out_a: &Tensor,
    lse_a: &Tensor,
    out_b: &Tensor,
    lse_b: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let reads = [("out_a", out_a), ("lse_a", lse_a), ("out_b", out_b), ("lse_b", lse_b)];
    let run = |[out_a, lse_a, out_b, lse_b]: [View<'_>; 4], [out, lse]: [ViewMut<'_>; 2]| {
        MergeState { out_a, lse_a, out_b, lse_b, out, lse }.run()
    };
    let [out, lse] = compute(MergeState::OP, reads, outs(MergeState::OP, out_a)?, run)?;
    Ok((out, lse))
}

/// Output and LSE for queries.
fn outs<'t>(op: &'static str, q: &Tensor) -> Result<[Out<'t>; 2]> {
    let rows = q.dims()[..q.rank().saturating_sub(1)].to_vec();
    Ok([Out::New(dtype_of(op, ("q", q))?, q.dims().to_vec()), Out::New(DType::F32, rows)])
}
