//! Layers in the shape of `candle_nn`'s, over the kernels: exchange the names in a model, and the rest of it stays.
//!
//! Constructors take what candle_nn's take (weights, or a [`VarBuilder`](candle_nn::VarBuilder)), layers are
//! [`Module`](candle_core::Module)s, and tensors have candle's own shapes: `[batch, heads, tokens, head_dim]` in attention. Views as models
//! make them are read where they are: rows of a fused projection, heads brought forward by `transpose(1, 2)`. A layout
//! that no kernel takes is copied first, as candle's own layers do.
//!
//! There is no backward pass: a tensor that candle tracks is an error, and `.detach()` the cure.
//!
//! ```
//! use candle_core::{DType, Device, Module, Result, Tensor};
//! use kernels_candle::nn::{GatedMlp, Gate, KvCache, Linear, RmsNorm};
//! # use kernels_candle as _;
//!
//! # fn main() -> Result<()> {
//! let ones = |shape: &[usize]| Tensor::ones(shape, DType::F32, &Device::Cpu);
//! let norm = RmsNorm::new(ones(&[16])?, 1e-5);
//! let qkv = Linear::new(ones(&[32, 16])?, None); // 2 heads of 8, 1 head of keys, 1 of values
//! let mlp = GatedMlp::new(ones(&[24, 16])?, ones(&[24, 16])?, ones(&[16, 24])?, Gate::Silu)?;
//! let mut cache = KvCache::new(1, 64, 1, 8, DType::F32, &Device::Cpu)?;
//!
//! let x = ones(&[1, 3, 16])?; // [batch, tokens, hidden]
//! let qkv = qkv.forward(&norm.forward(&x)?)?;
//! let heads = |at: usize, n: usize| qkv.narrow(2, at, n * 8)?.reshape((1, 3, n, 8))?.transpose(1, 2);
//! let y = cache.attend(&heads(0, 2)?, &heads(16, 1)?, &heads(24, 1)?, 8f64.powf(-0.5))?;
//! let y = y.transpose(1, 2)?.reshape((1, 3, 16))?;
//! assert_eq!(mlp.forward(&(x + y)?)?.dims(), [1, 3, 16]);
//! # Ok(())
//! # }
//! ```

mod attention;
mod linear;
mod mlp;
mod norm;
mod rotary;

pub use attention::{KvCache, softmax_last_dim};
pub use linear::{Linear, linear, linear_no_bias};
pub use mlp::{Gate, GatedMlp};
pub use norm::{LayerNorm, RmsNorm, layer_norm, rms_norm};
pub use rotary::{Rotary, rope, rope_i};

use candle_core::{Result, Tensor};

/// `x` as rows that a kernel reads where they are, or a copy where its layout forbids that.
fn as_rows(x: &Tensor) -> Result<Tensor> {
    match kernels_core::Layout::strided(x.dims(), x.stride()).and_then(|l| l.rows()) {
        Some(_) => Ok(x.clone()),
        None => x.contiguous(),
    }
}
