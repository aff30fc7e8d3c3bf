//! `elementwise.*` over candle tensors, transposed and broadcast ones too.

use crate::call::{Out, compute, like, result_type};
use candle_core::{DType, Result, Tensor};
use kernels_core::{View, ViewMut};
use kernels_ops::elementwise::{Add, Cast, Copy, Mul, Scale};

/// `elementwise.add` of two tensors of one shape, whatever their strides: [`Add`].
///
/// # Errors
/// Shapes or types that do not fit, a tracked tensor, or no usable kernel.
pub fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (op, input) = (Add::OP, ("a", a));
    let out = like(op, input, a.dims().to_vec())?;
    let run = |[a, b]: [View<'_>; 2], [out]: [ViewMut<'_>; 1]| Add { a, b, out }.run();
    let [y] = compute(op, [input, ("b", b)], [out], run)?;
    Ok(y)
}

/// `elementwise.mul` of two tensors of one shape, whatever their strides: [`Mul`].
///
/// # Errors
/// Shapes or types that do not fit, a tracked tensor, or no usable kernel.
pub fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (op, input) = (Mul::OP, ("a", a));
    let out = like(op, input, a.dims().to_vec())?;
    let run = |[a, b]: [View<'_>; 2], [out]: [ViewMut<'_>; 1]| Mul { a, b, out }.run();
    let [y] = compute(op, [input, ("b", b)], [out], run)?;
    Ok(y)
}

/// `elementwise.scale`: `x · factor`, whatever its strides: [`Scale`].
///
/// # Errors
/// A type that does not fit, a tracked tensor, or no usable kernel.
pub fn scale(x: &Tensor, factor: f32) -> Result<Tensor> {
    let (op, input) = (Scale::OP, ("x", x));
    let out = like(op, input, x.dims().to_vec())?;
    let run = |[x]: [View<'_>; 1], [out]: [ViewMut<'_>; 1]| Scale { x, out, factor }.run();
    let [y] = compute(op, [input], [out], run)?;
    Ok(y)
}

/// `elementwise.cast`: `x` as `dtype`, whatever its strides: [`Cast`].
///
/// # Errors
/// A type that does not fit, a tracked tensor, or no usable kernel.
pub fn cast(x: &Tensor, dtype: DType) -> Result<Tensor> {
    let op = Cast::OP;
    let to = result_type(op, dtype)?;
    let run = |[x]: [View<'_>; 1], [out]: [ViewMut<'_>; 1]| Cast { x, out }.run();
    let [y] = compute(op, [("x", x)], [Out::New(to, x.dims().to_vec())], run)?;
    Ok(y)
}

/// `elementwise.copy`: a contiguous copy of `x`: [`struct@Copy`].
///
/// # Errors
/// A type that does not fit, a tracked tensor, or no usable kernel.
pub fn copy(x: &Tensor) -> Result<Tensor> {
    let (op, input) = (Copy::OP, ("x", x));
    let out = like(op, input, x.dims().to_vec())?;
    let run = |[x]: [View<'_>; 1], [out]: [ViewMut<'_>; 1]| Copy { x, out }.run();
    let [y] = compute(op, [input], [out], run)?;
    Ok(y)
}
