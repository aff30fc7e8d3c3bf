//! `kernels generate` and `kernels demo`

use crate::{Failure, Outcome, output};
use kernels_core::{DType, DTypeSet, Device, Policy, Record, Recorder, Registry, Selector};
use kernels_models::{
    Config, Generated, Gguf, Limits, Model, ModelError, Request, Step, Text, demo_gguf, generate_all,
};
use kernels_ops::sampling::Draw;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{Cursor, Read, Seek, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

#[derive(clap::Args)]
pub struct Args {
    /// A GGUF file of a Llama, Qwen 2, Qwen 3 or Gemma 3 model
    #[arg(long)]
    model: PathBuf,
    #[command(flatten)]
    how: How,
}

#[derive(clap::Args)]
pub struct DemoArgs {
    /// Whose family: llama, qwen2, qwen3 or gemma3
    #[arg(long, default_value = "llama")]
    architecture: String,
    /// Only write the model to this GGUF file
    #[arg(long)]
    save: Option<PathBuf>,
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
    /// Text to start from; names of special tokens in it become those tokens. Several times for several texts
    /// at once
    #[arg(long, default_value = "The capital of France is")]
    prompt: Vec<String>,
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
    /// Blocks of 64 tokens that all texts share as their cache; by default as many as they need. With fewer,
    /// texts wait for each other
    #[arg(long)]
    cache_blocks: Option<usize>,
    /// Element type of the cache: f16, bf16, f32 or f8_e4m3
    #[arg(long, default_value = "f16")]
    cache_type: String,
    /// Host threads; by default one for each core
    #[arg(long)]
    threads: Option<usize>,
    /// Go on after the token that ends a text
    #[arg(long)]
    ignore_eos: bool,
    /// Write every kernel call to this file, as JSON lines
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Count kernel calls, and write the counters to this file as Prometheus text when it is done; - for
    /// standard output
    #[arg(long)]
    metrics: Option<PathBuf>,
    /// As JSON, when it is done
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    text_from(Gguf::open(&args.model)?, &args.how)
}

pub fn demo(args: &DemoArgs) -> Outcome {
    let file = demo_gguf(&args.architecture)?;
    if let Some(path) = &args.save {
        let fail = |e| Failure::Error(format!("cannot write the model to {}: {e}", path.display()));
        return std::fs::write(path, file).map_err(fail);
    }
    text_from(Gguf::read(Cursor::new(file))?, &args.how)
}

pub fn tokens(args: &TokensArgs) -> Outcome {
    let text = Text::read(&mut Gguf::open(&args.model)?)?;
    output::print(&serde_json::to_string(&text.encode(&args.prompt)?)?)
}

fn text_from<R: Read + Seek>(file: Gguf<R>, how: &How) -> Outcome {
    let Some(path) = &how.metrics else { return generated(file, how) };
    kernels_core::count_calls(true);
    let outcome = generated(file, how);
    crate::metrics::write(path)?;
    outcome
}

fn generated<R: Read + Seek>(mut file: Gguf<R>, how: &How) -> Outcome {
    let registry = Registry::linked()?;
    if let Some(rules) = &how.backend {
        // What KERNELS_POLICY says stays.
        let rules = Policy::parse(rules, registry)?.rules;
        registry.set_policy(Policy { rules, ..registry.policy() })?;
    }
    let device = registry.device(&how.device)?;
    let limits = Limits { blocks: how.cache_blocks, cache: cache_type(&how.cache_type)? };
    // Before the weights are read: every op that will be needed, or one error that lists those without a kernel.
    Selector::new(registry, device).require(&Config::read(&file)?.ops())?;
    if let Some(threads) = how.threads {
        Device::cpu().set_threads(threads);
    }
    let mut bar = output::progress();
    let model = Model::load(&mut file, device, |done, all| bar(done, all, "reading weights"))?;
    let text = Text::read(&mut file)?;
    let prompts = how.prompt.iter().map(|p| text.encode(p)).collect::<Result<Vec<_>, _>>()?;
    let eos = text.ends();
    let draw = Draw {
        temperature: how.temperature,
        top_k: how.top_k,
        top_p: how.top_p,
        min_p: how.min_p,
        seed: how.seed,
    };
    let request = |prompt| Request {
        prompt,
        max_tokens: how.max_tokens,
        draw,
        stop: if how.ignore_eos { &[] } else { &eos },
        context: how.context.unwrap_or(usize::MAX),
    };
    let lengths: Vec<_> = prompts.iter().map(Vec::len).collect();
    let compiled = compile(&model, &lengths, limits.cache)?;
    let requests: Vec<_> = prompts.iter().map(|p| request(p.as_slice())).collect();
    // One text is shown as it comes; several, when they are there.
    let live = !how.json && requests.len() == 1;
    // Of the calls, the prompt's and the first tokens' show every kernel; more only where a trace wants them.
    let mut recorder = Some(Recorder::start());
    let mut records = Vec::new();
    let mut shown = 0;
    let results = generate_all(&model, &requests, limits, |_, step| {
        if let (Step::Prefilled, true) = (step, live) {
            print!("{}", how.prompt[0]);
        }
        if let Step::Token(tokens) = step {
            if tokens.len() == 3 && how.trace.is_none() {
                records = recorder.take().map(|r| r.records()).unwrap_or(std::mem::take(&mut records));
            }
            if live {
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
    finish(how, &text, &results, &records, compiled)
}

/// Compiles what the model needs on a GPU before the first token, so that no text waits for it. Returns how many kernels
/// that were, and the seconds.
fn compile(model: &Model, prompts: &[usize], cache: DType) -> Result<(usize, f64), Failure> {
    if model.device() == Device::cpu() {
        return Ok((0, 0.0));
    }
    let (start, bar) = (Instant::now(), Mutex::new(output::progress()));
    let kernels = kernels_gpu::warm_up(
        || model.rehearse(prompts, cache),
        |done, all, kernel| {
            bar.lock().unwrap_or_else(|e| e.into_inner())(done, all, &format!("compiling {kernel}"))
        },
    )?;
    Ok((kernels, start.elapsed().as_secs_f64()))
}

fn cache_type(name: &str) -> Result<DType, Failure> {
    let takes = DTypeSet::FLOAT.union(DTypeSet::of(&[DType::F8E4M3]));
    DType::parse(name).filter(|d| takes.contains(*d)).ok_or_else(|| {
        Failure::Error(format!("unknown cache type \"{name}\" (known: f16, bf16, f32, f8_e4m3)"))
    })
}

fn finish(
    how: &How,
    text: &Text,
    results: &[Generated],
    records: &[Record],
    (compiled, seconds): (usize, f64),
) -> Outcome {
    let mut kernels: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for r in records {
        *kernels.entry((r.op, &r.kernel)).or_default() += 1;
    }
    if how.json {
        let ran: Vec<_> = kernels.keys().map(|(op, kernel)| json!({ "op": op, "kernel": kernel })).collect();
        let one = |(prompt, result): (&String, &Generated)| -> Result<_, Failure> {
            let (prefill, decode) = rates(result);
            Ok(json!({
                "prompt": prompt,
                "text": text.decode(&result.tokens)?,
                "tokens": result.tokens,
                "prompt_tokens": result.prompt_tokens,
                "stopped": result.stopped,
                "prefill_tokens_per_s": prefill,
                "decode_tokens_per_s": decode,
                "threads": Device::cpu().threads(),
                "kernels": ran,
                "kernels_compiled": compiled,
                "compile_seconds": seconds,
            }))
        };
        let all = how.prompt.iter().zip(results).map(one).collect::<Result<Vec<_>, _>>()?;
        return match all.as_slice() {
            [only] => output::json(only),
            several => output::json(&several),
        };
    }
    for (prompt, result) in how.prompt.iter().zip(results).filter(|_| results.len() > 1) {
        println!("{prompt}{}\n", text.decode(&result.tokens)?);
    }
    println!();
    let threads = Device::cpu().threads();
    for result in results {
        let (prefill, decode) = rates(result);
        eprintln!(
            "{} prompt tokens at {prefill:.1} tokens/s, {} new tokens at {decode:.1} tokens/s, {threads} threads",
            result.prompt_tokens,
            result.tokens.len(),
        );
    }
    if compiled > 0 {
        eprintln!("{compiled} kernels were compiled or loaded before that, in {seconds:.1} s");
    }
    eprintln!("kernels that ran:");
    let width = kernels.keys().map(|k| k.0.len()).max().unwrap_or(0);
    for (op, kernel) in kernels.keys() {
        eprintln!("  {op:width$}  {kernel}");
    }
    Ok(())
}

/// Tokens a second of the prompt and of the new tokens.
fn rates(result: &Generated) -> (f64, f64) {
    let rate = |tokens: usize, seconds: f64| if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 };
    (
        rate(result.prompt_tokens, result.prefill.as_secs_f64()),
        rate(result.decode.1, result.decode.0.as_secs_f64()),
    )
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
