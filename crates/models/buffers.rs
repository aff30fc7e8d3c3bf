//! The activations of a forward pass, and cuts of them.

use crate::config::Config;
use crate::error::Result;
use kernels_core::{DType, Device, Tensor, View, ViewMut};

/// Activations of up to `rows` tokens.
pub(crate) struct Buffers {
    pub rows: usize,
    pub x: Tensor,
    pub residual: Tensor,
    pub qkv: Tensor,
    pub attention: Tensor,
    pub gate_up: Tensor,
    pub mlp: Tensor,
    /// What a norm after a block reads: only where there is one.
    pub raw: Option<Tensor>,
}

impl Buffers {
    pub fn new(c: &Config, device: Device, rows: usize) -> Result<Buffers> {
        let zeros = |cols: usize| Tensor::zeros(DType::F32, &[rows, cols], device);
        let heads = c.num_heads + 2 * c.num_kv_heads;
        Ok(Buffers {
            rows,
            x: zeros(c.hidden)?,
            residual: zeros(c.hidden)?,
            qkv: zeros(heads * c.head_dim)?,
            attention: zeros(c.num_heads * c.head_dim)?,
            gate_up: zeros(2 * c.feed_forward)?,
            mlp: zeros(c.feed_forward)?,
            raw: (c.post_norms || c.embedding_scale.is_some()).then(|| zeros(c.hidden)).transpose()?,
        })
    }
}

/// The first `n` rows.
pub(crate) fn rows(tensor: &Tensor, n: usize) -> View<'_> {
    let view = tensor.view();
    view.narrow(0, 0, n).unwrap_or(view)
}

/// Rows `start..start + n`, to write.
pub(crate) fn rows_mut(tensor: &mut Tensor, start: usize, n: usize) -> ViewMut<'_> {
    tensor
        .view_mut()
        .narrow(0, start, n)
        .unwrap_or_else(|| unreachable!("rows are inside a buffer of this crate's own"))
}

/// Columns `start..start + len` of a matrix, as heads of `dim` where that is given.
pub(crate) fn columns(view: View<'_>, start: usize, len: usize, dim: Option<usize>) -> View<'_> {
    let cut = view.narrow(1, start, len);
    let cut = match dim {
        Some(dim) => cut.and_then(|c| c.split_dim(1, dim)),
        None => cut,
    };
    cut.unwrap_or_else(|| unreachable!("columns are inside a buffer of this crate's own"))
}

/// Cuts a matrix at columns `a` and `b`.
pub(crate) fn cut3(view: ViewMut<'_>, a: usize, b: usize) -> [ViewMut<'_>; 3] {
    let parts = view.split_at(1, a).and_then(|(q, rest)| rest.split_at(1, b - a).map(|(k, v)| [q, k, v]));
    parts.unwrap_or_else(|| unreachable!("columns are inside a buffer of this crate's own"))
}

/// Columns as heads of `dim`.
pub(crate) fn heads(view: ViewMut<'_>, dim: usize) -> ViewMut<'_> {
    view.split_dim(1, dim).unwrap_or_else(|| unreachable!("heads fill the columns"))
}
