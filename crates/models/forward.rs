//! One pass through the layers, for rows of any number of sequences. Every tensor operation is an op.

use crate::buffers::{Buffers, columns, cut3, heads, rows, rows_mut};
use crate::config::Gate;
use crate::error::Result;
use crate::model::{Layer, Model};
use kernels_core::Tensor;
use kernels_ops::activation::{gelu_tanh_and_mul_into, silu_and_mul_into};
use kernels_ops::attention::{Options, decode_into, prefill_into};
use kernels_ops::elementwise::scale_into;
use kernels_ops::embeddings::embedding_into;
use kernels_ops::gemm::linear_gguf_into;
use kernels_ops::kvcache::{qk_norm_rope_store, rope_and_cache};
use kernels_ops::layernorm::{fused_add_rmsnorm, rmsnorm_into};

/// Which rows a pass is about, on the device.
pub(crate) struct Plan {
    /// `[rows]`
    pub ids: Tensor,
    /// `[rows]`
    pub positions: Tensor,
    /// `[rows]`
    pub slots: Tensor,
    /// `[sequences, blocks]`
    pub block_table: Tensor,
    /// `[sequences]`
    pub seq_lens: Tensor,
    /// `[sequences + 1]`; without it, each sequence has one row.
    pub qo_indptr: Option<Tensor>,
}

impl Plan {
    pub fn rows(&self) -> usize {
        self.ids.shape()[0]
    }
}

/// Cosines and sines of the layers that see everything, and of those with a window.
pub(crate) struct Angles {
    pub global: Tensor,
    pub local: Option<Tensor>,
}

/// The layers' keys and values.
pub(crate) type Caches = Vec<(Tensor, Tensor)>;

impl Model {
    /// The residual after all layers but for the last MLP's result, which is in `x`.
    pub(crate) fn forward(
        &self,
        plan: &Plan,
        angles: &Angles,
        caches: &mut Caches,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let (c, n) = (&self.config, plan.rows());
        match (c.embedding_scale, &mut buffers.raw) {
            (Some(factor), Some(raw)) => {
                embedding_into(&plan.ids, &self.embedding, rows_mut(raw, 0, n))?;
                scale_into(rows(raw, n), factor, rows_mut(&mut buffers.residual, 0, n))?;
            }
            _ => embedding_into(&plan.ids, &self.embedding, rows_mut(&mut buffers.residual, 0, n))?,
        }
        for (i, (layer, cache)) in self.layers.iter().zip(caches).enumerate() {
            let Buffers { x, residual, .. } = buffers;
            match i {
                0 => rmsnorm_into(rows(residual, n), &layer.attn_norm, c.eps, rows_mut(x, 0, n))?,
                _ => {
                    let (x, residual) = (rows_mut(x, 0, n), rows_mut(residual, 0, n));
                    fused_add_rmsnorm(x, residual, &layer.attn_norm, c.eps)?;
                }
            }
            self.attention(plan, (i, layer), angles, cache, buffers)?;
            let Buffers { x, residual, .. } = buffers;
            fused_add_rmsnorm(rows_mut(x, 0, n), rows_mut(residual, 0, n), &layer.ffn_norm, c.eps)?;
            self.mlp(n, layer, buffers)?;
        }
        Ok(())
    }

    /// x = attention(x), normalised where the family does that.
    fn attention(
        &self,
        plan: &Plan,
        (i, layer): (usize, &Layer),
        angles: &Angles,
        (keys, values): &mut (Tensor, Tensor),
        buffers: &mut Buffers,
    ) -> Result<()> {
        let (c, n) = (&self.config, plan.rows());
        let Buffers { x, qkv, attention, raw, .. } = buffers;
        let (q_cols, kv_cols) = (c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim);
        let options = Options { window: c.window_of(i), ..Options::scaled(c.attention_scale) };
        let cos_sin = if options.window > 0 { angles.local.as_ref() } else { None }.unwrap_or(&angles.global);

        let parts = cut3(rows_mut(qkv, 0, n), q_cols, q_cols + kv_cols);
        for (linear, out) in [&layer.q, &layer.k, &layer.v].into_iter().zip(parts) {
            linear_gguf_into(rows(x, n), &linear.weight, linear.bias.as_ref().map(Tensor::view), out)?;
        }
        let [q, k, v] = cut3(rows_mut(qkv, 0, n), q_cols, q_cols + kv_cols).map(|p| heads(p, c.head_dim));
        let (positions, slots, scales) = (&plan.positions, &plan.slots, [1.0, 1.0]);
        let (both, caches) = ([q, k], [keys.view_mut(), values.view_mut()]);
        match &layer.qk_norm {
            None => rope_and_cache(positions, both, v.as_view(), cos_sin, c.is_neox, caches, slots, scales)?,
            Some(norms) => {
                let (v, norms) = (v.as_view(), norms.each_ref().map(Tensor::view));
                qk_norm_rope_store(
                    positions, both, v, norms, c.eps, cos_sin, c.is_neox, caches, slots, scales,
                )?;
            }
        }
        let q = columns(rows(qkv, n), 0, q_cols, Some(c.head_dim));
        let out = heads(rows_mut(attention, 0, n), c.head_dim);
        let (table, lens) = (&plan.block_table, &plan.seq_lens);
        match &plan.qo_indptr {
            None => decode_into(q, &*keys, &*values, table, lens, options, out)?,
            Some(offsets) => prefill_into(q, &*keys, &*values, table, lens, offsets, options, true, out)?,
        }
        project(rows(attention, n), &layer.o, (&layer.post_attn_norm, raw), c.eps, x, n)
    }

    /// x = mlp(x), normalised where the family does that.
    fn mlp(&self, n: usize, layer: &Layer, buffers: &mut Buffers) -> Result<()> {
        let (c, Buffers { x, gate_up, mlp, raw, .. }) = (&self.config, buffers);
        let [gate, up, _] = cut3(rows_mut(gate_up, 0, n), c.feed_forward, 2 * c.feed_forward);
        linear_gguf_into(rows(x, n), &layer.gate, None, gate)?;
        linear_gguf_into(rows(x, n), &layer.up, None, up)?;
        match c.gate {
            Gate::Silu => silu_and_mul_into(rows(gate_up, n), rows_mut(mlp, 0, n))?,
            Gate::GeluTanh => gelu_tanh_and_mul_into(rows(gate_up, n), rows_mut(mlp, 0, n))?,
        }
        project(rows(mlp, n), &layer.down, (&layer.post_ffn_norm, raw), c.eps, x, n)
    }
}

/// x = input · weightᵀ, and normalised where there is a norm after the block.
fn project(
    input: kernels_core::View<'_>,
    weight: &Tensor,
    (norm, raw): (&Option<Tensor>, &mut Option<Tensor>),
    eps: f32,
    x: &mut Tensor,
    n: usize,
) -> Result<()> {
    match (norm, raw) {
        (Some(norm), Some(raw)) => {
            linear_gguf_into(input, weight, None, rows_mut(raw, 0, n))?;
            rmsnorm_into(rows(raw, n), norm, eps, rows_mut(x, 0, n))?;
        }
        _ => linear_gguf_into(input, weight, None, rows_mut(x, 0, n))?,
    }
    Ok(())
}
