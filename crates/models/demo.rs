//! Tiny seeded models as GGUF files in memory: the same path as a real file, without one. They speak
//! nonsense.

use crate::error::{ModelError, Result};
use crate::writer::GgufWriter;
use kernels_core::{DType, Tensor};
use kernels_ops::data::{blocks, normal};

/// Sizes of a demo model.
struct Sizes {
    hidden: usize,
    feed_forward: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    dim: usize,
    vocabulary: usize,
}

/// The file's bytes for one of the families (`llama`, `qwen2`, `qwen3`, `gemma3`): 256 byte tokens and an end
/// token. The Llama's weights are of every format; those of the others are f32, so that engines that quantise
/// activations agree to the last token.
///
/// # Errors
/// No memory, or a family without a demo.
pub fn demo_gguf(architecture: &str) -> Result<Vec<u8>> {
    let small =
        Sizes { hidden: 128, feed_forward: 256, layers: 2, heads: 4, kv_heads: 2, dim: 32, vocabulary: 257 };
    let sizes = match architecture {
        "llama" => Sizes { hidden: 256, feed_forward: 512, dim: 64, ..small },
        "qwen2" | "qwen3" => small,
        // Five layers with a window, one without, and another one with.
        "gemma3" => Sizes { layers: 7, kv_heads: 1, ..small },
        other => {
            let known = crate::config::ARCHITECTURES;
            return Err(ModelError::UnknownArchitecture { have: other.into(), known });
        }
    };
    let mut file = GgufWriter::new();
    file.text("general.architecture", architecture).text("general.name", "demo");
    let key = |name: &str| format!("{architecture}.{name}");
    for (name, value) in [
        ("context_length", 512),
        ("embedding_length", sizes.hidden),
        ("feed_forward_length", sizes.feed_forward),
        ("block_count", sizes.layers),
        ("attention.head_count", sizes.heads),
        ("attention.head_count_kv", sizes.kv_heads),
        ("rope.dimension_count", sizes.dim),
    ] {
        file.int(&key(name), value as u32);
    }
    file.float(&key("attention.layer_norm_rms_epsilon"), 1e-5).float(&key("rope.freq_base"), 10_000.0);
    if architecture == "gemma3" {
        file.int(&key("attention.sliding_window"), 16);
    }
    if architecture != "llama" {
        file.int(&key("attention.key_length"), sizes.dim as u32);
        file.int(&key("attention.value_length"), sizes.dim as u32);
    }
    vocabulary_keys(&mut file);
    weights(&mut file, architecture, &sizes)?;
    Ok(file.finish())
}

fn weights(file: &mut GgufWriter, architecture: &str, s: &Sizes) -> Result<()> {
    let (llama, gemma) = (architecture == "llama", architecture == "gemma3");
    let dtype = |dtype| if llama { dtype } else { DType::F32 };
    // Norms about 1, as trained ones are.
    let norm = |seed, len: usize| -> Result<Tensor> {
        let values: Vec<f32> =
            normal(seed, DType::F32, &[len], 0.3).to_f32_vec()?.iter().map(|v| 1.0 + v).collect();
        Ok(Tensor::from_slice(&values, &[len])?)
    };
    // Gemma's output is its embedding, and so larger.
    let embedding = match (llama, gemma) {
        (true, _) => blocks(1, DType::Q8_0, &[s.vocabulary, s.hidden]),
        (_, true) => normal(1, DType::F32, &[s.vocabulary, s.hidden], 0.2),
        _ => normal(1, DType::F32, &[s.vocabulary, s.hidden], 0.05),
    };
    file.tensor("token_embd.weight", &embedding)?;
    if !gemma {
        file.tensor("output.weight", &normal(2, dtype(DType::F16), &[s.vocabulary, s.hidden], 0.2))?;
    }
    // About 0 where the output is the embedding again: else the last token would be the likeliest next.
    match llama || gemma {
        true => file.tensor("output_norm.weight", &normal(3, DType::F32, &[s.hidden], 1.0))?,
        false => file.tensor("output_norm.weight", &norm(3, s.hidden)?)?,
    };
    for layer in 0..s.layers as u64 {
        let at = |name: &str| format!("blk.{layer}.{name}");
        let seed = |seed| 100 * layer + seed;
        let (q, kv) = (s.heads * s.dim, s.kv_heads * s.dim);
        let mut matrix = |name: &str, format, shape: &[usize], n| -> Result<()> {
            // The wider spread of a file in f32 makes attention choose.
            let tensor = match llama {
                true => blocks(seed(n), format, shape),
                false => normal(seed(n), DType::F32, shape, 0.12),
            };
            file.tensor(&at(&format!("{name}.weight")), &tensor)?;
            Ok(())
        };
        if llama {
            matrix("attn_norm", DType::F32, &[s.hidden], 10)?;
        }
        matrix("attn_q", DType::Q4_0, &[q, s.hidden], 11)?;
        matrix("attn_k", DType::Q4_1, &[kv, s.hidden], 12)?;
        matrix("attn_v", DType::Q5_0, &[kv, s.hidden], 13)?;
        matrix("attn_output", DType::Q5_1, &[s.hidden, q], 14)?;
        if llama {
            matrix("ffn_norm", DType::F32, &[s.hidden], 15)?;
        }
        matrix("ffn_gate", DType::Q4K, &[s.feed_forward, s.hidden], 16)?;
        matrix("ffn_up", DType::Q5K, &[s.feed_forward, s.hidden], 17)?;
        matrix("ffn_down", DType::Q6K, &[s.hidden, s.feed_forward], 18)?;
        if !llama {
            file.tensor(&at("attn_norm.weight"), &norm(seed(10), s.hidden)?)?;
            file.tensor(&at("ffn_norm.weight"), &norm(seed(15), s.hidden)?)?;
        }
        if architecture == "qwen2" {
            for (name, len, n) in [("attn_q", q, 20), ("attn_k", kv, 21), ("attn_v", kv, 22)] {
                file.tensor(&at(&format!("{name}.bias")), &normal(seed(n), DType::F32, &[len], 0.5))?;
            }
        }
        if gemma || architecture == "qwen3" {
            file.tensor(&at("attn_q_norm.weight"), &norm(seed(23), s.dim)?)?;
            file.tensor(&at("attn_k_norm.weight"), &norm(seed(24), s.dim)?)?;
        }
        if gemma {
            file.tensor(&at("post_attention_norm.weight"), &norm(seed(25), s.hidden)?)?;
            file.tensor(&at("post_ffw_norm.weight"), &norm(seed(26), s.hidden)?)?;
        }
    }
    Ok(())
}

/// A byte-level vocabulary without merges: each byte by the character that GPT-2's table gives it.
fn vocabulary_keys(file: &mut GgufWriter) {
    let printable = |b: u32| (33..=126).contains(&b) || (161..=172).contains(&b) || (174..=255).contains(&b);
    let mut others = 256..;
    let letter = |b: u32| if printable(b) { b } else { others.next().unwrap_or(b) };
    let mut tokens: Vec<String> =
        (0..256).map(letter).map(|c| char::from_u32(c).map(String::from).unwrap_or_default()).collect();
    tokens.push("<|end|>".into());
    let mut kinds = vec![1; 256];
    kinds.push(3);
    file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
    file.texts("tokenizer.ggml.tokens", &tokens).ints("tokenizer.ggml.token_type", &kinds);
    file.texts("tokenizer.ggml.merges", &[]);
    file.int("tokenizer.ggml.eos_token_id", 256).int("tokenizer.ggml.bos_token_id", 256);
    file.bool("tokenizer.ggml.add_bos_token", false);
}
