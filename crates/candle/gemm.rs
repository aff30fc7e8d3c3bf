//! `gemm.*` over candle tensors.

use crate::call::{Out, compute, like, result_type, with_last};
use crate::dtype::signed;
use crate::quantization::quantised;
use candle_core::quantized::QTensor;
use candle_core::{DType, Result, Tensor};
use kernels_core::{Packed, View, ViewMut};
use kernels_ops::gemm::{Fp8ScaledMm, Int8ScaledMm, Linear, LinearGguf};

/// `gemm.linear`: `x · weightᵀ + bias` of `x [.., in]` and `weight [out, in]`: [`Linear`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let (op, input, has_bias) = (Linear::OP, ("x", x), bias.is_some());
    let out = like(op, input, with_last(x, weight.dims().first().copied().unwrap_or(0)))?;
    let reads = [input, ("weight", weight), ("bias", bias.unwrap_or(x))];
    let run = |[x, weight, bias]: [View<'_>; 3], [out]: [ViewMut<'_>; 1]| {
        Linear { x, weight, bias: has_bias.then_some(bias), out }.run()
    };
    let [y] = compute(op, reads, [out], run)?;
    Ok(y)
}

/// `weight` in the layout of the kernel that multiplies it with x of its type, ahead of the calls; `None` where that
/// kernel takes weights as they are: [`gemm::prepack_linear`](kernels_ops::gemm::prepack_linear).
///
/// # Errors
/// As [`linear`], or no memory.
pub fn prepack_linear(weight: &Tensor) -> Result<Option<Packed>> {
    let mut packed = None;
    compute(Linear::OP, [("weight", weight)], [], |[weight], []: [ViewMut<'_>; 0]| {
        packed = kernels_ops::gemm::prepack_linear(weight, weight.dtype())?;
        Ok(())
    })?;
    Ok(packed)
}

/// [`linear`] with a weight that was packed ahead of the calls.
///
/// # Errors
/// As [`linear`], or a policy that now chooses another kernel than the one it is packed for.
pub fn linear_packed(x: &Tensor, weight: &Packed, bias: Option<&Tensor>) -> Result<Tensor> {
    let (op, input, has_bias, weight) = (Linear::OP, ("x", x), bias.is_some(), weight.view());
    let out = like(op, input, with_last(x, weight.dim(0)))?;
    let run = |[x, bias]: [View<'_>; 2], [out]: [ViewMut<'_>; 1]| {
        Linear { x, weight, bias: has_bias.then_some(bias), out }.run()
    };
    let [y] = compute(op, [input, ("bias", bias.unwrap_or(x))], [out], run)?;
    Ok(y)
}

/// `gemm.linear_gguf`: `x · weightᵀ + bias` with a quantised weight `[out, in]`: [`LinearGguf`].
///
/// # Errors
/// As [`linear`], or a block format without kernels.
pub fn linear_gguf(x: &Tensor, weight: &QTensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let (op, input, has_bias) = (LinearGguf::OP, ("x", x), bias.is_some());
    quantised(op, "weight", weight, |weight| {
        let features = weight.shape().first().copied().unwrap_or(0);
        let out = like(op, input, with_last(x, features))?;
        let run = |[x, bias]: [View<'_>; 2], [out]: [ViewMut<'_>; 1]| {
            LinearGguf { x, weight, bias: has_bias.then_some(bias), out }.run()
        };
        let [y] = compute(op, [input, ("bias", bias.unwrap_or(x))], [out], run)?;
        Ok(y)
    })
}

/// `gemm.int8_scaled_mm` of `a [rows, in]` and `b [out, in]` (i8 as `U8`), as `out_dtype`: [`Int8ScaledMm`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn int8_scaled_mm(
    a: &Tensor,
    b: &Tensor,
    scales_a: &Tensor,
    scales_b: &Tensor,
    bias: Option<&Tensor>,
    out_dtype: DType,
) -> Result<Tensor> {
    scaled(
        Int8ScaledMm::OP,
        [a, b, scales_a, scales_b],
        bias,
        out_dtype,
        |[a, b, scales_a, scales_b], bias, out| {
            Int8ScaledMm { a: signed(a), b: signed(b), scales_a, scales_b, bias, out }.run()
        },
    )
}

/// `gemm.fp8_scaled_mm` of `a [rows, in]` and `b [out, in]`, as `out_dtype`: [`Fp8ScaledMm`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn fp8_scaled_mm(
    a: &Tensor,
    b: &Tensor,
    scales_a: &Tensor,
    scales_b: &Tensor,
    bias: Option<&Tensor>,
    out_dtype: DType,
) -> Result<Tensor> {
    scaled(
        Fp8ScaledMm::OP,
        [a, b, scales_a, scales_b],
        bias,
        out_dtype,
        |[a, b, scales_a, scales_b], bias, out| Fp8ScaledMm { a, b, scales_a, scales_b, bias, out }.run(),
    )
}

/// A product of 8-bit matrices with their scales.
fn scaled(
    op: &'static str,
    [a, b, scales_a, scales_b]: [&Tensor; 4],
    bias: Option<&Tensor>,
    out_dtype: DType,
    run: impl FnOnce([View<'_>; 4], Option<View<'_>>, ViewMut<'_>) -> kernels_core::Result<()>,
) -> Result<Tensor> {
    let has_bias = bias.is_some();
    let reads = [
        ("a", a),
        ("b", b),
        ("scales_a", scales_a),
        ("scales_b", scales_b),
        ("bias", bias.unwrap_or(scales_b)),
    ];
    let [y] = compute(op, reads, [product(op, a, b, out_dtype)?], |[a, b, sa, sb, bias], [out]| {
        run([a, b, sa, sb], has_bias.then_some(bias), out)
    })?;
    Ok(y)
}

/// The result of a product of rows of `a` with rows of `b`.
fn product<'t>(op: &'static str, a: &Tensor, b: &Tensor, dtype: DType) -> Result<Out<'t>> {
    let first = |t: &Tensor| t.dims().first().copied().unwrap_or(0);
    Ok(Out::New(result_type(op, dtype)?, vec![first(a), first(b)]))
}
