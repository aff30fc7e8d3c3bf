//! `activation.*` over candle tensors.

use crate::call::{Out, compute, like, update, with_last};
use candle_core::{Result, Tensor};
use kernels_core::{View, ViewMut};
use kernels_ops::activation::{GeluAndMul, GeluQuick, GeluTanhAndMul, Relu2, SiluAndMul, Softcap};

/// `activation.silu_and_mul` of `x [.., 2d]`: [`SiluAndMul`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn silu_and_mul(x: &Tensor) -> Result<Tensor> {
    let (op, input) = (SiluAndMul::OP, ("x", x));
    let out = like(op, input, with_last(x, x.dims().last().copied().unwrap_or(0) / 2))?;
    let run = |[x]: [View<'_>; 1], [out]: [ViewMut<'_>; 1]| SiluAndMul { x, out }.run();
    let [y] = compute(op, [input], [out], run)?;
    Ok(y)
}

/// `activation.gelu_and_mul` of `x [.., 2d]`: [`GeluAndMul`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn gelu_and_mul(x: &Tensor) -> Result<Tensor> {
    let (op, input) = (GeluAndMul::OP, ("x", x));
    let out = like(op, input, with_last(x, x.dims().last().copied().unwrap_or(0) / 2))?;
    let run = |[x]: [View<'_>; 1], [out]: [ViewMut<'_>; 1]| GeluAndMul { x, out }.run();
    let [y] = compute(op, [input], [out], run)?;
    Ok(y)
}

/// `activation.gelu_tanh_and_mul` of `x [.., 2d]`: [`GeluTanhAndMul`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn gelu_tanh_and_mul(x: &Tensor) -> Result<Tensor> {
    let (op, input) = (GeluTanhAndMul::OP, ("x", x));
    let out = like(op, input, with_last(x, x.dims().last().copied().unwrap_or(0) / 2))?;
    let run = |[x]: [View<'_>; 1], [out]: [ViewMut<'_>; 1]| GeluTanhAndMul { x, out }.run();
    let [y] = compute(op, [input], [out], run)?;
    Ok(y)
}

/// `activation.gelu_quick` of `x`: [`GeluQuick`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn gelu_quick(x: &Tensor) -> Result<Tensor> {
    let (op, input) = (GeluQuick::OP, ("x", x));
    let out = like(op, input, x.dims().to_vec())?;
    let run = |[x]: [View<'_>; 1], [out]: [ViewMut<'_>; 1]| GeluQuick { x, out }.run();
    let [y] = compute(op, [input], [out], run)?;
    Ok(y)
}

/// `activation.relu2` of `x`: [`Relu2`].
///
/// # Errors
/// Shapes, types or strides that do not fit, a tracked tensor, or no usable kernel.
pub fn relu2(x: &Tensor) -> Result<Tensor> {
    let (op, input) = (Relu2::OP, ("x", x));
    let out = like(op, input, x.dims().to_vec())?;
    let run = |[x]: [View<'_>; 1], [out]: [ViewMut<'_>; 1]| Relu2 { x, out }.run();
    let [y] = compute(op, [input], [out], run)?;
    Ok(y)
}

/// `activation.softcap` of `x`: [`Softcap`].
///
/// # Errors
/// A cap that is not above 0, a type that does not fit, a tracked tensor, or no usable kernel.
pub fn softcap(x: &Tensor, cap: f32) -> Result<Tensor> {
    let run = |_: [View<'_>; 0], [x]: [ViewMut<'_>; 1]| Softcap { x, cap }.run();
    let [y] = compute(Softcap::OP, [], [Out::Copy(("x", x))], run)?;
    Ok(y)
}

/// `activation.softcap`, in place.
///
/// # Errors
/// As [`softcap`].
pub fn softcap_inplace(x: &Tensor, cap: f32) -> Result<()> {
    let run = |_: [View<'_>; 0], [x]: [ViewMut<'_>; 1]| Softcap { x, cap }.run();
    update(Softcap::OP, [], [("x", x)], run)
}
