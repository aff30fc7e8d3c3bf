//! `activation.*`

use super::candle_kernel;
use super::host::{load, load_mut, store};
use candle_core::{D, Result, Tensor};
use kernels_core::{Ctx, DTypeSet, Formats};
use kernels_ops::activation::{GeluQuick, GeluTanhAndMul, Relu2, SiluAndMul, Softcap};

/// x / (1 + e^(−inner)).
fn sigmoid_gate(x: &Tensor, inner: &Tensor) -> Result<Tensor> {
    x / (inner.neg()?.exp()? + 1.0)?
}

fn gelu_tanh(x: &Tensor) -> Result<Tensor> {
    let inner = ((x.sqr()? * x)? * 0.044715)?.add(x)?;
    sigmoid_gate(x, &(inner * (2.0 * (2.0 / std::f64::consts::PI).sqrt()))?)
}

macro_rules! gated {
    ($run:ident, $op:ident, |$gate:ident| $value:expr) => {
        unsafe fn $run(_: &Ctx, a: &$op<'_>) -> Result<()> {
            // SAFETY: checked arguments on the host.
            let x = unsafe { load(&a.x)? };
            let d = a.x.shape().last().copied().unwrap_or(0) / 2;
            let ($gate, up) = (&x.narrow(D::Minus1, 0, d)?.contiguous()?, x.narrow(D::Minus1, d, d)?);
            let y = ($value? * up)?;
            // SAFETY: as above.
            unsafe { store(&y, &a.out) }
        }
        candle_kernel!($op, Formats::same(DTypeSet::FLOAT), $run);
    };
}
gated!(silu_and_mul, SiluAndMul, |gate| sigmoid_gate(gate, gate));
gated!(gelu_tanh_and_mul, GeluTanhAndMul, |gate| gelu_tanh(gate));

unsafe fn gelu_quick(_: &Ctx, a: &GeluQuick<'_>) -> Result<()> {
    // SAFETY: checked arguments on the host.
    unsafe {
        let x = load(&a.x)?;
        store(&sigmoid_gate(&x, &(&x * 1.702)?)?, &a.out)
    }
}
candle_kernel!(GeluQuick, Formats::same(DTypeSet::FLOAT), gelu_quick);

unsafe fn relu2(_: &Ctx, a: &Relu2<'_>) -> Result<()> {
    // SAFETY: checked arguments on the host.
    unsafe {
        let x = load(&a.x)?;
        // candle's `relu` makes a number of NaN.
        store(&x.lt(0.0)?.where_cond(&x.zeros_like()?, &x.sqr()?)?, &a.out)
    }
}
candle_kernel!(Relu2, Formats::same(DTypeSet::FLOAT), relu2);

unsafe fn softcap(_: &Ctx, a: &Softcap<'_>) -> Result<()> {
    let cap = f64::from(a.cap);
    // SAFETY: checked arguments on the host.
    unsafe { store(&((load_mut(&a.x)? / cap)?.tanh()? * cap)?, &a.x) }
}
candle_kernel!(Softcap, Formats::same(DTypeSet::FLOAT), softcap);
