//! `candle_nn::RmsNorm` and `candle_nn::LayerNorm`.

use crate::layernorm;
use crate::nn::as_rows;
use candle_core::{Module, Result, Tensor};
use candle_nn::{Init, VarBuilder};

/// Root-mean-square normalisation of the last dimension.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    weight: Tensor,
    eps: f64,
}

impl RmsNorm {
    /// With a weight `[hidden]` of the type of its inputs.
    pub fn new(weight: Tensor, eps: f64) -> RmsNorm {
        RmsNorm { weight, eps }
    }

    /// The norm of `x + residual`, and the sum: what a block of a model does between its halves, in one pass.
    ///
    /// # Errors
    /// Shapes or types that do not fit, a tracked tensor, or no usable kernel.
    pub fn forward_residual(&self, x: &Tensor, residual: &Tensor) -> Result<(Tensor, Tensor)> {
        let (x, residual) = (as_rows(x)?, as_rows(residual)?);
        layernorm::fused_add_rmsnorm(&x, &residual, &self.weight, self.eps as f32)
    }
}

impl Module for RmsNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        layernorm::rmsnorm(&as_rows(x)?, &self.weight, self.eps as f32)
    }
}

/// `weight` from a builder.
///
/// # Errors
/// A tensor that is not there, or of another shape.
pub fn rms_norm(size: usize, eps: f64, vb: VarBuilder<'_>) -> Result<RmsNorm> {
    Ok(RmsNorm::new(vb.get_with_hints(size, "weight", Init::Const(1.0))?, eps))
}

/// Normalisation of the last dimension to mean 0 and variance 1.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    weight: Tensor,
    bias: Option<Tensor>,
    eps: f64,
}

impl LayerNorm {
    /// With a weight and a bias `[hidden]` of the type of its inputs.
    pub fn new(weight: Tensor, bias: Tensor, eps: f64) -> LayerNorm {
        LayerNorm { weight, bias: Some(bias), eps }
    }

    /// Without a bias.
    pub fn new_no_bias(weight: Tensor, eps: f64) -> LayerNorm {
        LayerNorm { weight, bias: None, eps }
    }
}

impl Module for LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        layernorm::layernorm(&as_rows(x)?, &self.weight, self.bias.as_ref(), self.eps as f32)
    }
}

/// `weight` and `bias` from a builder.
///
/// # Errors
/// A tensor that is not there, or of another shape.
pub fn layer_norm(size: usize, eps: f64, vb: VarBuilder<'_>) -> Result<LayerNorm> {
    let weight = vb.get_with_hints(size, "weight", Init::Const(1.0))?;
    Ok(LayerNorm::new(weight, vb.get_with_hints(size, "bias", Init::Const(0.0))?, eps))
}
