//! `kernels check`

use crate::which::Which;
use crate::{Failure, Outcome, output};
use kernels_core::{Backend, Registry};
use kernels_harness::parity;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let filter = args.which.filter(Registry::linked()?)?;
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
    if let (Some(device), true) = (filter.device, report.kernels.is_empty()) {
        let registry = Registry::linked()?;
        let for_it = |id: &str| registry.specs().any(|s| s.id() == id && s.kinds().contains(&device.kind));
        let why = report.unusable.iter().find(|(id, _)| for_it(id));
        let why = why.map_or("no kernel is for it".into(), |(id, why)| format!("{id}: {why}"));
        return Err(Failure::Error(format!("no kernel ran on {device} ({why})")));
    }
    verdict.map_err(|text| {
        eprintln!("{text}");
        Failure::Verdict
    })
}
