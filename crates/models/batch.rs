//! Several sequences over one paged cache: prompts of any lengths in one pass, then a token of each.

use crate::blocks::{BLOCK, Blocks};
use crate::buffers::{Buffers, rows, rows_mut};
use crate::error::{ModelError, Result};
use crate::forward::{Angles, Caches, Plan};
use crate::model::Model;
use kernels_core::{DType, Tensor};
use kernels_ops::embeddings::{cos_sin_cache_scaled, embedding_into};
use kernels_ops::gemm::linear_gguf_into;
use kernels_ops::layernorm::fused_add_rmsnorm;

/// Tokens that go through the model at once.
const PASS: usize = 512;

/// How much a batch has room for.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Blocks of 64 tokens, of all sequences together.
    pub blocks: usize,
    /// Tokens of the longest sequence.
    pub longest: usize,
    /// Element type of the cache: f16, bf16, f32, or f8_e4m3.
    pub cache: DType,
}

impl Room {
    /// For `sequences` of up to `longest` tokens each. An f16 cache halves the bytes that attention reads; its
    /// rounding is far below that of 4-bit weights.
    pub fn for_sequences(sequences: usize, longest: usize) -> Room {
        let blocks = sequences.saturating_mul(Blocks::needed(longest));
        Room { blocks, longest, cache: DType::F16 }
    }
}

/// A sequence of a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SequenceId(usize);

#[derive(Default)]
struct Sequence {
    blocks: Vec<i32>,
    len: usize,
}

impl Sequence {
    /// Blocks that it has to take for so many more tokens. It may have some to spare, after a pass that failed.
    fn lacks(&self, tokens: usize) -> usize {
        Blocks::needed(self.len + tokens).saturating_sub(self.blocks.len())
    }
}

/// Sequences that share a cache and go through the model together.
pub struct Batch<'m> {
    model: &'m Model,
    longest: usize,
    blocks: Blocks,
    sequences: Vec<Option<Sequence>>,
    caches: Caches,
    angles: Angles,
    buffers: Buffers,
    /// The last rows of the sequences of a pass.
    last: Tensor,
    last_residual: Tensor,
    logits: Tensor,
}

impl<'m> Batch<'m> {
    pub(crate) fn new(model: &'m Model, room: Room) -> Result<Batch<'m>> {
        let (c, device) = (&model.config, model.device);
        if room.longest > c.context {
            let (prompt, context) = (room.longest, c.context);
            return Err(ModelError::PromptTooLong { prompt, context, limited: false });
        }
        let (longest, total) = (room.longest.max(1), room.blocks.max(1));
        let shape = [total, BLOCK, c.num_kv_heads, c.head_dim];
        let cache = |_| -> Result<(Tensor, Tensor)> {
            Ok((Tensor::zeros(room.cache, &shape, device)?, Tensor::zeros(room.cache, &shape, device)?))
        };
        let angles = |theta, factor| -> Result<Tensor> {
            Ok(cos_sin_cache_scaled(longest, c.rotary_dim, theta, factor)?.to_device(device)?)
        };
        Ok(Batch {
            model,
            longest,
            blocks: Blocks::new(total),
            sequences: Vec::new(),
            caches: (0..c.layers).map(cache).collect::<Result<_>>()?,
            angles: Angles {
                global: angles(c.rope_theta, c.rope_factor)?,
                local: (c.window > 0).then(|| angles(c.local_theta, 1.0)).transpose()?,
            },
            buffers: Buffers::new(c, device, 1)?,
            last: Tensor::zeros(DType::F32, &[1, c.hidden], device)?,
            last_residual: Tensor::zeros(DType::F32, &[1, c.hidden], device)?,
            logits: Tensor::zeros(DType::F32, &[1, c.vocabulary], device)?,
        })
    }

    /// A new, empty sequence. It takes blocks as it grows.
    pub fn add(&mut self) -> SequenceId {
        let place = self.sequences.iter().position(Option::is_none).unwrap_or(self.sequences.len());
        if place == self.sequences.len() {
            self.sequences.push(None);
        }
        self.sequences[place] = Some(Sequence::default());
        SequenceId(place)
    }

    /// Ends a sequence and frees its blocks.
    pub fn remove(&mut self, id: SequenceId) {
        if let Some(sequence) = self.sequences.get_mut(id.0).and_then(Option::take) {
            self.blocks.give_back(sequence.blocks);
        }
    }

    /// Tokens of a sequence so far; 0 for one that is not there.
    pub fn len(&self, id: SequenceId) -> usize {
        self.sequences.get(id.0).and_then(Option::as_ref).map_or(0, |s| s.len)
    }

    /// Whether no sequence is there.
    pub fn is_empty(&self) -> bool {
        self.sequences.iter().all(Option::is_none)
    }

    /// Which blocks are free.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Feeds tokens to sequences, each named once, and gives the logits `[sequences, vocabulary]` after the last
    /// token of each, in their order.
    ///
    /// # Errors
    /// No tokens for a sequence, more than there is room for, too few free blocks (then nothing changes), one
    /// outside the vocabulary, a sequence that is not there or named twice, or an op's failure.
    pub fn feed(&mut self, feeds: &[(SequenceId, &[u32])]) -> Result<&Tensor> {
        self.reserve(feeds)?;
        let c = &self.model.config;
        if self.logits.shape()[0] != feeds.len() {
            let (n, device) = (feeds.len(), self.model.device);
            self.logits = Tensor::zeros(DType::F32, &[n, c.vocabulary], device)?;
            self.last = Tensor::zeros(DType::F32, &[n, c.hidden], device)?;
            self.last_residual = Tensor::zeros(DType::F32, &[n, c.hidden], device)?;
        }
        let mut rest: Vec<_> = feeds.iter().map(|f| f.1).collect();
        let mut done = 0;
        while done < feeds.len() {
            // The next tokens of the sequences that still have some, in order, until a pass is full.
            let (mut pass, mut room, mut whole) = (Vec::new(), PASS.max(feeds.len()), 0);
            for (i, tokens) in rest.iter_mut().enumerate().skip(done) {
                let (now, later) = tokens.split_at(tokens.len().min(room));
                if now.is_empty() {
                    break;
                }
                (room, *tokens) = (room - now.len(), later);
                pass.push((feeds[i].0, now));
                whole += usize::from(later.is_empty());
            }
            self.pass(&pass)?;
            self.finish(&pass[..whole], done)?;
            done += whole;
        }
        Ok(&self.logits)
    }

    /// Checks what is fed, and takes the blocks for all of it.
    fn reserve(&mut self, feeds: &[(SequenceId, &[u32])]) -> Result<()> {
        let c = &self.model.config;
        let (mut needed, mut seen) = (0, std::collections::BTreeSet::new());
        for (id, tokens) in feeds {
            let Some(sequence) = self.sequences.get(id.0).and_then(Option::as_ref) else {
                return Err(ModelError::NoSequence { id: id.0, twice: false });
            };
            if !seen.insert(id.0) {
                return Err(ModelError::NoSequence { id: id.0, twice: true });
            }
            if tokens.is_empty() {
                return Err(ModelError::EmptyPrompt);
            }
            if tokens.len() > self.longest - sequence.len {
                let (prompt, context) = (sequence.len + tokens.len(), self.longest);
                return Err(ModelError::PromptTooLong { prompt, context, limited: context < c.context });
            }
            if let Some(token) = tokens.iter().find(|t| **t as usize >= c.vocabulary) {
                return Err(ModelError::Token { token: *token, vocabulary: c.vocabulary });
            }
            needed += sequence.lacks(tokens.len());
        }
        if needed > self.blocks.free() {
            let (free, total) = (self.blocks.free(), self.blocks.total());
            return Err(ModelError::OutOfBlocks { needed, free, total });
        }
        for (id, tokens) in feeds {
            if let Some(sequence) = &mut self.sequences[id.0] {
                let more = sequence.lacks(tokens.len());
                self.blocks.take(more, &mut sequence.blocks)?;
            }
        }
        Ok(())
    }

    /// Tokens through all layers.
    fn pass(&mut self, feeds: &[(SequenceId, &[u32])]) -> Result<()> {
        let (model, n) = (self.model, feeds.iter().map(|f| f.1.len()).sum());
        if self.buffers.rows != n && (n <= feeds.len() || self.buffers.rows < n) {
            self.buffers = Buffers::new(&model.config, model.device, n)?;
        }
        let plan = self.plan(feeds, n)?;
        model.forward(&plan, &self.angles, &mut self.caches, &mut self.buffers)?;
        for (id, tokens) in feeds {
            if let Some(sequence) = &mut self.sequences[id.0] {
                sequence.len += tokens.len();
            }
        }
        Ok(())
    }

    fn plan(&self, feeds: &[(SequenceId, &[u32])], n: usize) -> Result<Plan> {
        let (mut ids, mut positions, mut slots) = (vec![], vec![], Vec::with_capacity(n));
        let (mut lens, mut offsets) = (Vec::new(), vec![0i32]);
        let of = |id: &SequenceId| self.sequences[id.0].as_ref();
        let width = feeds.iter().filter_map(|f| of(&f.0)).map(|s| s.blocks.len()).max().unwrap_or(1).max(1);
        let mut table = vec![0i32; feeds.len() * width];
        for ((id, tokens), row) in feeds.iter().zip(table.chunks_mut(width)) {
            let Some(sequence) = of(id) else { continue };
            row[..sequence.blocks.len()].copy_from_slice(&sequence.blocks);
            ids.extend_from_slice(tokens);
            for position in sequence.len..sequence.len + tokens.len() {
                positions.push(position as i32);
                slots.push(i64::from(row[position / BLOCK]) * BLOCK as i64 + (position % BLOCK) as i64);
            }
            lens.push((sequence.len + tokens.len()) as i32);
            offsets.push(positions.len() as i32);
        }
        let device = self.model.device;
        let upload = |values: &[i32], shape: &[usize]| Tensor::from_slice(values, shape)?.to_device(device);
        Ok(Plan {
            ids: Tensor::from_slice(&ids, &[n])?.to_device(device)?,
            positions: upload(&positions, &[n])?,
            slots: Tensor::from_slice(&slots, &[n])?.to_device(device)?,
            block_table: upload(&table, &[feeds.len(), width])?,
            seq_lens: upload(&lens, &[feeds.len()])?,
            qo_indptr: match n == feeds.len() {
                true => None,
                false => Some(upload(&offsets, &[offsets.len()])?),
            },
        })
    }

    /// Logits of the last rows of `feeds`, the first sequences of the pass, into rows from `start` on.
    fn finish(&mut self, feeds: &[(SequenceId, &[u32])], start: usize) -> Result<()> {
        let (model, count) = (self.model, feeds.len());
        if count == 0 {
            return Ok(());
        }
        let mut end = 0;
        let ends: Vec<i32> = feeds
            .iter()
            .map(|f| {
                end += f.1.len() as i32;
                end - 1
            })
            .collect();
        let ends = Tensor::from_slice(&ends, &[count])?.to_device(model.device)?;
        // Rows by index: what an embedding does.
        embedding_into(&ends, rows(&self.buffers.x, self.buffers.rows), rows_mut(&mut self.last, 0, count))?;
        let residual = rows(&self.buffers.residual, self.buffers.rows);
        embedding_into(&ends, residual, rows_mut(&mut self.last_residual, 0, count))?;
        let (x, residual) = (rows_mut(&mut self.last, 0, count), rows_mut(&mut self.last_residual, 0, count));
        fused_add_rmsnorm(x, residual, &model.norm, model.config.eps)?;
        let weight = model.output.as_ref().unwrap_or(&model.embedding);
        linear_gguf_into(rows(&self.last, count), weight, None, rows_mut(&mut self.logits, start, count))?;
        Ok(())
    }
}
