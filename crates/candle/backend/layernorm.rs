//! `layernorm.*`

use super::candle_kernel;
use super::embeddings::turned;
use super::host::{load, load_mut, store, store_where};
use candle_core::{D, Result, Tensor};
use kernels_core::{Ctx, DTypeSet, Formats};
use kernels_ops::layernorm::{
    FusedAddRmsNorm, GemmaFusedAddRmsNorm, GemmaRmsNorm, LayerNorm, QkNormRope, RmsNorm,
};

/// x / sqrt(mean(x²) + eps) · (offset + w).
fn rms(x: &Tensor, weight: &Tensor, eps: f32, offset: f64) -> Result<Tensor> {
    let mean = x.sqr()?.mean_keepdim(D::Minus1)?;
    x.broadcast_div(&(mean + f64::from(eps))?.sqrt()?)?.broadcast_mul(&(weight + offset)?)
}

macro_rules! norms {
    ($run:ident, $fused:ident, $op:ident, $fused_op:ident, $offset:literal) => {
        unsafe fn $run(_: &Ctx, a: &$op<'_>) -> Result<()> {
            // SAFETY: checked arguments on the host.
            unsafe { store(&rms(&load(&a.x)?, &load(&a.weight)?, a.eps, $offset)?, &a.out) }
        }
        candle_kernel!($op, Formats::same(DTypeSet::FLOAT), $run);

        unsafe fn $fused(_: &Ctx, a: &$fused_op<'_>) -> Result<()> {
            // SAFETY: checked arguments on the host.
            unsafe {
                let sum = (load_mut(&a.x)? + load_mut(&a.residual)?)?;
                store(&sum, &a.residual)?;
                store(&rms(&sum, &load(&a.weight)?, a.eps, $offset)?, &a.x)
            }
        }
        candle_kernel!($fused_op, Formats::same(DTypeSet::FLOAT), $fused);
    };
}
norms!(rmsnorm, fused_add_rmsnorm, RmsNorm, FusedAddRmsNorm, 0.0);
norms!(gemma_rmsnorm, gemma_fused_add_rmsnorm, GemmaRmsNorm, GemmaFusedAddRmsNorm, 1.0);

unsafe fn layernorm(_: &Ctx, a: &LayerNorm<'_>) -> Result<()> {
    // SAFETY: checked arguments on the host.
    unsafe {
        let x = load(&a.x)?;
        // Less one of the row, so that a mean far from 0 takes no digits; the result is the same.
        let x = x.broadcast_sub(&x.narrow(D::Minus1, 0, 1)?)?;
        let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let y = rms(&centred, &load(&a.weight)?, a.eps, 0.0)?;
        let y = match &a.bias {
            Some(bias) => y.broadcast_add(&load(bias)?)?,
            None => y,
        };
        store(&y, &a.out)
    }
}
candle_kernel!(LayerNorm, Formats::same(DTypeSet::FLOAT), layernorm);

unsafe fn qk_norm_rope(ctx: &Ctx, a: &QkNormRope<'_>) -> Result<()> {
    // SAFETY: checked arguments on the host.
    unsafe {
        for (x, weight) in [(&a.q, &a.q_weight), (&a.k, &a.k_weight)] {
            if x.layout().elements() == 0 {
                continue;
            }
            let y = rms(&load_mut(x)?, &load(weight)?, a.eps, 0.0)?;
            let (y, found) = turned(ctx, &y, &a.positions, &a.cos_sin_cache, a.is_neox)?;
            store_where(&y, x, |t| found[t])?;
        }
    }
    Ok(())
}
candle_kernel!(QkNormRope, Formats::same(DTypeSet::FLOAT), qk_norm_rope);
