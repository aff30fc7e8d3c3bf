//! `attention.*`: each row by itself over the tokens that it sees, so that what it does not see cannot reach
//! it, not even NaN.

use super::candle_kernel;
use super::host::{load, store, zeros};
use super::sampling::{share, weights};
use candle_core::{D, Device, Result, Tensor};
use kernels_core::{Ctx, DType, DTypeSet, Formats};
use kernels_ops::attention::{Decode, MergeState, Prefill, Spans, Tensors, decode_spans, prefill_spans};
use kernels_ops::element::{below, index};

const CACHE: DTypeSet = DTypeSet::FLOAT.union(DTypeSet::of(&[DType::F8E4M3]));

unsafe fn decode(ctx: &Ctx, a: &Decode<'_>) -> Result<()> {
    let t = a.tensors();
    // SAFETY: checked arguments on the host.
    unsafe { attend(ctx, &t, &decode_spans(&t, a.seq_lens)) }
}
candle_kernel!(Decode, Formats::mixed(DTypeSet::FLOAT, CACHE), decode);

unsafe fn prefill(ctx: &Ctx, a: &Prefill<'_>) -> Result<()> {
    let t = a.tensors();
    // SAFETY: checked arguments on the host.
    unsafe { attend(ctx, &t, &prefill_spans(ctx, &t, a.seq_lens, a.qo_indptr, a.is_causal)) }
}
candle_kernel!(Prefill, Formats::mixed(DTypeSet::FLOAT, CACHE), prefill);

/// # Safety
/// Checked arguments on the host.
unsafe fn attend(ctx: &Ctx, t: &Tensors<'_, '_>, spans: &Spans<'_>) -> Result<()> {
    let (rows, heads, dim) = (t.q.dim(0), t.q.dim(1), t.q.dim(2));
    let (blocks, block_size, kv_heads) = (t.key_cache.dim(0), t.key_cache.dim(1), t.key_cache.dim(2));
    // SAFETY: by contract; a sequence's tokens are inside its row of the block table.
    unsafe {
        let flat = |cache| load(cache)?.reshape((blocks * block_size, kv_heads, dim));
        let (q, keys, values) = (load(t.q)?, flat(t.key_cache)?, flat(t.value_cache)?);
        let sinks = t.sinks.map(|s| load(s)).transpose()?;
        let (mut out, mut lse) =
            (vec![zeros(&[1, heads, dim])?; rows], vec![f32::NEG_INFINITY; rows * heads]);
        for s in 0..spans.len() {
            let sequence = spans.sequence(ctx, s);
            let mask = t.mask.map(|m| (m, m.base(ctx, &sequence)));
            for i in 0..sequence.rows {
                let mut seen = Vec::new();
                for token in sequence.first(i)..sequence.visible(i) {
                    if mask.is_some_and(|(m, base)| !base.is_some_and(|b| m.sees(b, &sequence, i, token))) {
                        continue;
                    }
                    let block = index(t.block_table, s * t.block_table.stride(0) + token / block_size);
                    match below(block, blocks) {
                        Some(b) => seen.push((b * block_size + token % block_size) as u32),
                        None => ctx.out_of_range(block, blocks),
                    }
                }
                let row = sequence.first_row + i;
                let tokens = Tensor::from_vec(seen.clone(), seen.len(), &Device::Cpu)?;
                let (y, l) = one(t, &q.narrow(0, row, 1)?, [&keys, &values], &tokens, sinks.as_ref())?;
                out[row] = y;
                lse[row * heads..(row + 1) * heads].copy_from_slice(&l);
            }
        }
        store(&Tensor::cat(&out, 0)?, t.out)?;
        if let Some(view) = t.lse {
            store(&Tensor::from_vec(lse, (rows, heads), &Device::Cpu)?, view)?;
        }
    }
    Ok(())
}

/// One row `[1, heads, head_dim]` over some tokens: output and LSE of each head.
fn one(
    t: &Tensors<'_, '_>,
    q: &Tensor,
    [keys, values]: [&Tensor; 2],
    tokens: &Tensor,
    sinks: Option<&Tensor>,
) -> Result<(Tensor, Vec<f32>)> {
    let ((_, heads, dim), kv_heads, n) = (q.dims3()?, keys.dim(1)?, tokens.dim(0)?);
    let group = heads / kv_heads;
    let mut parts = Vec::new();
    if n > 0 {
        // [kv_heads, group, dim] · [kv_heads, dim, n]
        let k = keys.index_select(tokens, 0)?.permute((1, 2, 0))?.contiguous()?;
        let scores = q.reshape((kv_heads, group, dim))?.matmul(&k)?.reshape((heads, n))?;
        let scores = (scores * (f64::from(t.sm_scale) * f64::from(t.k_scale)))?;
        let cap = f64::from(t.logit_cap);
        parts.push(if cap > 0.0 { ((scores / cap)?.tanh()? * cap)? } else { scores });
    }
    if let Some(sinks) = sinks {
        parts.push(sinks.reshape((heads, 1))?);
    }
    if parts.is_empty() {
        return Ok((zeros(&[1, heads, dim])?, vec![f32::NEG_INFINITY; heads]));
    }
    let (weights, max, sums) = weights(&Tensor::cat(&parts, 1)?)?;
    let lse = (max + sums.log()?)?.flatten_all()?.to_vec1::<f32>()?;
    if n == 0 {
        return Ok((zeros(&[1, heads, dim])?, lse));
    }
    let v = values.index_select(tokens, 0)?.transpose(0, 1)?.contiguous()?;
    let weights = share(&weights, &sums)?.narrow(1, 0, n)?.contiguous()?.reshape((kv_heads, group, n))?;
    let y = (weights.matmul(&v)? * f64::from(t.v_scale))?;
    Ok((y.reshape((1, heads, dim))?, lse))
}

unsafe fn merge_state(_: &Ctx, a: &MergeState<'_>) -> Result<()> {
    // SAFETY: checked arguments on the host.
    unsafe {
        let both = Tensor::stack(&[load(&a.lse_a)?, load(&a.lse_b)?], D::Minus1)?;
        let (weights, max, sums) = weights(&both)?;
        store(&(max + sums.log()?)?.squeeze(D::Minus1)?, &a.lse)?;
        let shares = share(&weights, &sums)?;
        // A part without weight may hold anything.
        let part = |x: &Tensor, i| {
            let w = shares.narrow(D::Minus1, i, 1)?.broadcast_as(x.shape())?.contiguous()?;
            w.eq(0.0)?.where_cond(&x.zeros_like()?, &(x * &w)?)
        };
        store(&(part(&load(&a.out_a)?, 0)? + part(&load(&a.out_b)?, 1)?)?, &a.out)
    }
}
candle_kernel!(MergeState, Formats::same(DTypeSet::FLOAT), merge_state);
