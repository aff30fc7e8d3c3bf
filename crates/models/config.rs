//! A model's sizes, from its metadata.

use crate::error::{ModelError, Result};
use crate::gguf::{Gguf, Value, shortened};
use std::io::{Read, Seek};

/// The gate of the MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// SwiGLU.
    Silu,
    /// GEGLU, in its tanh form.
    GeluTanh,
}

/// A dense model's sizes, and what its family does its own way.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `llama`, `qwen2`, `qwen3` or `gemma3`.
    pub architecture: String,
    /// Tokens that it was made for.
    pub context: usize,
    /// Width of the residual.
    pub hidden: usize,
    /// Width of the MLP.
    pub feed_forward: usize,
    /// Layers.
    pub layers: usize,
    /// Query heads.
    pub num_heads: usize,
    /// Key-value heads.
    pub num_kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Elements of a head that turn with the position.
    pub rotary_dim: usize,
    /// Base of the rotary angles.
    pub rope_theta: f64,
    /// What positions are divided by before they turn (linear scaling); not in layers with a window.
    pub rope_factor: f64,
    /// Base of the rotary angles in layers with a window.
    pub local_theta: f64,
    /// Rotary pairs (j, j + rotary_dim / 2); otherwise (2j, 2j + 1), as GGUF's Llama weights are permuted for.
    pub is_neox: bool,
    /// How many tokens a layer with a window sees; 0 for no windows.
    pub window: usize,
    /// Every so many layers, the last of them sees everything.
    pub window_pattern: usize,
    /// q, k and v have a bias.
    pub qkv_bias: bool,
    /// Heads of q and k are normalised.
    pub qk_norm: bool,
    /// What attention and MLP give is normalised before it is added to the residual.
    pub post_norms: bool,
    /// Embeddings are multiplied by this.
    pub embedding_scale: Option<f32>,
    /// Factor of attention scores.
    pub attention_scale: f32,
    /// The MLP's activation.
    pub gate: Gate,
    /// Added to the mean square in norms.
    pub eps: f32,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
}

/// The families that `Model` runs.
pub const ARCHITECTURES: &[&str] = &["llama", "qwen2", "qwen3", "gemma3"];

impl Config {
    /// Reads the sizes. Each is bounded, so that a damaged number cannot ask for the earth.
    ///
    /// # Errors
    /// An unknown architecture, a missing or impossible size, or a feature that is not built.
    pub fn read<R: Read + Seek>(file: &Gguf<R>) -> Result<Config> {
        let architecture = shortened(file.text("general.architecture")?).to_string();
        if !ARCHITECTURES.contains(&architecture.as_str()) {
            return Err(ModelError::UnknownArchitecture { have: architecture, known: ARCHITECTURES });
        }
        let key = |name: &str| format!("{architecture}.{name}");
        let hidden = file.size(&key("embedding_length"), 1 << 17)?;
        let num_heads = file.size(&key("attention.head_count"), 1 << 12)?;
        let optional = |name: &str, default: usize, most: usize| match file.get(&key(name)) {
            None => Ok(default),
            Some(_) => file.size(&key(name), most),
        };
        let num_kv_heads = optional("attention.head_count_kv", num_heads, num_heads)?;
        let head_dim = optional("attention.key_length", hidden / num_heads, 1 << 10)?;
        let rotary_dim = optional("rope.dimension_count", head_dim, head_dim)?;
        let impossible = |detail: String| Err(ModelError::Damaged { detail });
        if num_heads % num_kv_heads != 0 {
            return impossible(format!(
                "{num_heads} query heads do not divide among {num_kv_heads} key-value heads"
            ));
        }
        if head_dim == 0 || rotary_dim % 2 != 0 {
            return impossible(format!("heads of {head_dim} with {rotary_dim} rotary elements"));
        }
        let rope_factor = match file.get(&key("rope.scaling.type")) {
            Some(Value::Text(kind)) if kind == "linear" => file.number(&key("rope.scaling.factor"))?,
            Some(Value::Text(kind)) if kind != "none" => {
                return Err(ModelError::Unsupported { what: format!("rope scaling of type \"{kind}\"") });
            }
            _ => 1.0,
        };
        if file.has("rope_freqs.weight") {
            return Err(ModelError::Unsupported {
                what: "rope frequency factors (rope_freqs.weight)".into(),
            });
        }
        if let Some(Value::Int(experts)) = file.get(&key("expert_count"))
            && *experts > 0
        {
            return Err(ModelError::Unsupported { what: format!("{experts} experts in a layer") });
        }
        let vocabulary = match file.shape("token_embd.weight") {
            Some([rows, _]) => *rows,
            _ => {
                return Err(ModelError::MissingTensor { name: "token_embd.weight".into(), architecture });
            }
        };
        let theta = key("rope.freq_base");
        let gemma = architecture == "gemma3";
        let layers = file.size(&key("block_count"), 1 << 10)?;
        // The 27B model alone scales by the width that its heads would have if they filled the residual.
        let scaled_dim = if gemma && layers == 62 { hidden / num_heads } else { head_dim };
        Ok(Config {
            context: file.size(&key("context_length"), 1 << 24)?,
            hidden,
            feed_forward: file.size(&key("feed_forward_length"), 1 << 20)?,
            layers,
            num_heads,
            num_kv_heads,
            head_dim,
            rotary_dim,
            rope_theta: if file.get(&theta).is_some() { file.number(&theta)? } else { 10_000.0 },
            rope_factor,
            local_theta: 10_000.0,
            is_neox: architecture != "llama",
            window: if gemma { optional("attention.sliding_window", 0, 1 << 24)? } else { 0 },
            window_pattern: 6,
            qkv_bias: architecture == "qwen2",
            qk_norm: gemma || architecture == "qwen3",
            post_norms: gemma,
            embedding_scale: gemma.then(|| (hidden as f32).sqrt()),
            attention_scale: 1.0 / (scaled_dim as f32).sqrt(),
            gate: if gemma { Gate::GeluTanh } else { Gate::Silu },
            eps: file.number(&key("attention.layer_norm_rms_epsilon"))? as f32,
            vocabulary,
            architecture,
        })
    }

    /// How many tokens layer `i` sees; 0 for all.
    pub fn window_of(&self, i: usize) -> usize {
        if (i + 1).is_multiple_of(self.window_pattern) { 0 } else { self.window }
    }

    /// The ops that a forward pass and a draw call, for `Selector::require` at start-up.
    pub fn ops(&self) -> Vec<&'static str> {
        let mut ops = vec![
            "attention.decode",
            "attention.prefill",
            "embeddings.embedding",
            "gemm.linear_gguf",
            "layernorm.fused_add_rmsnorm",
            "layernorm.rmsnorm",
            "sampling.sample",
        ];
        ops.push(match self.gate {
            Gate::Silu => "activation.silu_and_mul",
            Gate::GeluTanh => "activation.gelu_tanh_and_mul",
        });
        ops.push(if self.qk_norm { "kvcache.qk_norm_rope_store" } else { "kvcache.rope_and_cache" });
        if self.embedding_scale.is_some() {
            ops.push("elementwise.scale");
        }
        ops.sort_unstable();
        ops
    }
}
