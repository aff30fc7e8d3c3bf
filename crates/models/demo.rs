//! A tiny seeded Llama as a GGUF file in memory: the same path as a real file, without one. It speaks
//! nonsense.

use crate::error::Result;
use crate::writer::GgufWriter;
use kernels_core::DType;
use kernels_ops::data::{blocks, normal};

/// The file's bytes: 2 layers, 256 byte tokens and an end token, weights in several formats.
///
/// # Errors
/// No memory.
pub fn demo_gguf() -> Result<Vec<u8>> {
    let (hidden, ff, heads, kv_heads, dim, vocabulary) = (256, 512, 4, 2, 64, 257);
    let mut file = GgufWriter::new();
    file.text("general.architecture", "llama").text("general.name", "demo");
    for (key, value) in [
        ("context_length", 512),
        ("embedding_length", hidden),
        ("feed_forward_length", ff),
        ("block_count", 2),
        ("attention.head_count", heads),
        ("attention.head_count_kv", kv_heads),
        ("rope.dimension_count", dim),
    ] {
        file.int(&format!("llama.{key}"), value as u32);
    }
    file.float("llama.attention.layer_norm_rms_epsilon", 1e-5).float("llama.rope.freq_base", 10_000.0);
    vocabulary_keys(&mut file);

    file.tensor("token_embd.weight", &blocks(1, DType::Q8_0, &[vocabulary, hidden]))?;
    file.tensor("output.weight", &normal(2, DType::F16, &[vocabulary, hidden], 0.2))?;
    file.tensor("output_norm.weight", &normal(3, DType::F32, &[hidden], 1.0))?;
    for layer in 0..2u64 {
        let mut add = |name: &str, dtype, shape: &[usize], seed| {
            file.tensor(&format!("blk.{layer}.{name}.weight"), &blocks(100 * layer + seed, dtype, shape))
                .map(|_| ())
        };
        add("attn_norm", DType::F32, &[hidden], 10)?;
        add("attn_q", DType::Q4_0, &[heads * dim, hidden], 11)?;
        add("attn_k", DType::Q4_1, &[kv_heads * dim, hidden], 12)?;
        add("attn_v", DType::Q5_0, &[kv_heads * dim, hidden], 13)?;
        add("attn_output", DType::Q5_1, &[hidden, heads * dim], 14)?;
        add("ffn_norm", DType::F32, &[hidden], 15)?;
        add("ffn_gate", DType::Q4K, &[ff, hidden], 16)?;
        add("ffn_up", DType::Q5K, &[ff, hidden], 17)?;
        add("ffn_down", DType::Q6K, &[hidden, ff], 18)?;
    }
    Ok(file.finish())
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
