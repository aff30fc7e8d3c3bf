//! `candle_nn::Linear`, plain or quantised.

use crate::gemm;
use crate::nn::as_rows;
use candle_core::quantized::QTensor;
use candle_core::{Module, Result, Tensor};
use candle_nn::{Init, VarBuilder, init};
use std::sync::Arc;

/// x · weightᵀ + bias, over rows of any number of dimensions.
#[derive(Clone, Debug)]
pub struct Linear {
    weight: Weight,
    bias: Option<Tensor>,
}

#[derive(Clone, Debug)]
enum Weight {
    Plain(Tensor),
    Quantised(Arc<QTensor>),
}

impl Linear {
    /// With a weight `[out, in]` and a bias `[out]`.
    pub fn new(weight: Tensor, bias: Option<Tensor>) -> Linear {
        Linear { weight: Weight::Plain(weight), bias }
    }

    /// With a quantised weight `[out, in]`, as from a GGUF file. Its blocks are multiplied as they are; the best kernels
    /// round the input to 8 bits first, as candle's `QMatMul` does too. `KERNELS_POLICY=full-precision` takes others.
    pub fn from_qtensor(weight: Arc<QTensor>, bias: Option<Tensor>) -> Linear {
        Linear { weight: Weight::Quantised(weight), bias }
    }

    /// The weight, where it is plain.
    pub fn weight(&self) -> Option<&Tensor> {
        match &self.weight {
            Weight::Plain(weight) => Some(weight),
            Weight::Quantised(_) => None,
        }
    }

    /// The bias.
    pub fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }
}

impl Module for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = as_rows(x)?;
        match &self.weight {
            Weight::Plain(weight) => gemm::linear(&x, weight, self.bias.as_ref()),
            Weight::Quantised(weight) => gemm::linear_gguf(&x, weight, self.bias.as_ref()),
        }
    }
}

/// `weight` and `bias` from a builder.
///
/// # Errors
/// A tensor that is not there, or of another shape.
pub fn linear(in_dim: usize, out_dim: usize, vb: VarBuilder<'_>) -> Result<Linear> {
    let bound = 1.0 / (in_dim as f64).sqrt();
    let bias = vb.get_with_hints(out_dim, "bias", Init::Uniform { lo: -bound, up: bound })?;
    Ok(Linear { bias: Some(bias), ..linear_no_bias(in_dim, out_dim, vb)? })
}

/// `weight` from a builder.
///
/// # Errors
/// As [`linear`].
pub fn linear_no_bias(in_dim: usize, out_dim: usize, vb: VarBuilder<'_>) -> Result<Linear> {
    let weight = vb.get_with_hints((out_dim, in_dim), "weight", init::DEFAULT_KAIMING_NORMAL)?;
    Ok(Linear::new(weight, None))
}
