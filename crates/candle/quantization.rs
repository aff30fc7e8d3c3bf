//! `quantization.*` over candle tensors, and candle's quantised tensors as views.

use crate::call::{Out, compute, compute_on, result_type};
use crate::dtype::{blocks, signed_mut};
use crate::error::CandleError;
use candle_core::quantized::QTensor;
use candle_core::{DType, Result, Tensor};
use kernels_core::{DType as Ours, Device, Layout, View, ViewMut};
use kernels_ops::quantization::{DequantizeGguf, PerTokenGroupQuant, PerTokenQuantFp8, PerTokenQuantInt8};

/// Calls `run` with a quantised tensor's blocks.
pub(crate) fn quantised<T>(
    op: &'static str,
    name: &'static str,
    tensor: &QTensor,
    run: impl FnOnce(View<'_>) -> Result<T>,
) -> Result<T> {
    let fail = |error| Err(candle_core::Error::wrap(error));
    let of_another_size =
        || CandleError::Type { op, tensor: name, dtype: format!("{:?} of another size", tensor.dtype()) };
    let (Some(dtype), Some(layout)) = (blocks(tensor.dtype()), Layout::contiguous(tensor.shape().dims()))
    else {
        return fail(CandleError::Type { op, tensor: name, dtype: format!("{:?}", tensor.dtype()) });
    };
    #[cfg(feature = "candle-cuda")]
    if let candle_core::Device::Cuda(on) = &tensor.device() {
        if tensor.storage_size_in_bytes() < layout.span_bytes(dtype) {
            return fail(of_another_size());
        }
        let (device, stream) = (crate::cuda::device(on)?, on.cuda_stream());
        // Until the kernel is queued, so that candle knows of the read.
        let (ptr, _reading) = tensor.device_ptr_with_guard(&stream)?;
        // SAFETY: the tensor is borrowed while `run` runs, its blocks are as many as the layout has, and aligned.
        return run(unsafe { View::from_raw(ptr, dtype, layout, device) });
    }
    if !matches!(tensor.device(), candle_core::Device::Cpu) {
        let location = format!("{:?}", tensor.device().location());
        return fail(CandleError::Location { op, tensor: name, location });
    }
    let bytes = tensor.data()?;
    if bytes.len() < layout.span_bytes(dtype) || bytes.as_ptr().addr() % dtype.align() != 0 {
        return fail(of_another_size());
    }
    // SAFETY: the bytes are borrowed while `run` runs, as many as the layout has, and aligned.
    run(unsafe { View::from_raw(bytes.as_ptr(), dtype, layout, Device::cpu()) })
}

/// `quantization.dequantize_gguf`: the values of `weight` as `dtype` (f32, f16 or bf16): [`DequantizeGguf`].
///
/// # Errors
/// A block format or type without kernels.
pub fn dequantize_gguf(weight: &QTensor, dtype: DType) -> Result<Tensor> {
    let (op, on) = (DequantizeGguf::OP, weight.device());
    quantised(op, "weight", weight, |weight| {
        let to = result_type(op, dtype)?;
        let run = |_: [View<'_>; 0], [out]: [ViewMut<'_>; 1]| DequantizeGguf { weight, out }.run();
        let [y] = compute_on(op, &on, [], [Out::New(to, weight.shape().to_vec())], run)?;
        Ok(y)
    })
}

/// `quantization.per_token_quant_int8` of `x [tokens, hidden]`: i8 values (as `U8`), and scales `[tokens]`:
/// [`PerTokenQuantInt8`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn per_token_quant_int8(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let outs = outs(x, Ours::I8, rows(x));
    let run = |[x]: [View<'_>; 1], [q, scales]: [ViewMut<'_>; 2]| {
        PerTokenQuantInt8 { x, q: signed_mut(q), scales }.run()
    };
    let [q, scales] = compute(PerTokenQuantInt8::OP, [("x", x)], outs, run)?;
    Ok((q, scales))
}

/// `quantization.per_token_quant_fp8` of `x [tokens, hidden]`: f8 values, and scales `[tokens]`:
/// [`PerTokenQuantFp8`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn per_token_quant_fp8(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let outs = outs(x, Ours::F8E4M3, rows(x));
    let run = |[x]: [View<'_>; 1], [q, scales]: [ViewMut<'_>; 2]| PerTokenQuantFp8 { x, q, scales }.run();
    let [q, scales] = compute(PerTokenQuantFp8::OP, [("x", x)], outs, run)?;
    Ok((q, scales))
}

/// `quantization.per_token_group_quant` of `x [tokens, hidden]`: values of type `dtype` (`F8E4M3`, or `U8` for
/// i8), and scales `[tokens, hidden / group_size]`: [`PerTokenGroupQuant`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn per_token_group_quant(
    x: &Tensor,
    dtype: DType,
    group_size: usize,
    eps: f32,
) -> Result<(Tensor, Tensor)> {
    // The op itself refuses what is no 8-bit type.
    let to = if dtype == DType::U8 { Ours::I8 } else { result_type(PerTokenGroupQuant::OP, dtype)? };
    let mut groups = rows(x);
    groups.push(x.dims().last().copied().unwrap_or(0) / group_size.max(1));
    let run = |[x]: [View<'_>; 1], [q, scales]: [ViewMut<'_>; 2]| {
        PerTokenGroupQuant { x, q: signed_mut(q), scales, group_size, eps }.run()
    };
    let [q, scales] = compute(PerTokenGroupQuant::OP, [("x", x)], outs(x, to, groups), run)?;
    Ok((q, scales))
}

fn rows(x: &Tensor) -> Vec<usize> {
    x.dims()[..x.rank().saturating_sub(1)].to_vec()
}

fn outs<'t>(x: &Tensor, to: Ours, scales: Vec<usize>) -> [Out<'t>; 2] {
    [Out::New(to, x.dims().to_vec()), Out::New(Ours::F32, scales)]
}
