//! The selector: registry and device to one kernel, or an error with every candidate's reason.

use crate::call::Selected;
use crate::ctx::Ctx;
use crate::decide::{self, Decision, usable};
use crate::device::Device;
use crate::error::{Error, Result, SelectError};
use crate::names::Backend;
use crate::op::{AnyKernel, Op, is_reference};
use crate::packed::{Packed, PackedFor};
use crate::platform::Platform;
use crate::policy::{Level, Mode, Policy};
use crate::reason::Reason;
use crate::registry::{OpRecord, Registry};
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
        Some(Selected::new(self.kernel.as_any().downcast_ref()?, self.device, None, self.level))
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
        let policy = self.registry.policy.read().unwrap_or_else(|e| e.into_inner());
        let platform = self.device.platform();
        if let Some((at, level)) = pinned(self.registry, record, platform, None, &policy, None)? {
            return Ok(AnySelected { kernel: record.kernels[at], device: self.device, level });
        }
        let mut found: Option<&'static dyn AnyKernel> = None;
        for kernel in record.kernels.iter().copied() {
            let spec = kernel.spec();
            if is_reference(spec.backend) || !usable(spec, platform, None, &policy) {
                continue;
            }
            match found {
                None => found = Some(kernel),
                Some(best) if best.spec().backend == spec.backend => {}
                Some(_) => return Err(self.ambiguous(record, &policy).into()),
            }
        }
        match found {
            Some(kernel) => Ok(AnySelected { kernel, device: self.device, level: Level::Default }),
            None => {
                let mut decision = decision(record, platform, None, &policy);
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
        let policy = self.registry.policy();
        let at = named(self.registry, record, self.device.platform(), None, &policy, backend, Level::Call)?;
        Ok(AnySelected { kernel: record.kernels[at], device: self.device, level: Level::Call })
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
        let policy = self.registry.policy();
        let (at, _) = ranked(self.registry, record, self.device.platform(), Some(key), &policy, None)?;
        let spec = record.kernels[at].spec();
        let (Some(prepack), Some(owner)) = (spec.prepack, PackedFor::register(&spec.id())) else {
            return Ok(None);
        };
        // SAFETY: the selection proves that the kernel's requirements hold on this device.
        let data = unsafe { prepack(&Ctx::bare(self.device), weight)? };
        Ok(Some(Packed::new(data, weight.dtype(), *weight.layout(), owner)))
    }

    /// Start-up check: every op of `ops` has a usable kernel here for some call.
    ///
    /// # Errors
    /// One error that lists each op without, why, and the fix.
    pub fn require(&self, ops: &[&str]) -> Result<()> {
        let policy = self.registry.policy();
        let check = |op: &&str| -> Result<()> {
            let record = self.registry.record(op)?;
            ranked(self.registry, record, self.device.platform(), None, &policy, None)?;
            Ok(())
        };
        let errors: Vec<Error> = ops.iter().filter_map(|op| check(op).err()).collect();
        match errors.is_empty() {
            true => Ok(()),
            false => Err(SelectError::Required { device: self.device.id(), errors }.into()),
        }
    }

    fn ambiguous(&self, record: &OpRecord, policy: &Policy) -> SelectError {
        let specs = record.kernels.iter().map(|k| k.spec());
        let able =
            specs.filter(|s| !is_reference(s.backend) && usable(s, self.device.platform(), None, policy));
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
        let policy = self.policy();
        let mut decision = decision(record, platform, key, &policy);
        match ranked(self, record, platform, key, &policy, call) {
            Ok((at, level)) => {
                decision.level = level;
                let chosen = record.kernels[at].spec();
                decision.chosen = decision.candidates.iter().position(|c| std::ptr::eq(c.spec, chosen));
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
    policy: &Policy,
    call: Option<Backend>,
) -> Result<(usize, Level)> {
    if let Some(found) = pinned(registry, record, platform, key, policy, call)? {
        return Ok(found);
    }
    match record.kernels.iter().position(|k| usable(k.spec(), platform, key, policy)) {
        Some(at) => Ok((at, Level::Default)),
        None => Err(none_usable(registry, record, decision(record, platform, key, policy)).into()),
    }
}

/// What the call or a rule of the process pins, if anything does.
fn pinned(
    registry: &Registry,
    record: &OpRecord,
    platform: &Platform,
    key: Option<&Key>,
    policy: &Policy,
    call: Option<Backend>,
) -> Result<Option<(usize, Level)>> {
    if let Some(backend) = call {
        return Ok(Some((
            named(registry, record, platform, key, policy, backend, Level::Call)?,
            Level::Call,
        )));
    }
    let Some(rule) = policy.rule(record.info.name) else { return Ok(None) };
    match named(registry, record, platform, key, policy, rule.backend, Level::Process) {
        Ok(at) => Ok(Some((at, Level::Process))),
        Err(error) if rule.mode == Mode::Prefer => {
            tracing::info!(op = record.info.name, backend = rule.backend.0, %error, "preferred backend not usable");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn named(
    registry: &Registry,
    record: &OpRecord,
    platform: &Platform,
    key: Option<&Key>,
    policy: &Policy,
    backend: Backend,
    level: Level,
) -> Result<usize> {
    let mine = |k: &&'static dyn AnyKernel| k.spec().backend == backend;
    let found = record.kernels.iter().position(|k| mine(k) && usable(k.spec(), platform, key, policy));
    if let Some(at) = found {
        return Ok(at);
    }
    registry.check_backend(backend)?;
    if !record.kernels.iter().any(mine) {
        let registered = decision(record, platform, key, policy).backends();
        let (op, features_off) = (record.info.name.into(), registry.features_off_names());
        return Err(SelectError::BackendNotRegistered { op, backend, registered, features_off }.into());
    }
    let mut decision = decision(record, platform, key, policy);
    decision.candidates.retain(|c| c.spec.backend == backend);
    decision.level = level;
    Err(SelectError::PinnedUnusable { backend, level, decision: Box::new(decision) }.into())
}

fn decision(record: &OpRecord, platform: &Platform, key: Option<&Key>, policy: &Policy) -> Decision {
    Decision {
        op: record.info.name,
        device: platform.id,
        arch: platform.arch.to_string(),
        key: key.copied(),
        level: Level::Default,
        candidates: decide::candidates(&record.kernels, platform, key, policy),
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
        let policy = |r: &Reason| matches!(r, Reason::Experimental | Reason::NonDeterministic);
        !c.reasons.is_empty() && c.reasons.iter().all(policy)
    };
    if decision.candidates.iter().any(only_policy) {
        return SelectError::PolicyForbids { decision: Box::new(decision) };
    }
    decision.fix.extend(crate::error::feature_for(decision.device.kind, &registry.features_off()));
    SelectError::NoneUsable { decision: Box::new(decision) }
}
