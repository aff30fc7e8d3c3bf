//! `embeddings.*`

use super::candle_kernel;
use super::host::{load, load_mut, store, store_where, zeros};
use candle_core::{D, Device, Result, Tensor};
use kernels_core::{Ctx, DTypeSet, Formats, View};
use kernels_ops::element::{below, index};
use kernels_ops::embeddings::{Embedding, Rope};

/// Indices below `limit`, and whether each was: others are reported, and 0.
///
/// # Safety
/// A checked index vector on the host.
unsafe fn indices(ctx: &Ctx, view: &View<'_>, limit: usize) -> Result<(Tensor, Vec<bool>)> {
    let (mut ids, mut found) = (Vec::new(), Vec::new());
    for i in 0..view.dim(0) {
        // SAFETY: i is below the length.
        let id = unsafe { index(view, i) };
        let ok = below(id, limit);
        if ok.is_none() {
            ctx.out_of_range(id, limit);
        }
        found.push(ok.is_some());
        ids.push(ok.unwrap_or(0) as u32);
    }
    Ok((Tensor::from_vec(ids, view.dim(0), &Device::Cpu)?, found))
}

unsafe fn embedding(ctx: &Ctx, a: &Embedding<'_>) -> Result<()> {
    // SAFETY: checked arguments on the host.
    unsafe {
        let (ids, found) = indices(ctx, &a.ids, a.table.dim(0))?;
        let all = zeros(a.out.shape())?;
        if found.contains(&true) {
            store(&load(&a.table)?.index_select(&ids, 0)?, &a.out)?;
        }
        store_where(&all, &a.out, |t| !found[t])
    }
}
candle_kernel!(Embedding, Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT), embedding);

/// Heads `[tokens, heads, head_dim]` turned, and which tokens have a position.
///
/// # Safety
/// Checked positions and cache on the host.
pub(super) unsafe fn turned(
    ctx: &Ctx,
    x: &Tensor,
    positions: &View<'_>,
    cos_sin_cache: &View<'_>,
    is_neox: bool,
) -> Result<(Tensor, Vec<bool>)> {
    // SAFETY: by contract.
    let (rows, found) = unsafe { indices(ctx, positions, cos_sin_cache.dim(0))? };
    let (rotary, (tokens, heads, dim)) = (cos_sin_cache.dim(1), x.dims3()?);
    if rotary == 0 || !found.contains(&true) {
        return Ok((x.clone(), found));
    }
    // SAFETY: by contract.
    let angles = unsafe { load(cos_sin_cache)? }.index_select(&rows, 0)?.unsqueeze(1)?;
    let (cos, sin) =
        (angles.narrow(D::Minus1, 0, rotary / 2)?, angles.narrow(D::Minus1, rotary / 2, rotary / 2)?);
    let part = x.narrow(D::Minus1, 0, rotary)?.contiguous()?;
    let (u, v) = match is_neox {
        true => (part.narrow(D::Minus1, 0, rotary / 2)?, part.narrow(D::Minus1, rotary / 2, rotary / 2)?),
        false => {
            let pairs = part.reshape((tokens, heads, rotary / 2, 2))?;
            (pairs.narrow(3, 0, 1)?.squeeze(3)?, pairs.narrow(3, 1, 1)?.squeeze(3)?)
        }
    };
    let first = (u.broadcast_mul(&cos)? - v.broadcast_mul(&sin)?)?;
    let second = (v.broadcast_mul(&cos)? + u.broadcast_mul(&sin)?)?;
    let part = match is_neox {
        true => Tensor::cat(&[first, second], D::Minus1)?,
        false => Tensor::stack(&[first, second], 3)?.reshape((tokens, heads, rotary))?,
    };
    let rest = x.narrow(D::Minus1, rotary, dim - rotary)?;
    let y = if rotary == dim { part } else { Tensor::cat(&[part, rest], D::Minus1)? };
    Ok((y, found))
}

unsafe fn rope(ctx: &Ctx, a: &Rope<'_>) -> Result<()> {
    // SAFETY: checked arguments on the host.
    unsafe {
        for x in [&a.q, &a.k] {
            if x.layout().elements() > 0 {
                let (y, found) = turned(ctx, &load_mut(x)?, &a.positions, &a.cos_sin_cache, a.is_neox)?;
                store_where(&y, x, |t| found[t])?;
            }
        }
    }
    Ok(())
}
candle_kernel!(Rope, Formats::same(DTypeSet::FLOAT), rope);
