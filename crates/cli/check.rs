//! `kernels check`

use crate::which::Which;
use crate::{Failure, Outcome, output};
use kernels_core::{Backend, DeviceId, Quarantine, Registry, Selector};
use kernels_harness::{Report, parity};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Keep kernels that fail out of use: write them to this list, which KERNELS_QUARANTINE then names. Kernels on the
    /// list that pass now are taken off
    #[arg(long, value_name = "FILE")]
    quarantine: Option<PathBuf>,
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
    if let Some(path) = &args.quarantine {
        return quarantine(path, &report);
    }
    verdict.map_err(|text| {
        eprintln!("{text}");
        Failure::Verdict
    })
}

/// Puts what failed on the list at `path`, takes off what passed. With that done the failures are dealt with, unless an
/// op of theirs has no other kernel.
fn quarantine(path: &Path, report: &Report) -> Outcome {
    let registry = Registry::linked()?;
    let invalid = |e: String| Failure::Error(format!("quarantine list {}: {e}", path.display()));
    let mut list = match std::fs::read_to_string(path) {
        Ok(text) => Quarantine::read_list(&text).map_err(invalid)?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(invalid(e.to_string())),
    };
    let mut bare = Vec::new();
    for k in &report.kernels {
        let device = registry.device(&k.device)?;
        // What the list says of the same device number on another machine stays.
        let mine = Quarantine::new(&k.kernel, device, "");
        list.retain(|q| !q.is_about(&mine));
        match k.failures.first() {
            None => {
                registry.release(&k.kernel, device.id());
            }
            Some(f) => {
                let detail =
                    format!("case \"{}\": {} ({} of {} cases)", f.case, f.detail, k.failures.len(), k.cases);
                registry.quarantine(&k.kernel, device, &detail)?;
                list.push(Quarantine { detail: detail.clone(), ..mine });
                eprintln!("quarantined on {}: {}: {detail}", k.device, k.kernel);
                bare.push((k.op, device));
            }
        }
    }
    std::fs::write(path, Quarantine::write_list(&list)).map_err(|e| invalid(e.to_string()))?;
    eprintln!("{} kernels in quarantine; use it with KERNELS_QUARANTINE={}", list.len(), path.display());
    bare.sort_by_key(|(op, device)| (*op, device.id()));
    bare.dedup();
    let errors: Vec<_> = bare
        .iter()
        .filter_map(|(op, device)| Selector::new(registry, *device).require(&[op]).err())
        .map(|e| e.to_string())
        .collect();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Failure::Error(errors.join("\n"))),
    }
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
