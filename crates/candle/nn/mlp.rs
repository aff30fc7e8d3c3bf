//! The gated feed-forward half of a Llama block: down(gate(x · Wgᵀ) · (x · Wuᵀ)).

use crate::activation;
use crate::nn::Linear;
use candle_core::quantized::QTensor;
use candle_core::{D, Module, Result, Tensor};
use candle_nn::VarBuilder;
use std::sync::Arc;

/// The function of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// x / (1 + e⁻ˣ)
    Silu,
    /// Exact GELU.
    Gelu,
    /// GELU's tanh form.
    GeluTanh,
}

/// Gate and up projection as one product where their weights can lie in one tensor.
#[derive(Clone, Debug)]
pub struct GatedMlp {
    up: Up,
    down: Linear,
    gate: Gate,
}

#[derive(Clone, Debug)]
enum Up {
    Fused(Linear),
    Apart { gate: Linear, up: Linear },
}

impl GatedMlp {
    /// With weights `[intermediate, hidden]`, the same, and `[hidden, intermediate]`. The first two are copied into one.
    ///
    /// # Errors
    /// Weights that do not go together.
    pub fn new(gate: Tensor, up: Tensor, down: Tensor, function: Gate) -> Result<GatedMlp> {
        let fused = Linear::new(Tensor::cat(&[gate, up], 0)?, None);
        Ok(GatedMlp { up: Up::Fused(fused), down: Linear::new(down, None), gate: function })
    }

    /// With quantised weights, as from a GGUF file.
    pub fn from_qtensors([gate, up, down]: [Arc<QTensor>; 3], function: Gate) -> GatedMlp {
        let of = |weight| Linear::from_qtensor(weight, None);
        GatedMlp { up: Up::Apart { gate: of(gate), up: of(up) }, down: of(down), gate: function }
    }

    /// `gate_proj`, `up_proj` and `down_proj` from a builder, as Llama's files name them.
    ///
    /// # Errors
    /// A tensor that is not there, or of another shape.
    pub fn load(hidden: usize, intermediate: usize, function: Gate, vb: VarBuilder<'_>) -> Result<GatedMlp> {
        let get = |name: &str, shape: (usize, usize)| vb.pp(name).get(shape, "weight");
        let (gate, up) = (get("gate_proj", (intermediate, hidden))?, get("up_proj", (intermediate, hidden))?);
        GatedMlp::new(gate, up, get("down_proj", (hidden, intermediate))?, function)
    }
}

impl Module for GatedMlp {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let both = match &self.up {
            Up::Fused(linear) => linear.forward(x)?,
            Up::Apart { gate, up } => Tensor::cat(&[gate.forward(x)?, up.forward(x)?], D::Minus1)?,
        };
        let gated = match self.gate {
            Gate::Silu => activation::silu_and_mul(&both)?,
            Gate::Gelu => activation::gelu_and_mul(&both)?,
            Gate::GeluTanh => activation::gelu_tanh_and_mul(&both)?,
        };
        self.down.forward(&gated)
    }
}
