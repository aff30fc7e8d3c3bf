//! `cargo run --release --manifest-path examples/candle-llama/Cargo.toml -- MODEL.gguf`: a Llama of candle-transformers, as it
//! is and with its layers exchanged (see build.rs), on the same weights in f32: the same greedy tokens, and the time of both.

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use std::collections::HashMap;
use std::time::Instant;

#[allow(unused_imports, unused_mut, unused_variables, dead_code, unexpected_cfgs)]
mod exchanged {
    include!(concat!(env!("OUT_DIR"), "/llama.rs"));
}
use candle_transformers::models::llama as original;

/// The weights under the names that candle-transformers asks for, and the sizes.
struct File {
    tensors: HashMap<String, Tensor>,
    metadata: HashMap<String, Value>,
}

impl File {
    fn open(path: &str) -> Result<File> {
        let mut file = std::fs::File::open(path)?;
        let content = Content::read(&mut file)?;
        let mut read = File { tensors: HashMap::new(), metadata: content.metadata.clone() };
        for name in content.tensor_infos.keys() {
            let tensor = content.tensor(&mut file, name, &Device::Cpu)?.dequantize(&Device::Cpu)?;
            let renamed = read.renamed(name, tensor)?;
            read.tensors.extend([renamed]);
        }
        Ok(read)
    }

    /// GGUF's names to Hugging Face's; rows of q and k there are in pairs, here in halves.
    fn renamed(&self, name: &str, tensor: Tensor) -> Result<(String, Tensor)> {
        const PARTS: [(&str, &str); 9] = [
            ("attn_q.", "self_attn.q_proj."),
            ("attn_k.", "self_attn.k_proj."),
            ("attn_v.", "self_attn.v_proj."),
            ("attn_output.", "self_attn.o_proj."),
            ("ffn_gate.", "mlp.gate_proj."),
            ("ffn_up.", "mlp.up_proj."),
            ("ffn_down.", "mlp.down_proj."),
            ("attn_norm.", "input_layernorm."),
            ("ffn_norm.", "post_attention_layernorm."),
        ];
        let heads = match name {
            n if n.contains("attn_q.") => Some(self.number("llama.attention.head_count")?),
            n if n.contains("attn_k.") => Some(self.number("llama.attention.head_count_kv")?),
            _ => None,
        };
        let tensor = match heads {
            None => tensor,
            Some(heads) => {
                let (rows, cols) = tensor.dims2()?;
                let pairs = tensor.reshape((heads, rows / heads / 2, 2, cols))?;
                pairs.transpose(1, 2)?.contiguous()?.reshape((rows, cols))?
            }
        };
        let mut name = match name {
            "token_embd.weight" => "model.embed_tokens.weight".to_string(),
            "output_norm.weight" => "model.norm.weight".into(),
            "output.weight" => "lm_head.weight".into(),
            other => other.replace("blk.", "model.layers."),
        };
        PARTS.iter().for_each(|(from, to)| name = name.replace(from, to));
        Ok((name, tensor))
    }

    fn value(&self, key: &str) -> Result<&Value> {
        self.metadata.get(key).ok_or_else(|| candle_core::Error::msg(format!("no {key}: a Llama is needed")))
    }

    fn number(&self, key: &str) -> Result<usize> {
        Ok(self.value(key)?.to_u32()? as usize)
    }

    fn float(&self, key: &str) -> Result<f32> {
        self.value(key)?.to_f32()
    }
}

/// Time of the prompt and of each token after it, and the greedy tokens.
struct Run {
    prefill: f64,
    decode: f64,
    tokens: Vec<u32>,
}

/// A model of one of the two modules, which have the same names.
macro_rules! model {
    ($module:ident, $file:expr, $room:expr) => {{
        let file: &File = $file;
        let config = $module::Config {
            hidden_size: file.number("llama.embedding_length")?,
            intermediate_size: file.number("llama.feed_forward_length")?,
            vocab_size: file.tensors["model.embed_tokens.weight"].dim(0)?,
            num_hidden_layers: file.number("llama.block_count")?,
            num_attention_heads: file.number("llama.attention.head_count")?,
            num_key_value_heads: file.number("llama.attention.head_count_kv")?,
            use_flash_attn: false,
            rms_norm_eps: f64::from(file.float("llama.attention.layer_norm_rms_epsilon")?),
            rope_theta: file.float("llama.rope.freq_base")?,
            bos_token_id: None,
            eos_token_id: None,
            rope_scaling: None,
            max_position_embeddings: $room,
            tie_word_embeddings: !file.tensors.contains_key("lm_head.weight"),
        };
        let vb = VarBuilder::from_tensors(file.tensors.clone(), DType::F32, &Device::Cpu);
        let model = $module::Llama::load(vb, &config)?;
        move |prompt: &[u32], new: usize| -> Result<Run> {
            let mut cache = $module::Cache::new(true, DType::F32, &config, &Device::Cpu)?;
            let (mut tokens, mut at) = (Vec::new(), 0);
            let mut step = |input: &[u32]| -> Result<u32> {
                let logits =
                    model.forward(&Tensor::new(input, &Device::Cpu)?.unsqueeze(0)?, at, &mut cache)?;
                at += input.len();
                logits.argmax(D::Minus1)?.squeeze(0)?.to_scalar()
            };
            let start = Instant::now();
            tokens.push(step(prompt)?);
            let prefill = start.elapsed().as_secs_f64();
            let start = Instant::now();
            for _ in 1..new {
                tokens.push(step(&tokens[tokens.len() - 1..])?);
            }
            Ok(Run { prefill, decode: start.elapsed().as_secs_f64() / (new - 1) as f64, tokens })
        }
    }};
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() -> Result<()> {
    const ROUNDS: usize = 5;
    let Some(path) = std::env::args().nth(1) else {
        candle_core::bail!(
            "usage: candle-llama MODEL.gguf (scripts/fetch-model smollm2 prints the path of one)"
        )
    };
    let file = File::open(&path)?;
    let vocabulary = file.tensors["model.embed_tokens.weight"].dim(0)?;
    println!(
        "exchanged: {} lines removed, {} added, of llama.rs",
        env!("LINES_REMOVED"),
        env!("LINES_ADDED")
    );
    for (length, new) in [(32, 32), (512, 32)] {
        // Any tokens do: what counts is that both go on alike.
        let prompt: Vec<u32> = (0..length).map(|i| ((i * 7919 + 13) % vocabulary) as u32).collect();
        let (before, after) = (model!(original, &file, length + new), model!(exchanged, &file, length + new));
        let (mut prefill, mut decode) = ([vec![], vec![]], [vec![], vec![]]);
        for _ in 0..ROUNDS {
            let runs = [before(&prompt, new)?, after(&prompt, new)?];
            if runs[0].tokens != runs[1].tokens {
                candle_core::bail!("the tokens differ: {:?} and {:?}", runs[0].tokens, runs[1].tokens)
            }
            for (i, run) in runs.into_iter().enumerate() {
                prefill[i].push(run.prefill);
                decode[i].push(run.decode);
            }
        }
        let [a, b] = prefill.map(median);
        println!(
            "prompt of {length}: {:.0} tokens/s with candle's layers, {:.0} exchanged: {:.2} times",
            length as f64 / a,
            length as f64 / b,
            a / b
        );
        let [a, b] = decode.map(median);
        println!(
            "each token after it: {:.1} tokens/s, {:.1} exchanged: {:.2} times",
            1.0 / a,
            1.0 / b,
            a / b
        );
    }
    println!("the same greedy tokens, {ROUNDS} rounds turn about, medians, f32");
    Ok(())
}
