//! A model's sizes, from its metadata.

use crate::error::{ModelError, Result};
use crate::gguf::{Gguf, Value};
use std::io::{Read, Seek};

/// A Llama-family model's sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `llama`.
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
    /// Added to the mean square in norms.
    pub eps: f32,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
}

/// The families that `Llama` runs.
const ARCHITECTURES: &[&str] = &["llama"];

impl Config {
    /// Reads the sizes. Each is bounded, so that a damaged number cannot ask for the earth.
    ///
    /// # Errors
    /// An unknown architecture, a missing or impossible size, or a feature that is not built.
    pub fn read<R: Read + Seek>(file: &Gguf<R>) -> Result<Config> {
        let architecture = file.text("general.architecture")?.to_string();
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
        if let Some(Value::Text(kind)) = file.get(&key("rope.scaling.type"))
            && kind != "none"
        {
            return Err(ModelError::Unsupported { what: format!("rope scaling of type \"{kind}\"") });
        }
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
        Ok(Config {
            context: file.size(&key("context_length"), 1 << 24)?,
            hidden,
            feed_forward: file.size(&key("feed_forward_length"), 1 << 20)?,
            layers: file.size(&key("block_count"), 1 << 10)?,
            num_heads,
            num_kv_heads,
            head_dim,
            rotary_dim,
            rope_theta: if file.get(&theta).is_some() { file.number(&theta)? } else { 10_000.0 },
            eps: file.number(&key("attention.layer_norm_rms_epsilon"))? as f32,
            vocabulary,
            architecture,
        })
    }
}
