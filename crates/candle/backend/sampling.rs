//! `sampling.*`

use super::candle_kernel;
use super::host::{load, load_mut, store};
use candle_core::{D, Device, Result, Tensor};
use kernels_core::{Ctx, DTypeSet, Formats};
use kernels_ops::element::index;
use kernels_ops::sampling::{ApplyMask, Softmax};

/// e^(x − max) of the last dimension, where all −∞ gives zeros; with the maxima and the sums, which keep that
/// dimension. Sums in f32: candle's own softmax of bf16 sums in bf16.
pub(super) fn weights(x: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let max = x.max_keepdim(D::Minus1)?;
    let finite = max.eq(f64::from(f32::NEG_INFINITY))?.where_cond(&max.zeros_like()?, &max)?;
    let weights = x.broadcast_sub(&finite)?.exp()?;
    let sums = weights.sum_keepdim(D::Minus1)?;
    Ok((weights, max, sums))
}

/// a / b, and 0 where b is 0.
pub(super) fn share(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let b = b.broadcast_as(a.shape())?;
    b.eq(0.0)?.where_cond(&a.zeros_like()?, &(a / b)?)
}

unsafe fn softmax(_: &Ctx, a: &Softmax<'_>) -> Result<()> {
    // SAFETY: checked arguments on the host.
    unsafe {
        let (weights, _, sums) = weights(&(load(&a.logits)? / f64::from(a.temperature))?)?;
        store(&share(&weights, &sums)?, &a.probs)
    }
}
candle_kernel!(Softmax, Formats::same(DTypeSet::FLOAT), softmax);

unsafe fn apply_mask(_: &Ctx, a: &ApplyMask<'_>) -> Result<()> {
    let (rows, cols) = (a.logits.dim(0), a.logits.dim(1));
    // SAFETY: checked arguments on the host; a word of the mask for each 32 columns.
    unsafe {
        let bit =
            |i: usize| index(&a.mask, i / cols * a.mask.stride(0) + i % cols / 32) >> (i % cols % 32) & 1;
        let allowed: Vec<u8> = (0..rows * cols).map(|i| bit(i) as u8).collect();
        let allowed = Tensor::from_vec(allowed, (rows, cols), &Device::Cpu)?;
        let logits = load_mut(&a.logits)?;
        let forbidden = Tensor::full(f32::NEG_INFINITY, (rows, cols), &Device::Cpu)?;
        store(&allowed.where_cond(&logits, &forbidden)?, &a.logits)
    }
}
candle_kernel!(ApplyMask, Formats::same(DTypeSet::FLOAT), apply_mask);
