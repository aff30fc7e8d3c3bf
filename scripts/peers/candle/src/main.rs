//! candle-transformers on a Llama or Gemma 3 GGUF file: `candle-peer MODEL.gguf IDS NEW` feeds the comma-separated ids and
//! adds NEW greedy tokens, on RAYON_NUM_THREADS threads; prints JSON as `kernels generate --json` does.

use candle_core::quantized::gguf_file::Content;
use candle_core::{D, Device, Tensor};
use candle_transformers::models::{quantized_gemma3, quantized_llama};
use std::time::Instant;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let ids: Vec<u32> = args[2].split(',').map(str::parse).collect::<Result<_, _>>()?;
    let new: usize = args[3].parse()?;
    let mut file = std::fs::File::open(&args[1])?;
    let content = Content::read(&mut file)?;
    let architecture = content.metadata["general.architecture"].to_string()?.clone();
    let mut forward: Box<dyn FnMut(&Tensor, usize) -> candle_core::Result<Tensor>> = match architecture.as_str() {
        "gemma3" => {
            let mut model = quantized_gemma3::ModelWeights::from_gguf(content, &mut file, &Device::Cpu)?;
            Box::new(move |x, at| model.forward(x, at))
        }
        _ => {
            let mut model = quantized_llama::ModelWeights::from_gguf(content, &mut file, &Device::Cpu)?;
            Box::new(move |x, at| model.forward(x, at))
        }
    };
    let mut step = |ids: &[u32], at: usize| -> anyhow::Result<u32> {
        let logits = forward(&Tensor::new(ids, &Device::Cpu)?.unsqueeze(0)?, at)?;
        Ok(logits.squeeze(0)?.argmax(D::Minus1)?.to_scalar()?)
    };
    let start = Instant::now();
    let mut tokens = vec![step(&ids, 0)?];
    let prefill = start.elapsed().as_secs_f64();
    let start = Instant::now();
    while tokens.len() < new {
        tokens.push(step(&[tokens[tokens.len() - 1]], ids.len() + tokens.len() - 1)?);
    }
    let decode = start.elapsed().as_secs_f64();
    let (prefill, decode) = (ids.len() as f64 / prefill, (new - 1) as f64 / decode);
    println!("{{\"tokens\": {tokens:?}, \"prefill_tokens_per_s\": {prefill}, \"decode_tokens_per_s\": {decode}}}");
    Ok(())
}
