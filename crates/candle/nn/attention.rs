//! Attention over a cache of keys and values, in candle's shapes.

use crate::attention::{self, Options};
use crate::kvcache;
use crate::nn::as_rows;
use crate::sampling;
use candle_core::{DType, Device, Result, Tensor};

/// `candle_nn::ops::softmax_last_dim`. A row of −∞ gives zeros, where candle's gives NaN.
///
/// # Errors
/// A tracked tensor, or no usable kernel.
pub fn softmax_last_dim(xs: &Tensor) -> Result<Tensor> {
    sampling::softmax(&as_rows(xs)?, 1.0)?.to_dtype(xs.dtype())
}

/// Tokens of one block of the cache.
const BLOCK: usize = 64;

/// Keys and values of one layer, for a batch of sequences of one length, with room for all that will come: nothing is copied when
/// tokens are added.
#[derive(Debug)]
pub struct KvCache {
    keys: Tensor,
    values: Tensor,
    block_table: Tensor,
    max_tokens: usize,
    tokens: usize,
}

impl KvCache {
    /// Room for `max_tokens` of each of `batch` sequences.
    ///
    /// # Errors
    /// No memory.
    pub fn new(
        batch: usize,
        max_tokens: usize,
        num_kv_heads: usize,
        head_dim: usize,
        dtype: DType,
        device: &Device,
    ) -> Result<KvCache> {
        let blocks = max_tokens.div_ceil(BLOCK);
        let cache = || Tensor::zeros((batch * blocks, BLOCK, num_kv_heads, head_dim), dtype, device);
        let block_table = Tensor::arange(0u32, (batch * blocks) as u32, device)?.reshape((batch, blocks))?;
        Ok(KvCache { keys: cache()?, values: cache()?, block_table, max_tokens, tokens: 0 })
    }

    /// How many tokens of each sequence it holds.
    pub fn len(&self) -> usize {
        self.tokens
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.tokens == 0
    }

    /// Forgets all tokens.
    pub fn reset(&mut self) {
        self.tokens = 0;
    }

    /// Adds the keys and values of new tokens, `[batch, num_kv_heads, new, head_dim]`, and gives the attention of their
    /// queries `[batch, num_heads, new, head_dim]`, causally, over all tokens so far; a query head takes the key head
    /// of its group. Scores are multiplied by `scale`.
    ///
    /// # Errors
    /// No room for the new tokens (then nothing is added), shapes or types that do not fit, a tracked tensor, or no usable
    /// kernel.
    pub fn attend(&mut self, q: &Tensor, k: &Tensor, v: &Tensor, scale: f64) -> Result<Tensor> {
        let (batch, heads, new, dim) = q.dims4()?;
        let device = q.device();
        let total = self.tokens + new;
        let (sequences, blocks) = self.block_table.dims2()?;
        if batch != sequences || total > self.max_tokens {
            candle_core::bail!(
                "KvCache: {batch} sequences with {} and {new} tokens; it has room for {} of {}: make it larger, or reset it",
                self.tokens,
                sequences,
                self.max_tokens
            );
        }
        let rows = |x: &Tensor| {
            let (batch, heads, new, dim) = x.dims4()?;
            x.transpose(1, 2)?.reshape((batch * new, heads, dim))
        };
        let room = blocks * BLOCK;
        let slots = (0..batch).flat_map(|b| (self.tokens..total).map(move |t| (b * room + t) as i64));
        let slots = Tensor::from_iter(slots, device)?;
        kvcache::reshape_and_cache_inplace(&rows(k)?, &rows(v)?, &self.keys, &self.values, &slots, [1.0; 2])?;
        self.tokens = total;

        let caches = [&self.keys, &self.values];
        let seq_lens = Tensor::full(total as u32, batch, device)?;
        let options = Options::scaled(scale as f32);
        let q = rows(q)?;
        let (out, _) = match new {
            1 => attention::decode(&q, caches, &self.block_table, &seq_lens, options)?,
            _ => {
                let starts = Tensor::from_iter((0..=batch as u32).map(|b| b * new as u32), device)?;
                attention::prefill(&q, caches, &self.block_table, &seq_lens, &starts, None, options, true)?
            }
        };
        out.reshape((batch, new, heads, dim))?.transpose(1, 2)
    }
}
