//! A dense model's weights: Llama, Qwen 2 and 3, Gemma 3.

use crate::batch::{Batch, Room};
use crate::config::Config;
use crate::error::Result;
use crate::gguf::Gguf;
use crate::session::Session;
use kernels_core::{DType, Device, Tensor};
use std::io::{Read, Seek};

/// A product's weight and bias.
pub(crate) struct Linear {
    pub weight: Tensor,
    pub bias: Option<Tensor>,
}

/// One block's weights.
pub(crate) struct Layer {
    pub attn_norm: Tensor,
    pub q: Linear,
    pub k: Linear,
    pub v: Linear,
    /// Of q and of k, for each head.
    pub qk_norm: Option<[Tensor; 2]>,
    pub o: Tensor,
    pub post_attn_norm: Option<Tensor>,
    pub ffn_norm: Tensor,
    pub gate: Tensor,
    pub up: Tensor,
    pub down: Tensor,
    pub post_ffn_norm: Option<Tensor>,
}

/// A model's weights on a device.
pub struct Model {
    pub(crate) config: Config,
    pub(crate) device: Device,
    pub(crate) embedding: Tensor,
    pub(crate) layers: Vec<Layer>,
    pub(crate) norm: Tensor,
    /// Without one, the embedding serves.
    pub(crate) output: Option<Tensor>,
}

/// Reads weights of one file onto one device.
struct Reader<'f, R> {
    file: &'f mut Gguf<R>,
    device: Device,
}

impl<R: Read + Seek> Reader<'_, R> {
    fn matrix(&mut self, name: &str, shape: [usize; 2]) -> Result<Tensor> {
        self.file.tensor(name, &shape, self.device)
    }

    /// A vector in f32: norms and biases are of the activations' type.
    fn vector(&mut self, name: &str, len: usize) -> Result<Tensor> {
        let weight = self.file.tensor(name, &[len], self.device)?;
        match weight.dtype() {
            DType::F32 => Ok(weight),
            _ => Ok(kernels_ops::quantization::dequantize_gguf(&weight, DType::F32)?),
        }
    }

    fn vector_if(&mut self, wanted: bool, name: &str, len: usize) -> Result<Option<Tensor>> {
        wanted.then(|| self.vector(name, len)).transpose()
    }

    fn layer(&mut self, c: &Config, i: usize) -> Result<Layer> {
        let (q, kv) = (c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim);
        let at = |name: &str| format!("blk.{i}.{name}.weight");
        let attn_norm = self.vector(&at("attn_norm"), c.hidden)?;
        let mut projection = |name: &str, rows: usize| -> Result<Linear> {
            let weight = self.matrix(&at(name), [rows, c.hidden])?;
            let bias = self.vector_if(c.qkv_bias, &format!("blk.{i}.{name}.bias"), rows)?;
            Ok(Linear { weight, bias })
        };
        let [q, k, v] = [projection("attn_q", q)?, projection("attn_k", kv)?, projection("attn_v", kv)?];
        let qk_norm = match c.qk_norm {
            false => None,
            true => {
                let q = self.vector(&at("attn_q_norm"), c.head_dim)?;
                Some([q, self.vector(&at("attn_k_norm"), c.head_dim)?])
            }
        };
        Ok(Layer {
            attn_norm,
            q,
            k,
            v,
            qk_norm,
            o: self.matrix(&at("attn_output"), [c.hidden, c.num_heads * c.head_dim])?,
            post_attn_norm: self.vector_if(c.post_norms, &at("post_attention_norm"), c.hidden)?,
            ffn_norm: self.vector(&at("ffn_norm"), c.hidden)?,
            gate: self.matrix(&at("ffn_gate"), [c.feed_forward, c.hidden])?,
            up: self.matrix(&at("ffn_up"), [c.feed_forward, c.hidden])?,
            down: self.matrix(&at("ffn_down"), [c.hidden, c.feed_forward])?,
            post_ffn_norm: self.vector_if(c.post_norms, &at("post_ffw_norm"), c.hidden)?,
        })
    }
}

impl Model {
    /// Reads the weights onto `device`. `progress` hears (layers read, layers in all).
    ///
    /// # Errors
    /// What is missing, damaged or not supported.
    pub fn load<R: Read + Seek>(
        file: &mut Gguf<R>,
        device: Device,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Model> {
        let config = Config::read(file)?;
        let c = &config;
        let mut reader = Reader { file, device };
        let mut layers = Vec::new();
        for i in 0..c.layers {
            progress(i, c.layers);
            layers.push(reader.layer(c, i)?);
        }
        progress(c.layers, c.layers);
        let embedding = reader.matrix("token_embd.weight", [c.vocabulary, c.hidden])?;
        let output = match reader.file.has("output.weight") {
            true => Some(reader.matrix("output.weight", [c.vocabulary, c.hidden])?),
            false => None,
        };
        let norm = reader.vector("output_norm.weight", c.hidden)?;
        Ok(Model { embedding, layers, norm, output, device, config })
    }

    /// The model's sizes.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where it lives.
    pub fn device(&self) -> Device {
        self.device
    }

    /// One sequence with room for `capacity` tokens.
    ///
    /// # Errors
    /// No memory, or more room than the model's context.
    pub fn session(&self, capacity: usize) -> Result<Session<'_>> {
        Session::new(self, capacity)
    }

    /// Calls every op that prompts of these lengths and the tokens after them need, on tokens that mean nothing: for a
    /// warm-up, which listens to which kernels are wanted.
    ///
    /// # Errors
    /// No memory, or a prompt longer than the model's context.
    pub fn rehearse(&self, prompts: &[usize], cache: DType) -> Result<()> {
        let longest = prompts.iter().copied().max().unwrap_or(1).saturating_add(1).min(self.config.context);
        let mut batch = self.batch(Room { cache, ..Room::for_sequences(prompts.len(), longest) })?;
        let tokens = vec![0; longest];
        let ids: Vec<_> = prompts.iter().map(|_| batch.add()).collect();
        let feeds: Vec<_> = ids
            .iter()
            .zip(prompts)
            .map(|(id, n)| (*id, &tokens[..(*n).clamp(1, (longest - 1).max(1))]))
            .collect();
        batch.feed(&feeds)?;
        // Texts end one after the other: the last steps have fewer rows.
        for n in (1..=ids.len()).rev() {
            let mut batch = self.batch(Room { cache, ..Room::for_sequences(n, 1) })?;
            let ids: Vec<_> = (0..n).map(|_| batch.add()).collect();
            let feeds: Vec<_> = ids.iter().map(|id| (*id, &tokens[..1])).collect();
            kernels_ops::sampling::sample(batch.feed(&feeds)?, kernels_ops::sampling::Draw::GREEDY)?;
        }
        Ok(())
    }

    /// Several sequences over one paged cache.
    ///
    /// # Errors
    /// No memory, or sequences longer than the model's context.
    pub fn batch(&self, room: Room) -> Result<Batch<'_>> {
        Batch::new(self, room)
    }
}
