//! Rotary position embedding over candle's shapes (Su et al. 2021).

use crate::embeddings;
use candle_core::{D, DType, Device, Result, Tensor};

/// `candle_nn::rotary_emb::rope`: `xs [batch, heads, tokens, head_dim]`, pairs (i, i + head_dim / 2), with `cos` and `sin`
/// `[tokens, head_dim / 2]` of the tokens' positions.
///
/// # Errors
/// Shapes or types that do not fit, a tracked tensor, or no usable kernel.
pub fn rope(xs: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    turned(xs, &table(cos, sin)?, 0, true)
}

/// `candle_nn::rotary_emb::rope_i`: the same with pairs (2i, 2i + 1).
///
/// # Errors
/// As [`rope`].
pub fn rope_i(xs: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    turned(xs, &table(cos, sin)?, 0, false)
}

/// A table of cosines and sines, for all positions of a model.
#[derive(Clone, Debug)]
pub struct Rotary {
    table: Tensor,
    is_neox: bool,
}

impl Rotary {
    /// For positions below `max_positions`, the base `theta`, and pairs (i, i + head_dim / 2), or with `is_neox` false
    /// (2i, 2i + 1).
    ///
    /// # Errors
    /// No memory.
    pub fn new(
        max_positions: usize,
        head_dim: usize,
        theta: f64,
        is_neox: bool,
        device: &Device,
    ) -> Result<Rotary> {
        let table = embeddings::cos_sin_cache(max_positions, head_dim, theta)?.to_device(device)?;
        Ok(Rotary { table, is_neox })
    }

    /// With the tables that a model has already, `cos` and `sin` `[positions, head_dim / 2]`.
    ///
    /// # Errors
    /// Tables of unlike shapes.
    pub fn from_tables(cos: &Tensor, sin: &Tensor, is_neox: bool) -> Result<Rotary> {
        Ok(Rotary { table: table(cos, sin)?, is_neox })
    }

    /// `xs [batch, heads, tokens, head_dim]` whose first token has position `offset`.
    ///
    /// # Errors
    /// A position outside the table, shapes or types that do not fit, a tracked tensor, or no usable kernel.
    pub fn forward(&self, xs: &Tensor, offset: usize) -> Result<Tensor> {
        turned(xs, &self.table, offset, self.is_neox)
    }
}

/// `[positions, head_dim]` f32, the cosines first.
fn table(cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    Tensor::cat(&[cos.to_dtype(DType::F32)?, sin.to_dtype(DType::F32)?], D::Minus1)?.contiguous()
}

fn turned(xs: &Tensor, table: &Tensor, offset: usize, is_neox: bool) -> Result<Tensor> {
    let (batch, heads, tokens, dim) = xs.dims4()?;
    let by_token = xs.transpose(1, 2)?;
    // Rows of a token together, as a projection leaves them; else each head's rows are tokens of one head.
    let together = by_token.is_contiguous();
    let rows = match together {
        true => by_token.reshape((batch * tokens, heads, dim))?,
        false => xs.reshape((batch * heads * tokens, 1, dim))?,
    };
    let count = rows.dim(0)?;
    let positions: Vec<u32> = (0..count).map(|i| (offset + i % tokens) as u32).collect();
    let positions = Tensor::from_vec(positions, count, xs.device())?;
    let nothing = rows.narrow(1, 0, 0)?.contiguous()?;
    let (turned, _) = embeddings::rope(&positions, &rows, &nothing, table, is_neox)?;
    match together {
        true => turned.reshape((batch, tokens, heads, dim))?.transpose(1, 2),
        false => turned.reshape((batch, heads, tokens, dim)),
    }
}
