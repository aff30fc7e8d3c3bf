//! `kernels generate` and `kernels demo`

use crate::{Failure, Outcome, output};
use kernels_core::{Device, Policy, Record, Recorder, Registry, Selector};
use kernels_models::{Generated, Gguf, Llama, ModelError, OPS, Request, Step, Text, demo_gguf, generate};
use kernels_ops::sampling::Draw;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{Cursor, Read, Seek, Write};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// A GGUF file of a Llama-family model
    #[arg(long)]
    model: PathBuf,
    #[command(flatten)]
    how: How,
}

#[derive(clap::Args)]
pub struct DemoArgs {
    #[command(flatten)]
    how: How,
}

#[derive(clap::Args)]
pub struct TokensArgs {
    /// A GGUF file
    #[arg(long)]
    model: PathBuf,
    /// The text; names of special tokens in it become those tokens
    #[arg(long)]
    prompt: String,
}

#[derive(clap::Args)]
struct How {
    /// Text to start from; names of special tokens in it become those tokens
    #[arg(long, default_value = "The capital of France is")]
    prompt: String,
    /// How many tokens to add at most
    #[arg(long, default_value_t = 64)]
    max_tokens: usize,
    /// 0 takes the likeliest token each time
    #[arg(long, default_value_t = 0.0)]
    temperature: f32,
    /// Keep the k likeliest tokens; 0 keeps all
    #[arg(long, default_value_t = 0)]
    top_k: usize,
    /// Keep the likeliest tokens that together reach this share
    #[arg(long, default_value_t = 1.0)]
    top_p: f32,
    /// Keep tokens with at least this share of the likeliest one's probability
    #[arg(long, default_value_t = 0.0)]
    min_p: f32,
    /// Of the draw
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Room for prompt and new tokens; by default the model's own
    #[arg(long)]
    context: Option<usize>,
    /// Where the model runs
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Ask for backends, as KERNELS_BACKEND does: simd, or "attention.*=reference"
    #[arg(long)]
    backend: Option<String>,
    /// Host threads; by default one for each core
    #[arg(long)]
    threads: Option<usize>,
    /// Go on after the token that ends a text
    #[arg(long)]
    ignore_eos: bool,
    /// Write every kernel call to this file, as JSON lines
    #[arg(long)]
    trace: Option<PathBuf>,
    /// As JSON, when it is done
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    text_from(Gguf::open(&args.model)?, &args.how)
}

pub fn demo(args: &DemoArgs) -> Outcome {
    text_from(Gguf::read(Cursor::new(demo_gguf()?))?, &args.how)
}

pub fn tokens(args: &TokensArgs) -> Outcome {
    let text = Text::read(&mut Gguf::open(&args.model)?)?;
    output::print(&serde_json::to_string(&text.encode(&args.prompt)?)?)
}

fn text_from<R: Read + Seek>(mut file: Gguf<R>, how: &How) -> Outcome {
    let registry = Registry::linked()?;
    if let Some(rules) = &how.backend {
        registry.set_policy(Policy::parse(rules, registry)?)?;
    }
    let device = registry.device(&how.device)?;
    // Before the weights are read: every op that will be needed, or one error that lists those without a kernel.
    Selector::new(registry, device).require(&OPS)?;
    if let Some(threads) = how.threads {
        Device::cpu().set_threads(threads);
    }
    let mut bar = output::progress();
    let model = Llama::load(&mut file, device, |done, all| bar(done, all, "reading weights"))?;
    let text = Text::read(&mut file)?;
    let prompt = text.encode(&how.prompt)?;
    let eos = [text.eos()];
    let request = Request {
        prompt: &prompt,
        max_tokens: how.max_tokens,
        draw: Draw {
            temperature: how.temperature,
            top_k: how.top_k,
            top_p: how.top_p,
            min_p: how.min_p,
            seed: how.seed,
        },
        stop: if how.ignore_eos { &[] } else { &eos },
        context: how.context.unwrap_or(usize::MAX),
    };
    // Of the calls, the prompt's and the first token's show every kernel; more only where a trace wants them.
    let mut recorder = Some(Recorder::start());
    let mut records = Vec::new();
    let mut shown = 0;
    let result = generate(&model, &request, |step| {
        if let (Step::Prefilled, false) = (step, how.json) {
            print!("{}", how.prompt);
        }
        if let Step::Token(tokens) = step {
            if tokens.len() == 2 && how.trace.is_none() {
                records = recorder.take().map(|r| r.records()).unwrap_or_default();
            }
            if !how.json {
                let piece = text.settled(tokens, shown)?;
                shown += piece.len();
                print!("{piece}");
                std::io::stdout().flush().map_err(ModelError::from)?;
            }
        }
        Ok(())
    })?;
    if let Some(recorder) = recorder {
        records = recorder.records();
    }
    if let Some(path) = &how.trace {
        let fail = |e| Failure::Error(format!("cannot write the trace to {}: {e}", path.display()));
        std::fs::write(path, records.iter().map(|r| format!("{}\n", record_json(r))).collect::<String>())
            .map_err(fail)?;
    }
    finish(how, &text, &result, &records)
}

fn finish(how: &How, text: &Text, result: &Generated, records: &[Record]) -> Outcome {
    let rate = |tokens: usize, seconds: f64| if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 };
    let prefill = rate(result.prompt_tokens, result.prefill.as_secs_f64());
    let decode = rate(result.decode.1, result.decode.0.as_secs_f64());
    let mut kernels: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for r in records {
        *kernels.entry((r.op, &r.kernel)).or_default() += 1;
    }
    if how.json {
        let ran: Vec<_> = kernels.keys().map(|(op, kernel)| json!({ "op": op, "kernel": kernel })).collect();
        return output::json(&json!({
            "prompt": how.prompt,
            "text": text.decode(&result.tokens)?,
            "tokens": result.tokens,
            "prompt_tokens": result.prompt_tokens,
            "stopped": result.stopped,
            "prefill_tokens_per_s": prefill,
            "decode_tokens_per_s": decode,
            "threads": Device::cpu().threads(),
            "kernels": ran,
        }));
    }
    println!();
    eprintln!(
        "\n{} prompt tokens at {prefill:.1} tokens/s, {} new tokens at {decode:.1} tokens/s, {} threads",
        result.prompt_tokens,
        result.tokens.len(),
        Device::cpu().threads()
    );
    eprintln!("kernels that ran:");
    let width = kernels.keys().map(|k| k.0.len()).max().unwrap_or(0);
    for (op, kernel) in kernels.keys() {
        eprintln!("  {op:width$}  {kernel}");
    }
    Ok(())
}

fn record_json(r: &Record) -> serde_json::Value {
    let tensors: Vec<_> = r
        .tensors
        .iter()
        .map(|(name, dtype, shape)| json!({ "name": name, "dtype": dtype.name(), "shape": shape }))
        .collect();
    json!({
        "op": r.op,
        "kernel": r.kernel,
        "device": r.device.to_string(),
        "decided_by": r.level.to_string(),
        "tensors": tensors,
    })
}
