//! The Llama family: pre-norm blocks of rotary attention and a gated MLP. Every tensor operation is an op.

use crate::config::Config;
use crate::error::{ModelError, Result};
use crate::gguf::Gguf;
use kernels_core::{DType, Device, Tensor, View, ViewMut};
use kernels_ops::activation::silu_and_mul_into;
use kernels_ops::attention::{decode_into, prefill_into};
use kernels_ops::embeddings::{cos_sin_cache, embedding_into, rope};
use kernels_ops::gemm::linear_gguf_into;
use kernels_ops::kvcache::reshape_and_cache;
use kernels_ops::layernorm::{fused_add_rmsnorm, rmsnorm_into};
use std::io::{Read, Seek};

/// Tokens in a block of the cache.
const BLOCK: usize = 64;

/// Tokens of a prompt that go through the model at once.
const PREFILL: usize = 512;

/// The ops that a forward pass and a draw call, for `Selector::require` at start-up.
pub const OPS: [&str; 10] = [
    "activation.silu_and_mul",
    "attention.decode",
    "attention.prefill",
    "embeddings.embedding",
    "embeddings.rope",
    "gemm.linear_gguf",
    "kvcache.reshape_and_cache",
    "layernorm.fused_add_rmsnorm",
    "layernorm.rmsnorm",
    "sampling.sample",
];

struct Layer {
    attn_norm: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    ffn_norm: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

/// A model's weights on a device.
pub struct Llama {
    config: Config,
    device: Device,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    /// Without one, the embedding serves.
    output: Option<Tensor>,
}

impl Llama {
    /// Reads the weights onto `device`. `progress` hears (layers read, layers in all).
    ///
    /// # Errors
    /// What is missing, damaged or not supported.
    pub fn load<R: Read + Seek>(
        file: &mut Gguf<R>,
        device: Device,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Llama> {
        let config = Config::read(file)?;
        let c = &config;
        let (q, kv) = (c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim);
        // Norm weights are of the activations' type.
        let norm = |file: &mut Gguf<R>, name: &str| -> Result<Tensor> {
            let weight = file.tensor(name, &[c.hidden], device)?;
            match weight.dtype() {
                DType::F32 => Ok(weight),
                _ => Ok(kernels_ops::quantization::dequantize_gguf(&weight, DType::F32)?),
            }
        };
        let mut layers = Vec::new();
        for i in 0..c.layers {
            progress(i, c.layers);
            let at = |name: &str| format!("blk.{i}.{name}.weight");
            layers.push(Layer {
                attn_norm: norm(file, &at("attn_norm"))?,
                q: file.tensor(&at("attn_q"), &[q, c.hidden], device)?,
                k: file.tensor(&at("attn_k"), &[kv, c.hidden], device)?,
                v: file.tensor(&at("attn_v"), &[kv, c.hidden], device)?,
                o: file.tensor(&at("attn_output"), &[c.hidden, q], device)?,
                ffn_norm: norm(file, &at("ffn_norm"))?,
                gate: file.tensor(&at("ffn_gate"), &[c.feed_forward, c.hidden], device)?,
                up: file.tensor(&at("ffn_up"), &[c.feed_forward, c.hidden], device)?,
                down: file.tensor(&at("ffn_down"), &[c.hidden, c.feed_forward], device)?,
            });
        }
        progress(c.layers, c.layers);
        let embedding = file.tensor("token_embd.weight", &[c.vocabulary, c.hidden], device)?;
        let output = match file.has("output.weight") {
            true => Some(file.tensor("output.weight", &[c.vocabulary, c.hidden], device)?),
            false => None,
        };
        let norm = norm(file, "output_norm.weight")?;
        Ok(Llama { embedding, layers, norm, output, device, config })
    }

    /// The model's sizes.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where it lives.
    pub fn device(&self) -> Device {
        self.device
    }

    /// A session with room for `capacity` tokens.
    ///
    /// # Errors
    /// No memory, or more room than the model's context.
    pub fn session(&self, capacity: usize) -> Result<Session<'_>> {
        if capacity > self.config.context {
            return Err(ModelError::PromptTooLong {
                prompt: capacity,
                context: self.config.context,
                limited: false,
            });
        }
        Session::new(self, capacity.max(1))
    }
}

/// One sequence: its paged keys and values, and the buffers of a forward pass.
pub struct Session<'m> {
    model: &'m Llama,
    capacity: usize,
    len: usize,
    cache: Vec<(Tensor, Tensor)>,
    block_table: Tensor,
    cos_sin: Tensor,
    buffers: Buffers,
    logits: Tensor,
}

/// Activations of up to `rows` tokens.
struct Buffers {
    rows: usize,
    x: Tensor,
    residual: Tensor,
    qkv: Tensor,
    attention: Tensor,
    gate_up: Tensor,
    mlp: Tensor,
}

impl Buffers {
    fn new(c: &Config, device: Device, rows: usize) -> Result<Buffers> {
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
        })
    }
}

/// The first `n` rows.
fn rows(tensor: &Tensor, n: usize) -> View<'_> {
    let view = tensor.view();
    view.narrow(0, 0, n).unwrap_or(view)
}

/// The first `n` rows, to write.
fn rows_mut(tensor: &mut Tensor, n: usize) -> ViewMut<'_> {
    match tensor.shape()[0] == n {
        true => tensor.view_mut(),
        false => tensor
            .view_mut()
            .split_at(0, n)
            .map_or_else(|| unreachable!("n is at most the rows"), |(first, _)| first),
    }
}

/// Columns `start..start + len` of a matrix, as heads of `dim` where that is given.
fn columns(view: View<'_>, start: usize, len: usize, dim: Option<usize>) -> View<'_> {
    let cut = view.narrow(1, start, len);
    let cut = match dim {
        Some(dim) => cut.and_then(|c| c.split_dim(1, dim)),
        None => cut,
    };
    cut.unwrap_or_else(|| unreachable!("columns are inside a buffer of this module's own"))
}

/// Cuts a matrix at columns `a` and `b`.
fn cut3(view: ViewMut<'_>, a: usize, b: usize) -> [ViewMut<'_>; 3] {
    let parts = view.split_at(1, a).and_then(|(q, rest)| rest.split_at(1, b - a).map(|(k, v)| [q, k, v]));
    parts.unwrap_or_else(|| unreachable!("columns are inside a buffer of this module's own"))
}

fn heads(view: ViewMut<'_>, dim: usize) -> ViewMut<'_> {
    view.split_dim(1, dim).unwrap_or_else(|| unreachable!("heads fill the columns"))
}

impl<'m> Session<'m> {
    fn new(model: &'m Llama, capacity: usize) -> Result<Session<'m>> {
        let (c, device) = (&model.config, model.device);
        let blocks = capacity.div_ceil(BLOCK);
        // f16 halves the bytes that attention reads; its rounding is far below that of 4-bit weights.
        let cache = |_| -> Result<(Tensor, Tensor)> {
            let shape = [blocks, BLOCK, c.num_kv_heads, c.head_dim];
            Ok((Tensor::zeros(DType::F16, &shape, device)?, Tensor::zeros(DType::F16, &shape, device)?))
        };
        let table: Vec<i32> = (0..blocks as i32).collect();
        Ok(Session {
            model,
            capacity,
            len: 0,
            cache: (0..c.layers).map(cache).collect::<Result<_>>()?,
            block_table: Tensor::from_slice(&table, &[1, blocks])?.to_device(device)?,
            cos_sin: cos_sin_cache(capacity, c.rotary_dim, c.rope_theta)?.to_device(device)?,
            buffers: Buffers::new(c, device, 1)?,
            logits: Tensor::zeros(DType::F32, &[1, c.vocabulary], device)?,
        })
    }

    /// Tokens so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was fed yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Feeds tokens and gives the logits `[1, vocabulary]` after the last.
    ///
    /// # Errors
    /// No tokens, more than there is room for, one outside the vocabulary, or an op's failure.
    pub fn feed(&mut self, tokens: &[u32]) -> Result<&Tensor> {
        let c = &self.model.config;
        if tokens.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        if tokens.len() > self.capacity - self.len {
            let (prompt, context) = (self.len + tokens.len(), self.capacity);
            return Err(ModelError::PromptTooLong { prompt, context, limited: context < c.context });
        }
        if let Some(token) = tokens.iter().find(|t| **t as usize >= c.vocabulary) {
            return Err(ModelError::Token { token: *token, vocabulary: c.vocabulary });
        }
        let mut rest = tokens;
        while !rest.is_empty() {
            let (chunk, later) = rest.split_at(rest.len().min(PREFILL));
            self.forward(chunk, later.is_empty())?;
            rest = later;
        }
        Ok(&self.logits)
    }

    fn forward(&mut self, tokens: &[u32], want_logits: bool) -> Result<()> {
        let Llama { config: c, device, layers, embedding, norm, output } = self.model;
        let n = tokens.len();
        if self.buffers.rows != n && (n == 1 || self.buffers.rows < n) {
            self.buffers = Buffers::new(c, *device, n)?;
        }
        let upload = |values: &[i32]| Tensor::from_slice(values, &[values.len()])?.to_device(*device);
        let ids = Tensor::from_slice(tokens, &[n])?.to_device(*device)?;
        let positions: Vec<i32> = (self.len as i32..(self.len + n) as i32).collect();
        // The one sequence's blocks are in order, so a token's slot is its position.
        let positions = upload(&positions)?;
        let seq_lens = upload(&[(self.len + n) as i32])?;
        let qo_indptr = upload(&[0, n as i32])?;
        let (q_cols, kv_cols) = (c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim);
        let scale = 1.0 / (c.head_dim as f32).sqrt();
        let Buffers { x, residual, qkv, attention, gate_up, mlp, .. } = &mut self.buffers;

        embedding_into(&ids, embedding, rows_mut(residual, n))?;
        for (i, (layer, (keys, values))) in layers.iter().zip(&mut self.cache).enumerate() {
            match i {
                0 => rmsnorm_into(rows(residual, n), &layer.attn_norm, c.eps, rows_mut(x, n))?,
                _ => fused_add_rmsnorm(rows_mut(x, n), rows_mut(residual, n), &layer.attn_norm, c.eps)?,
            }
            let [q, k, v] = cut3(rows_mut(qkv, n), q_cols, q_cols + kv_cols);
            linear_gguf_into(rows(x, n), &layer.q, None, q)?;
            linear_gguf_into(rows(x, n), &layer.k, None, k)?;
            linear_gguf_into(rows(x, n), &layer.v, None, v)?;
            let [q, k, _] = cut3(rows_mut(qkv, n), q_cols, q_cols + kv_cols);
            // Llama's q and k weights in GGUF are permuted for interleaved pairs.
            rope(&positions, heads(q, c.head_dim), heads(k, c.head_dim), &self.cos_sin, false)?;
            let part = |start, len| columns(rows(qkv, n), start, len, Some(c.head_dim));
            let (k, v) = (part(q_cols, kv_cols), part(q_cols + kv_cols, kv_cols));
            reshape_and_cache(k, v, &mut *keys, &mut *values, &positions)?;
            let (q, out) = (part(0, q_cols), heads(rows_mut(attention, n), c.head_dim));
            match n {
                1 => decode_into(q, &*keys, &*values, &self.block_table, &seq_lens, scale, out)?,
                _ => prefill_into(
                    q,
                    &*keys,
                    &*values,
                    &self.block_table,
                    &seq_lens,
                    &qo_indptr,
                    scale,
                    true,
                    out,
                )?,
            }
            linear_gguf_into(rows(attention, n), &layer.o, None, rows_mut(x, n))?;
            fused_add_rmsnorm(rows_mut(x, n), rows_mut(residual, n), &layer.ffn_norm, c.eps)?;
            let [gate, up, _] = cut3(rows_mut(gate_up, n), c.feed_forward, 2 * c.feed_forward);
            linear_gguf_into(rows(x, n), &layer.gate, None, gate)?;
            linear_gguf_into(rows(x, n), &layer.up, None, up)?;
            silu_and_mul_into(rows(gate_up, n), rows_mut(mlp, n))?;
            linear_gguf_into(rows(mlp, n), &layer.down, None, rows_mut(x, n))?;
        }
        self.len += n;
        if want_logits {
            fused_add_rmsnorm(rows_mut(x, n), rows_mut(residual, n), norm, c.eps)?;
            let last = x.view().narrow(0, n - 1, 1).unwrap_or_else(|| unreachable!("n is at least 1"));
            linear_gguf_into(last, output.as_ref().unwrap_or(embedding), None, &mut self.logits)?;
        }
        Ok(())
    }
}
