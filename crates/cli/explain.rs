//! `kernels explain`

use crate::{Failure, Outcome, output};
use kernels_core::{Backend, DType, Decision, Key, Platform, Registry, intern};
use serde_json::json;

#[derive(clap::Args)]
pub struct Args {
    /// The op, as `kernels list` shows it
    op: String,
    /// A live device: cpu, cuda:0
    #[arg(long, default_value = "cpu", conflicts_with = "platform")]
    device: String,
    /// A described platform, which need not be here: portable, avx2, avx512, sm_90, gfx942
    #[arg(long)]
    platform: Option<String>,
    /// As if the call named this backend
    #[arg(long)]
    backend: Option<String>,
    /// Element type of the call's main tensor
    #[arg(long)]
    dtype: Option<String>,
    /// Element type of its weight or cache; by default the same
    #[arg(long, requires = "dtype")]
    weight: Option<String>,
    /// The number of the shape that kernels of the op depend on (its contract says which), as from
    /// head_dim or rows
    #[arg(long, requires = "dtype")]
    shape: Option<usize>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let registry = Registry::linked()?;
    let platform = match &args.platform {
        Some(text) => Platform::described(text).ok_or_else(|| {
            Failure::Error(format!(
                "\"{text}\" is not a platform; write portable, avx2, avx512, sm_90 or gfx942"
            ))
        })?,
        None => registry.device(&args.device)?.platform().clone(),
    };
    let dtype = |name: &String| {
        DType::parse(name).ok_or_else(|| {
            let all: Vec<_> = DType::ALL.iter().map(|d| d.name()).collect();
            Failure::Error(format!("\"{name}\" is not an element type; one of: {}", all.join(", ")))
        })
    };
    let key = match &args.dtype {
        Some(name) => {
            let key = Key::of(dtype(name)?).with_fact(args.shape.unwrap_or(0));
            Some(args.weight.as_ref().map(dtype).transpose()?.map_or(key, |w| key.with_weight(w)))
        }
        None => None,
    };
    let call = args.backend.as_ref().map(|b| Backend(intern(b)));
    let decision = registry.explain(&args.op, &platform, key.as_ref(), call)?;
    match args.json {
        true => output::json(&as_json(&decision)),
        false => output::print(&decision.to_string()),
    }?;
    if decision.chosen.is_some() { Ok(()) } else { Err(Failure::Verdict) }
}

fn as_json(d: &Decision) -> serde_json::Value {
    let candidates: Vec<_> = d
        .candidates
        .iter()
        .enumerate()
        .map(|(i, c)| {
            json!({
                "kernel": c.spec.id(),
                "backend": c.spec.backend.0,
                "origin": c.spec.origin.to_string(),
                "chosen": d.chosen == Some(i),
                "reasons": c.reasons.iter().map(|r| r.to_string()).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "op": d.op,
        "device": d.device.to_string(),
        "arch": d.arch,
        "missed": d.missed.map(|(backend, _)| backend.0),
        "call": d.key.map(|k| k.to_string()),
        "chosen": d.chosen().map(|s| s.id()),
        "decided_by": d.level.to_string(),
        "candidates": candidates,
        "fix": d.fix,
    })
}
