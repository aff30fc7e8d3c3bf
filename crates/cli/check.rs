//! `kernels check`

use crate::which::Which;
use crate::{Failure, Outcome, output};
use kernels_core::{Backend, DeviceId, Registry};
use kernels_harness::{Report, parity};

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
    if let Some(device) = filter.device {
        all_ops_ran(device, &report)?;
    }
    verdict.map_err(|text| {
        eprintln!("{text}");
        Failure::Verdict
    })
}

/// On a device that was asked for, every op that has kernels for it must have run with one.
fn all_ops_ran(device: DeviceId, report: &Report) -> Outcome {
    let specs: Vec<_> = Registry::linked()?.specs().filter(|s| s.kinds().contains(&device.kind)).collect();
    let idle = |id: &str| {
        let spec = specs.iter().find(|s| s.id() == id);
        spec.filter(|s| !report.kernels.iter().any(|k| k.op == s.op)).map(|s| s.op)
    };
    let mut missing: Vec<_> =
        report.unusable.iter().filter_map(|(id, why)| idle(id).map(|op| (op, why))).collect();
    missing.dedup_by_key(|m| m.0);
    match missing.first() {
        None if report.kernels.is_empty() => {
            Err(Failure::Error(format!("no kernel ran on {device}: none that was asked for is for it")))
        }
        None => Ok(()),
        Some((op, why)) => Err(Failure::Error(format!(
            "{} ops ran with no kernel on {device}, the first is {op}: {why}",
            missing.len()
        ))),
    }
}
