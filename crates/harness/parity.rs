//! Parity: every usable kernel against the reference, over all cases of its contract.

use crate::Filter;
use kernels_core::{AnyKernel, Backend, Device, Registry, Result};
use kernels_ops::{AnyCase, contracts, judge};
use serde::Serialize;
use std::collections::BTreeMap;

/// One case that a kernel got wrong.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The case.
    pub case: String,
    /// What went wrong.
    pub detail: String,
}

/// How one kernel did.
#[derive(Clone, Debug, Serialize)]
pub struct KernelReport {
    /// Kernel id.
    pub kernel: String,
    /// Op.
    pub op: &'static str,
    /// Backend.
    pub backend: &'static str,
    /// Device it ran on.
    pub device: String,
    /// Cases that it ran.
    pub cases: usize,
    /// Cases of classes that its spec does not take.
    pub not_served: usize,
    /// Worst distance from the reference, in units of the tolerance.
    pub worst: f64,
    /// Where that was.
    pub worst_at: String,
    /// Cases that it got wrong.
    pub failures: Vec<Failure>,
}

/// How all of them did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// One for each kernel that a live device can run.
    pub kernels: Vec<KernelReport>,
    /// Kernels that no live device can run, with the reasons.
    pub unusable: Vec<(String, String)>,
}

impl Report {
    /// Cases that ran, by backend.
    pub fn runs(&self) -> BTreeMap<&'static str, usize> {
        let mut runs = BTreeMap::new();
        self.kernels.iter().for_each(|k| *runs.entry(k.backend).or_default() += k.cases);
        runs
    }

    /// Whether no kernel failed, and every backend of `required` ran at least one case.
    ///
    /// # Errors
    /// Every failure, in words.
    pub fn verdict(&self, required: &[Backend]) -> std::result::Result<(), String> {
        let mut wrong = Vec::new();
        for k in &self.kernels {
            for f in &k.failures {
                wrong.push(format!("{} on {}: {}: {}", k.kernel, k.device, f.case, f.detail));
            }
        }
        let runs = self.runs();
        for backend in required {
            if runs.get(backend.0).is_none_or(|n| *n == 0) {
                let why = self.unusable.iter().find(|(id, _)| id.starts_with(backend.0));
                let why = why
                    .map_or("no kernel of it is registered".to_string(), |(id, why)| format!("{id}: {why}"));
                wrong.push(format!("backend \"{backend}\" was asked for and ran no case ({why})"));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }
}

/// Runs every kernel that `filter` lets through on every live device that it can run on. `progress` hears
/// (kernels done, kernels in all, id of the next).
///
/// # Errors
/// The registry does not hold together.
pub fn parity(filter: &Filter, mut progress: impl FnMut(usize, usize, &str)) -> Result<Report> {
    let registry = Registry::linked()?;
    let kernels = filter.kernels(registry);
    let devices = filter.devices(registry);
    let contracts = contracts();
    let mut report = Report::default();
    let mut cases: (&str, Vec<Box<dyn AnyCase>>) = ("", Vec::new());
    for (done, kernel) in kernels.iter().enumerate() {
        let spec = kernel.spec();
        progress(done, kernels.len(), &spec.id());
        if cases.0 != spec.op {
            let contract = contracts.iter().find(|c| c.op() == spec.op);
            cases = (spec.op, contract.map(|c| c.cases()).unwrap_or_default());
        }
        let mut reasons = Vec::new();
        let mut ran = false;
        for device in &devices {
            match unusable_on(registry, *kernel, *device)? {
                Some(why) => reasons.push(format!("{}: {why}", device.id())),
                None => {
                    ran = true;
                    report.kernels.push(one(*kernel, *device, &cases.1));
                }
            }
        }
        if !ran {
            report.unusable.push((spec.id(), reasons.join("; ")));
        }
    }
    progress(kernels.len(), kernels.len(), "");
    Ok(report)
}

/// Why `kernel` cannot run on `device`; `None` where it can, whether or not it would be chosen.
///
/// # Errors
/// The registry does not know its op.
pub fn unusable_on(
    registry: &Registry,
    kernel: &'static dyn AnyKernel,
    device: Device,
) -> Result<Option<String>> {
    let decision = registry.explain(kernel.spec().op, device.platform(), None, None)?;
    let mine = decision.candidates.iter().find(|c| std::ptr::eq(c.spec, kernel.spec()));
    let reasons = mine.map(|c| {
        let reasons = c.reasons.iter().filter(|r| !r.is_a_choice());
        reasons.map(|r| r.to_string()).collect::<Vec<_>>().join(", ")
    });
    Ok(reasons.filter(|r| !r.is_empty()))
}

fn one(kernel: &'static dyn AnyKernel, device: Device, cases: &[Box<dyn AnyCase>]) -> KernelReport {
    let spec = kernel.spec();
    let mut report = KernelReport {
        kernel: spec.id(),
        op: spec.op,
        backend: spec.backend.0,
        device: device.id().to_string(),
        cases: 0,
        not_served: 0,
        worst: 0.0,
        worst_at: String::new(),
        failures: Vec::new(),
    };
    for case in cases {
        let Some(judgement) = judge(&**case, kernel, device) else {
            report.not_served += 1;
            continue;
        };
        report.cases += usize::from(judgement.ran);
        if judgement.worst > report.worst {
            (report.worst, report.worst_at) = (judgement.worst, format!("{}: {}", case.name(), judgement.at));
        }
        let fail = |detail| Failure { case: case.name().into(), detail };
        report.failures.extend(judgement.wrong.map(fail));
    }
    if report.cases == 0 {
        let detail = "no case of its op's contract is of a class that its spec takes".into();
        report.failures.push(Failure { case: "(none)".into(), detail });
    }
    report
}

/// For tests: parity of all linked kernels of `backends`, each of which must run at least one case.
///
/// # Panics
/// With every failure in words.
pub fn assert_parity(backends: &[Backend]) {
    for backend in backends {
        let filter = Filter { backend: Some(*backend), ..Filter::default() };
        let report = parity(&filter, |_, _, _| {}).unwrap_or_else(|e| panic!("{e}"));
        report.verdict(&[*backend]).unwrap_or_else(|e| panic!("{e}"));
    }
}
