//! The selector: registry and device to one kernel, or an error with every candidate's reason.

use crate::call::Selected;
use crate::decide::{self, Decision, usable};
use crate::device::Device;
use crate::error::{ConfigError, Error, Result, SelectError};
use crate::names::Backend;
use crate::op::{AnyKernel, Op, is_reference};
use crate::packed::Packed;
use crate::platform::Platform;
use crate::policy::{Level, Mode};
use crate::reason::Reason;
use crate::registry::{OpRecord, Registry};
use crate::settings::{Allowed, Ruling};
use crate::spec::{KernelSpec, Key};
use crate::view::View;

/// Selects for one live device, out of one registry.
#[derive(Clone, Copy)]
pub struct Selector<'r> {
    registry: &'r Registry,
    device: Device,
}

/// A kernel that can run on a device: the strict pair's answer.
#[derive(Clone, Copy)]
pub struct AnySelected {
    kernel: &'static dyn AnyKernel,
    device: Device,
    level: Level,
}

impl AnySelected {
    /// The kernel's spec.
    pub fn spec(&self) -> &'static KernelSpec {
        // A `&'static dyn` lends its spec for as long.
        self.kernel.spec()
    }

    /// Where it would run.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Who decided.
    pub fn level(&self) -> Level {
        self.level
    }

    /// With the op's type, to be called; `None` where `O` is another op.
    pub fn typed<O: Op>(&self) -> Option<Selected<O>> {
        Some(Selected::fixed(self.kernel.as_any().downcast_ref()?, self.device, None, self.level))
    }
}

impl<'r> Selector<'r> {
    /// A selector for `device`.
    pub fn new(registry: &'r Registry, device: Device) -> Selector<'r> {
        Selector { registry, device }
    }

    /// The one usable backend for `op`; its best variant.
    ///
    /// # Errors
    /// Several usable backends, or none. `reference` counts only when named.
    pub fn select(&self, op: &str) -> Result<AnySelected> {
        let record = self.registry.record(op)?;
        let ruling = self.registry.ruling();
        let platform = self.device.platform();
        if let Some((at, level)) = pinned(self.registry, record, platform, None, &ruling, None)? {
            return Ok(AnySelected { kernel: record.kernels[at], device: self.device, level });
        }
        let allowed = ruling.allowed();
        let mut found: Option<&'static dyn AnyKernel> = None;
        for kernel in record.kernels.iter().copied() {
            let spec = kernel.spec();
            if is_reference(spec.backend) || !usable(spec, platform, None, &allowed) {
                continue;
            }
            match found {
                None => found = Some(kernel),
                Some(best) if best.spec().backend == spec.backend => {}
                Some(_) => return Err(self.ambiguous(record, &allowed).into()),
            }
        }
        match found {
            Some(kernel) => Ok(AnySelected { kernel, device: self.device, level: Level::Default }),
            None => {
                let mut decision = decision(record, platform, None, &allowed);
                for c in &mut decision.candidates {
                    if is_reference(c.spec.backend) && c.reasons.is_empty() {
                        c.reasons.push(Reason::ReferenceNotNamed);
                    }
                }
                Err(none_usable(self.registry, record, decision).into())
            }
        }
    }

    /// The best variant of `backend` for `op`; never another backend.
    ///
    /// # Errors
    /// The backend is unknown, has no kernel for the op, or cannot run here.
    pub fn select_backend(&self, op: &str, backend: Backend) -> Result<AnySelected> {
        let record = self.registry.record(op)?;
        let ruling = self.registry.ruling();
        let allowed = ruling.allowed().named();
        let at = named(self.registry, record, self.device.platform(), None, &allowed, backend, Level::Call)?;
        Ok(AnySelected { kernel: record.kernels[at], device: self.device, level: Level::Call })
    }

    /// The ranked choice for calls of class `key`, as typed calls make it, out of this registry. Those go through
    /// [`Registry::linked`] and keep their decisions; this is for a registry of one's own. `None` where the kernel
    /// is another op's.
    ///
    /// # Errors
    /// An unknown op, or no usable kernel.
    pub fn ranked<O: Op>(&self, key: Key) -> Result<Option<Selected<O>>> {
        let record = self.registry.record(O::NAME)?;
        let ruling = self.registry.ruling();
        let (at, level) = ranked(self.registry, record, self.device.platform(), Some(&key), &ruling, None)?;
        let kernel = record.kernels[at].as_any().downcast_ref();
        Ok(kernel.map(|k| Selected::fixed(k, self.device, Some(key), level)))
    }

    /// What a ranked call would run and why; the same code decides.
    ///
    /// # Errors
    /// An unknown op.
    pub fn explain(&self, op: &str, key: Option<&Key>, call: Option<Backend>) -> Result<Decision> {
        self.registry.explain(op, self.device.platform(), key, call)
    }

    /// Puts a weight into the own layout of the kernel that calls of class `key` would run, ahead of those
    /// calls. `None` where that kernel takes the weight as it is.
    ///
    /// # Errors
    /// No usable kernel, or no memory.
    pub fn prepack(&self, op: &str, key: &Key, weight: &View<'_>) -> Result<Option<Packed>> {
        let record = self.registry.record(op)?;
        let ruling = self.registry.ruling();
        let (at, _) = ranked(self.registry, record, self.device.platform(), Some(key), &ruling, None)?;
        if weight.device() != self.device {
            let detail = format!(
                "prepack: the weight is on {}, and the kernel runs on {}",
                weight.device().id(),
                self.device.id()
            );
            return Err(ConfigError::Invalid { name: "weight", detail }.into());
        }
        // SAFETY: the selection proves that the kernel's requirements hold on this device.
        unsafe { Packed::of(record.kernels[at].spec(), self.device, weight) }
    }

    /// Start-up check: every op of `ops` has a usable kernel here for some call.
    ///
    /// # Errors
    /// One error that lists each op without, why, and the fix.
    pub fn require(&self, ops: &[&str]) -> Result<()> {
        let ruling = self.registry.ruling();
        let check = |op: &&str| -> Result<()> {
            let record = self.registry.record(op)?;
            ranked(self.registry, record, self.device.platform(), None, &ruling, None)?;
            Ok(())
        };
        let errors: Vec<Error> = ops.iter().filter_map(|op| check(op).err()).collect();
        match errors.is_empty() {
            true => Ok(()),
            false => Err(SelectError::Required { device: self.device.id(), errors }.into()),
        }
    }

    fn ambiguous(&self, record: &OpRecord, allowed: &Allowed<'_>) -> SelectError {
        let specs = record.kernels.iter().map(|k| k.spec());
        let able =
            specs.filter(|s| !is_reference(s.backend) && usable(s, self.device.platform(), None, allowed));
        let mut backends: Vec<_> = able.map(|s| s.backend).collect();
        backends.sort();
        backends.dedup();
        SelectError::Ambiguous { op: record.info.name.into(), device: self.device.id(), usable: backends }
    }
}

impl Registry {
    /// What a ranked call on `platform`, live or described, would run and why; the same code decides.
    /// Without a key, for calls of any class.
    ///
    /// # Errors
    /// An unknown op, or an unknown backend at the call.
    pub fn explain(
        &self,
        op: &str,
        platform: &Platform,
        key: Option<&Key>,
        call: Option<Backend>,
    ) -> Result<Decision> {
        let record = self.record(op)?;
        let ruling = self.ruling().asking();
        let mut decision = decision(record, platform, key, &ruling.allowed());
        match ranked(self, record, platform, key, &ruling, call) {
            Ok((at, level)) => {
                decision.level = level;
                let chosen = record.kernels[at].spec();
                let preferred = ruling.rule(op).filter(|_| level == Level::Default);
                decision.missed = preferred.map(|(rule, whose)| (rule.backend, whose));
                decision.chosen = decision.candidates.iter().position(|c| std::ptr::eq(c.spec, chosen));
                // A reference that the policy forbids, and that somebody named.
                decision.chosen.into_iter().for_each(|at| decision.candidates[at].reasons.clear());
            }
            Err(Error::Select(SelectError::PinnedUnusable { level, backend, .. })) => {
                decision.level = level;
                decision.fix.push(format!("{level} asks for \"{backend}\"; ask for another, or for none"));
            }
            Err(Error::Select(SelectError::NoneUsable { decision: full })) => decision.fix = full.fix,
            Err(Error::Select(SelectError::NoKernelRegistered { features_off, .. })) => {
                decision.fix.push(crate::error::enable(&features_off));
            }
            Err(Error::Select(SelectError::PolicyForbids { .. })) => {}
            Err(other) => return Err(other),
        }
        Ok(decision)
    }
}

/// The ranked choice: index into the op's kernels, and who decided.
pub(crate) fn ranked(
    registry: &Registry,
    record: &OpRecord,
    platform: &Platform,
    key: Option<&Key>,
    ruling: &Ruling,
    call: Option<Backend>,
) -> Result<(usize, Level)> {
    if let Some(found) = pinned(registry, record, platform, key, ruling, call)? {
        return Ok(found);
    }
    let allowed = ruling.allowed();
    match record.kernels.iter().position(|k| usable(k.spec(), platform, key, &allowed)) {
        Some(at) => Ok((at, Level::Default)),
        None => Err(none_usable(registry, record, decision(record, platform, key, &allowed)).into()),
    }
}

/// What the call or a rule pins, if anything does.
fn pinned(
    registry: &Registry,
    record: &OpRecord,
    platform: &Platform,
    key: Option<&Key>,
    ruling: &Ruling,
    call: Option<Backend>,
) -> Result<Option<(usize, Level)>> {
    let (backend, level, mode) = match call {
        Some(backend) => (backend, Level::Call, Mode::Strict),
        None => match ruling.rule(record.info.name) {
            Some((rule, level)) => (rule.backend, level, rule.mode),
            None => return Ok(None),
        },
    };
    let allowed = ruling.allowed().named();
    match named(registry, record, platform, key, &allowed, backend, level) {
        Ok(at) => Ok(Some((at, level))),
        Err(error) if mode == Mode::Prefer => {
            if !ruling.asking {
                missed(record, platform, backend, &error);
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// A preference that cannot be met is counted, and logged the first time.
#[cold]
fn missed(record: &OpRecord, platform: &Platform, backend: Backend, error: &Error) {
    record.kernels.iter().filter(|k| k.spec().backend == backend).for_each(|k| k.count_miss());
    let (op, device) = (record.info.name, platform.id);
    if crate::metrics::first_time(format!("{op} {device} {backend} {error}")) {
        tracing::warn!(op, %device, backend = backend.0, %error, "the preferred backend cannot serve this");
    }
}

fn named(
    registry: &Registry,
    record: &OpRecord,
    platform: &Platform,
    key: Option<&Key>,
    allowed: &Allowed<'_>,
    backend: Backend,
    level: Level,
) -> Result<usize> {
    let mine = |k: &&'static dyn AnyKernel| k.spec().backend == backend;
    let found = record.kernels.iter().position(|k| mine(k) && usable(k.spec(), platform, key, allowed));
    if let Some(at) = found {
        return Ok(at);
    }
    registry.check_backend(backend)?;
    let mut decision = decision(record, platform, key, allowed);
    if !record.kernels.iter().any(mine) {
        let (op, registered) = (record.info.name.into(), decision.backends());
        let features_off = registry.features_off_names();
        return Err(SelectError::BackendNotRegistered { op, backend, registered, features_off }.into());
    }
    decision.candidates.retain(|c| c.spec.backend == backend);
    decision.level = level;
    Err(SelectError::PinnedUnusable { backend, level, decision: Box::new(decision) }.into())
}

fn decision(record: &OpRecord, platform: &Platform, key: Option<&Key>, allowed: &Allowed<'_>) -> Decision {
    Decision {
        op: record.info.name,
        device: platform.id,
        arch: platform.arch.to_string(),
        key: key.copied(),
        level: Level::Default,
        missed: None,
        candidates: decide::candidates(&record.kernels, platform, key, allowed),
        chosen: None,
        fix: Vec::new(),
    }
}

fn none_usable(registry: &Registry, record: &OpRecord, mut decision: Decision) -> SelectError {
    let features_off = registry.features_off_names();
    if decision.candidates.is_empty() {
        return SelectError::NoKernelRegistered { op: record.info.name.into(), features_off };
    }
    let only_policy = |c: &decide::Candidate| {
        let policy = |r: &Reason| r.is_a_choice() && !matches!(r, Reason::Quarantined { .. });
        !c.reasons.is_empty() && c.reasons.iter().all(policy)
    };
    if decision.candidates.iter().any(only_policy) {
        return SelectError::PolicyForbids { decision: Box::new(decision) };
    }
    decision.fix.extend(crate::error::feature_for(decision.device.kind, &registry.features_off()));
    SelectError::NoneUsable { decision: Box::new(decision) }
}
