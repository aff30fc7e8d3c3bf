//! `candle_nn::Linear`, plain, packed ahead of the calls, or quantised.

use crate::gemm;
use crate::nn::as_rows;
use candle_core::quantized::QTensor;
use candle_core::{Module, Result, Tensor};
use candle_nn::{Init, VarBuilder, init};
use kernels_core::Packed;
use std::fmt;
use std::sync::Arc;

/// x · weightᵀ + bias, over rows of any number of dimensions.
#[derive(Clone)]
pub struct Linear {
    weight: Weight,
    bias: Option<Tensor>,
}

#[derive(Clone)]
enum Weight {
    Plain(Tensor),
    Packed(Arc<Packed>),
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

    /// The same layer with its weight in the layout of the kernel that multiplies it, so that no call turns it,
    /// which pays for some 10 to 100 rows (`kernels bench` says how much). Of this copy of the layer the plain weight is let
    /// go. A layer whose kernel takes weights as they are stays what it is.
    ///
    /// # Errors
    /// No usable kernel, a tracked tensor, or no memory.
    pub fn prepacked(self) -> Result<Linear> {
        let packed = match &self.weight {
            Weight::Plain(weight) => gemm::prepack_linear(weight)?,
            _ => None,
        };
        Ok(match packed {
            Some(packed) => Linear { weight: Weight::Packed(Arc::new(packed)), bias: self.bias },
            None => self,
        })
    }

    /// The weight, where it is plain.
    pub fn weight(&self) -> Option<&Tensor> {
        match &self.weight {
            Weight::Plain(weight) => Some(weight),
            Weight::Packed(_) | Weight::Quantised(_) => None,
        }
    }

    /// The bias.
    pub fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }
}

impl fmt::Debug for Linear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut layer = f.debug_struct("Linear");
        match &self.weight {
            Weight::Plain(weight) => layer.field("weight", weight),
            Weight::Packed(weight) => layer.field("packed for", &weight.kernel()),
            Weight::Quantised(weight) => layer.field("weight", weight),
        };
        layer.field("bias", &self.bias).finish()
    }
}

impl Module for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = as_rows(x)?;
        match &self.weight {
            Weight::Plain(weight) => gemm::linear(&x, weight, self.bias.as_ref()),
            Weight::Packed(weight) => gemm::linear_packed(&x, weight, self.bias.as_ref()),
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
