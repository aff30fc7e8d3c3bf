//! `gemm.*`, and the GGUF formats.

use super::candle_kernel;
use super::host::{load, store, zeros};
use crate::dtype::ggml;
use candle_core::quantized::{QStorage, QTensor};
use candle_core::{Device, Result, Tensor};
use kernels_core::{Ctx, DType, DTypeSet, Formats, View, ViewMut};
use kernels_ops::gemm::{Fp8ScaledMm, Int8ScaledMm, Linear, LinearGguf};
use kernels_ops::quantization::DequantizeGguf;
use std::borrow::Cow;

/// x · weightᵀ of matrices.
fn product(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let (rows, features) = (x.dims()[..x.rank() - 1].iter().product::<usize>(), weight.dim(1)?);
    let mut shape = x.dims().to_vec();
    shape.pop();
    shape.push(weight.dim(0)?);
    if features == 0 {
        return zeros(&shape);
    }
    x.reshape((rows, features))?.matmul(&weight.t()?)?.reshape(shape)
}

/// # Safety
/// Checked arguments on the host.
unsafe fn finish(y: Tensor, bias: Option<&View<'_>>, out: &ViewMut<'_>) -> Result<()> {
    // SAFETY: by contract.
    unsafe {
        let y = match bias {
            Some(bias) => y.broadcast_add(&load(bias)?)?,
            None => y,
        };
        store(&y, out)
    }
}

unsafe fn linear(_: &Ctx, a: &Linear<'_>) -> Result<()> {
    // SAFETY: checked arguments on the host.
    unsafe { finish(product(&load(&a.x)?, &load(&a.weight)?)?, a.bias.as_ref(), &a.out) }
}
candle_kernel!(Linear, Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT), linear);

/// The values of blocks, by candle's own reading of the formats.
///
/// # Safety
/// A checked matrix on the host.
unsafe fn values(weight: &View<'_>) -> Result<Tensor> {
    let dtype = weight.dtype();
    let (Some(format), Some(rows)) = (ggml(dtype), weight.rows()) else {
        candle_core::bail!("candle has no {dtype}")
    };
    let of = |elements: usize| elements / dtype.block_len() * dtype.block_bytes();
    let mut bytes = Vec::with_capacity(of(rows.rows * rows.cols));
    for r in 0..rows.rows {
        // SAFETY: the row is inside the view.
        let row = unsafe {
            std::slice::from_raw_parts(weight.as_ptr::<u8>().add(of(r * rows.stride)), of(rows.cols))
        };
        bytes.extend_from_slice(row);
    }
    let storage = QStorage::from_data(Cow::Owned(bytes), &Device::Cpu, format)?;
    QTensor::new(storage, weight.shape())?.dequantize(&Device::Cpu)
}

unsafe fn linear_gguf(_: &Ctx, a: &LinearGguf<'_>) -> Result<()> {
    // SAFETY: checked arguments on the host.
    unsafe { finish(product(&load(&a.x)?, &values(&a.weight)?)?, a.bias.as_ref(), &a.out) }
}
candle_kernel!(
    LinearGguf,
    Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT.union(DTypeSet::GGUF)),
    linear_gguf
);

unsafe fn dequantize_gguf(_: &Ctx, a: &DequantizeGguf<'_>) -> Result<()> {
    // SAFETY: checked arguments on the host.
    unsafe { store(&values(&a.weight)?, &a.out) }
}
candle_kernel!(
    DequantizeGguf,
    Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT.union(DTypeSet::GGUF)),
    dequantize_gguf
);

macro_rules! scaled {
    ($run:ident, $op:ident, $dtype:ident) => {
        unsafe fn $run(_: &Ctx, a: &$op<'_>) -> Result<()> {
            // SAFETY: checked arguments on the host.
            unsafe {
                let y = product(&load(&a.a)?, &load(&a.b)?)?;
                let y = y.broadcast_mul(&load(&a.scales_a)?.unsqueeze(1)?)?;
                finish(y.broadcast_mul(&load(&a.scales_b)?)?, a.bias.as_ref(), &a.out)
            }
        }
        candle_kernel!($op, Formats::mixed(DTypeSet::FLOAT, DTypeSet::of(&[DType::$dtype])), $run);
    };
}
scaled!(int8_scaled_mm, Int8ScaledMm, I8);
scaled!(fp8_scaled_mm, Fp8ScaledMm, F8E4M3);
