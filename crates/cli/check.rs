//! `kernels check`

use crate::{Failure, Outcome, output};
use kernels_core::{Backend, Registry, intern, nearest};
use kernels_harness::{Filter, parity};

#[derive(clap::Args)]
pub struct Args {
    /// Only ops of this name; `*` stands for anything
    #[arg(long)]
    op: Option<String>,
    /// Only kernels of this backend, which must then run at least one case
    #[arg(long)]
    backend: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// A filter from a command's options, and an error for names that nothing has.
pub fn filter(op: &Option<String>, backend: &Option<String>) -> Result<Filter, Failure> {
    let registry = Registry::linked()?;
    let filter = Filter {
        ops: op.clone(),
        backend: backend.as_ref().map(|b| Backend(intern(b))),
        ..Filter::default()
    };
    if let Some(b) = filter.backend
        && !registry.backends().contains(&b)
    {
        let near =
            nearest(b.0, registry.backends().iter().map(|b| b.0)).map(|n| format!("; did you mean \"{n}\"?"));
        let off: Vec<_> = registry.features_off().iter().map(|f| f.0).collect();
        let off = if off.is_empty() {
            String::new()
        } else {
            format!("\n  fix: it may come with a feature that is off: {off:?}")
        };
        return Err(Failure::Error(format!(
            "no kernel of backend \"{b}\" is linked ({:?}){}{off}",
            registry.backends(),
            near.unwrap_or_default()
        )));
    }
    if filter.kernels(registry).is_empty() {
        let glob = op.as_deref().unwrap_or("*");
        let near = nearest(glob, registry.ops().map(|o| o.name)).map(|n| format!("; did you mean \"{n}\"?"));
        return Err(Failure::Error(format!("no kernel of an op \"{glob}\"{}", near.unwrap_or_default())));
    }
    Ok(filter)
}

pub fn run(args: &Args) -> Outcome {
    let filter = filter(&args.op, &args.backend)?;
    let report = parity(&filter, output::progress())?;
    let required: Vec<Backend> = filter.backend.into_iter().collect();
    let verdict = report.verdict(&required);
    if args.json {
        output::json(&report)?;
    } else {
        let mut table = output::table(&["kernel", "device", "cases", "failed", "worst error / tolerance"]);
        for k in &report.kernels {
            table.add_row([
                k.kernel.clone(),
                k.device.clone(),
                k.cases.to_string(),
                k.failures.len().to_string(),
                format!("{:.3}", k.worst),
            ]);
        }
        output::print(&table.to_string())?;
        for (kernel, why) in &report.unusable {
            output::print(&format!("not run: {kernel}: {why}"))?;
        }
        let (cases, kernels) = (report.kernels.iter().map(|k| k.cases).sum::<usize>(), report.kernels.len());
        let failed: usize = report.kernels.iter().map(|k| k.failures.len()).sum();
        output::print(&format!(
            "{kernels} kernels, {cases} cases, {failed} failed, {} kernels not usable here",
            report.unusable.len()
        ))?;
    }
    verdict.map_err(|text| {
        eprintln!("{text}");
        Failure::Verdict
    })
}
