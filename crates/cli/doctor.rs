//! `kernels doctor`

use crate::{Failure, Outcome, output};
use kernels_core::{Decision, Device, Quarantine, Reason, Registry, Selector};
use serde::Serialize;

#[derive(clap::Args)]
pub struct Args {
    /// An op that must have a usable kernel on some device; may be given more than once
    #[arg(long = "require", value_name = "OP")]
    require: Vec<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize, Default)]
struct Diagnosis {
    integrity: String,
    devices: Vec<DeviceRow>,
    absent: Vec<Absent>,
    crates: Vec<CrateRow>,
    features_off: Vec<&'static str>,
    /// Variables that change what is chosen, as they are set.
    environment: Vec<(&'static str, String)>,
    quarantined: Vec<Quarantined>,
    ops: Vec<OpRow>,
    faults: Vec<String>,
}

#[derive(Serialize)]
struct DeviceRow {
    device: String,
    name: String,
    arch: String,
    cores: u32,
    memory_bytes: u64,
    caches_bytes: [usize; 3],
    warp_width: u32,
    driver: String,
}

/// A driver that is linked and has no device.
#[derive(Serialize)]
struct Absent {
    kind: &'static str,
    why: String,
    fix: Option<String>,
    fault: bool,
}

#[derive(Serialize)]
struct CrateRow {
    name: &'static str,
    version: &'static str,
    backends: Vec<&'static str>,
    kernels: usize,
    driver: String,
}

#[derive(Serialize)]
struct Quarantined {
    kernel: String,
    device: String,
    why: String,
}

/// What decides about kernels from outside; drivers name what hides devices.
const VARIABLES: [&str; 4] =
    ["KERNELS_BACKEND", "KERNELS_POLICY", "KERNELS_QUARANTINE", "KERNELS_CPU_FEATURES"];

#[derive(Serialize)]
struct OpRow {
    device: String,
    op: &'static str,
    problem: String,
}

pub fn run(args: &Args) -> Outcome {
    let registry = match Registry::linked() {
        Ok(registry) => registry,
        Err(error) => {
            if args.json {
                output::json(&Diagnosis { integrity: error.to_string(), ..Diagnosis::default() })?;
            }
            return Err(error.into());
        }
    };
    let diagnosis = diagnose(registry, &args.require)?;
    match args.json {
        true => output::json(&diagnosis)?,
        false => output::print(&text(&diagnosis))?,
    }
    if diagnosis.faults.is_empty() { Ok(()) } else { Err(Failure::Verdict) }
}

fn diagnose(registry: &Registry, require: &[String]) -> Result<Diagnosis, Failure> {
    let mut d = Diagnosis { integrity: "ok".into(), ..Diagnosis::default() };
    let mut live: Vec<Device> = Vec::new();
    for (driver, answer) in registry.devices() {
        match answer {
            Ok([]) => d.absent.push(Absent {
                kind: driver.kind().0,
                why: "the driver sees no device".into(),
                fix: None,
                fault: false,
            }),
            Ok(devices) => {
                live.extend(devices);
                for (id, reason) in driver.failures() {
                    d.faults.push(format!("{id}: {reason}"));
                }
            }
            Err(reason) => {
                // No hardware or no driver package is a fact about the machine; a driver that is there and
                // cannot be used is a fault.
                let fault = matches!(reason, Reason::DriverTooOld { .. });
                let (why, fix) = (reason.to_string(), reason.fix());
                if fault {
                    d.faults.push(format!("{}: {why}", driver.kind()));
                }
                d.absent.push(Absent { kind: driver.kind().0, why, fix, fault });
            }
        }
    }
    for device in &live {
        let p = device.platform();
        d.devices.push(DeviceRow {
            device: p.id.to_string(),
            name: p.name.clone(),
            arch: p.arch.to_string(),
            cores: p.cores,
            memory_bytes: p.memory,
            caches_bytes: p.caches,
            warp_width: p.warp_width,
            driver: p.driver_version.clone(),
        });
        for op in registry.ops() {
            let decision = registry.explain(op.name, p, None, None)?;
            if decision.chosen.is_none() {
                d.ops.push(OpRow { device: p.id.to_string(), op: op.name, problem: problem(&decision) });
            }
        }
    }
    d.crates = registry
        .manifests()
        .iter()
        .map(|m| CrateRow {
            name: m.package,
            version: m.version,
            backends: m.backends.iter().map(|b| b.0).collect(),
            kernels: registry.specs().filter(|s| std::ptr::eq(s.manifest, *m)).count(),
            driver: format!("{} ({})", m.driver.kind(), m.driver.name()),
        })
        .collect();
    let hiding = registry.drivers().into_iter().flat_map(|driver| driver.visibility().iter().copied());
    d.environment =
        VARIABLES.into_iter().chain(hiding).filter_map(|v| Some((v, std::env::var(v).ok()?))).collect();
    let row = |q: Quarantine| Quarantined { kernel: q.kernel, device: q.device.to_string(), why: q.detail };
    d.quarantined = registry.quarantined().into_iter().map(row).collect();
    d.features_off = registry.features_off().iter().map(|f| f.0).collect();
    for op in require {
        let errors: Vec<_> = live
            .iter()
            .map(|dev| Selector::new(registry, *dev).require(&[op]))
            .filter_map(Result::err)
            .collect();
        if errors.len() == live.len() {
            d.faults.extend(errors.iter().map(|e| format!("required: {e}")));
        }
    }
    Ok(d)
}

/// Why nothing can run, from the kernels that are for this kind of device.
fn problem(decision: &Decision) -> String {
    let kind = decision.device.kind;
    let mine = decision.candidates.iter().filter(|c| c.spec.kinds().contains(&kind));
    let all: Vec<_> = mine.map(|c| format!("{}: {}", c.spec.id(), c.why())).collect();
    match all.is_empty() {
        true => format!("no linked crate has a kernel for {kind} devices"),
        false => all.join("\n"),
    }
}

fn text(d: &Diagnosis) -> String {
    let mut out = vec![format!("link integrity: {}", d.integrity), "devices:".into()];
    let mib = |b: u64| format!("{} MiB", b >> 20);
    for x in &d.devices {
        let caches: Vec<_> =
            x.caches_bytes.iter().filter(|c| **c > 0).map(|c| format!("{} KiB", c >> 10)).collect();
        let caches =
            if caches.is_empty() { String::new() } else { format!(", caches {}", caches.join(" / ")) };
        out.push(format!("  {:8} {}, {} cores, {}{caches}", x.device, x.name, x.cores, mib(x.memory_bytes)));
        out.push(format!("           {}, driver {}", x.arch, x.driver));
    }
    for a in &d.absent {
        out.push(format!("  {:8} {}: {}", a.kind, if a.fault { "fault" } else { "none" }, a.why));
        out.extend(a.fix.iter().map(|f| format!("           fix: {f}")));
    }
    out.push("linked crates:".into());
    for c in &d.crates {
        let brings = match c.kernels {
            0 => "no kernels yet".to_string(),
            n => format!("{n} kernels ({})", c.backends.join(", ")),
        };
        out.push(format!("  {} {}: {brings}, driver {}", c.name, c.version, c.driver));
    }
    let off = if d.features_off.is_empty() { "none".into() } else { d.features_off.join(", ") };
    out.push(format!("features off: {off}"));
    if !d.environment.is_empty() {
        out.push("environment:".into());
        out.extend(d.environment.iter().map(|(name, value)| format!("  {name}={value}")));
    }
    if !d.quarantined.is_empty() {
        out.push("in quarantine:".into());
        out.extend(d.quarantined.iter().map(|q| format!("  {} on {}: {}", q.kernel, q.device, q.why)));
    }
    if d.ops.is_empty() {
        out.push("ops: every op has a usable kernel on every device".into());
    } else {
        out.push("ops without a usable kernel:".into());
        // Ops of one device and one problem are one entry.
        let mut left: Vec<&OpRow> = d.ops.iter().collect();
        while let Some(first) = left.first().copied() {
            let same = |o: &&OpRow| o.device == first.device && o.problem == first.problem;
            let ops: Vec<_> = left.iter().copied().filter(same).map(|o| o.op).collect();
            left.retain(|o| !same(o));
            out.push(format!("  on {}: {}", first.device, ops.join(", ")));
            out.push(format!("    {}", first.problem.replace('\n', "\n    ")));
        }
    }
    for f in &d.faults {
        out.push(format!("fault: {f}"));
    }
    out.push(if d.faults.is_empty() { "healthy".into() } else { format!("{} faults", d.faults.len()) });
    out.join("\n")
}
