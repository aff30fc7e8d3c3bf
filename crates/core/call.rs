//! The call path: from checked arguments to the kernel's function. No lock, no hash, no allocation.

use crate::atomic::{AtomicU64, Ordering};
use crate::ctx::{Ctx, with_workspace};
use crate::decide::usable;
use crate::device::{DEVICE_SLOTS, Device};
use crate::error::{BuildError, CallError, Error, Result, RunError};
use crate::names::Backend;
use crate::op::{Checked, Kernel, Op, is_reference};
use crate::policy::Level;
use crate::registry::{MAX_KERNELS_OF_OP, Registry};
use crate::settings::Allowed;
use crate::slot::{self, Now};
use crate::spec::{KernelSpec, Key};
use crate::{metrics, scope, select, self_test, trace};
use std::sync::OnceLock;

/// Counts changes of what selections go by, and in the process the open scopes and who listens to calls (recorders, and
/// the counting of calls).
pub(crate) static CLOCK: AtomicU64 = AtomicU64::new(1);

/// An op's decisions, addressed by a hash of device and key; see `slot`.
pub struct OpState<O: Op> {
    slots: [AtomicU64; slot::COUNT],
    table: OnceLock<Box<[&'static Kernel<O>]>>,
}

impl<O: Op> OpState<O> {
    /// Nothing decided yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        OpState { slots: [const { AtomicU64::new(0) }; slot::COUNT], table: OnceLock::new() }
    }
}

/// Device slot and key in 32 bits.
#[inline]
pub(crate) fn place(device: Device, key: Key) -> u64 {
    u64::from(device.slot()) << 26 | key.pack()
}

/// The decision for a place that was made in this epoch. A thread's scope is looked at first, and neither reads nor
/// fills what all threads share.
#[inline]
fn cached<O: Op>(place: u64, now: Now) -> Option<(&'static Kernel<O>, Level)> {
    let state = O::state();
    if now.scopes() && scope::here() {
        return None;
    }
    let at = slot::look(&state.slots[slot::index(place)], now, place)?;
    // The process's policy or rank: nobody else fills slots.
    let level = if at & ASKED == 0 { Level::Default } else { Level::Process };
    Some((state.table.get()?[at & !ASKED], level))
}

/// In a slot, beside the kernel's index: the process's policy asks for it.
const ASKED: usize = MAX_KERNELS_OF_OP;

/// A kernel that can run calls of a class on a live device: the proof that its requirements hold there.
/// Only this calls a kernel.
pub struct Selected<O: Op> {
    kernel: &'static Kernel<O>,
    device: Device,
    key: Option<Key>,
    level: Level,
    asked: Asked,
}

/// How a selection was made, for when what it went by has changed.
#[derive(Clone, Copy)]
enum Asked {
    /// By rank, in this epoch; 0 in a scope.
    Ranked(u64),
    /// By name, in this epoch.
    Named(Backend, u64),
    /// Out of a registry, once and for all.
    Fixed,
}

impl<O: Op> Selected<O> {
    /// A selection that stays what it is.
    pub(crate) fn fixed(kernel: &'static Kernel<O>, device: Device, key: Option<Key>, level: Level) -> Self {
        Selected { kernel, device, key, level, asked: Asked::Fixed }
    }

    /// The ranked choice among what was linked, as typed calls make it. It follows overrides: after one changed, and
    /// in a scope, its calls run what would be chosen then.
    ///
    /// # Errors
    /// No usable kernel, with every candidate's reason; or what was linked does not hold together.
    #[inline]
    pub fn ranked(device: Device, key: Key) -> Result<Selected<O>> {
        let now = Now::of(&CLOCK);
        match cached::<O>(place(device, key), now) {
            Some((kernel, level)) => {
                let (key, asked) = (Some(key), Asked::Ranked(now.epoch()));
                Ok(Selected { kernel, device, key, level, asked })
            }
            None => Self::resolve(device, key, None),
        }
    }

    /// The best variant of `backend`, as a call that names it makes it; never another backend. A kernel that is
    /// quarantined later is no longer run.
    ///
    /// # Errors
    /// The backend cannot serve this call.
    pub fn named(device: Device, key: Key, backend: Backend) -> Result<Selected<O>> {
        Self::resolve(device, key, Some(backend))
    }

    #[cold]
    fn resolve(device: Device, key: Key, call: Option<Backend>) -> Result<Selected<O>> {
        let registry = Registry::linked()?;
        // After the registry, whose first use reads the environment and so begins an epoch; before what decides.
        let now = Now::of(&CLOCK);
        let (state, place) = (O::state(), place(device, key));
        let table = Self::table(registry)?;
        let scoped = scope::here();
        // Devices beyond the slots share a place, so nothing is kept for them.
        let keeps = call.is_none() && device.slot() < DEVICE_SLOTS;
        let address = std::ptr::from_ref(state).addr();
        let known = if scoped && keeps { scope::decided(address, place, now) } else { None };
        let (at, level) = match known {
            Some(known) => known,
            None => Self::decide(registry, table, device, key, call)?,
        };
        let asked = match (call, scoped) {
            (Some(backend), _) => Asked::Named(backend, now.epoch()),
            (None, true) => Asked::Ranked(0),
            (None, false) => Asked::Ranked(now.epoch()),
        };
        match (keeps, scoped) {
            (false, _) => {}
            (true, true) => scope::keep(address, place, now, at, level),
            (true, false) => {
                let flag = if level == Level::Default { 0 } else { ASKED };
                slot::fill(&state.slots[slot::index(place)], now, place, at | flag);
            }
        }
        Ok(Selected { kernel: table[at], device, key: Some(key), level, asked })
    }

    fn decide(
        registry: &Registry,
        table: &[&'static Kernel<O>],
        device: Device,
        key: Key,
        call: Option<Backend>,
    ) -> Result<(usize, Level)> {
        let record = registry.record(O::NAME)?;
        loop {
            let ruling = registry.ruling();
            let (at, level) = select::ranked(registry, record, device.platform(), Some(&key), &ruling, call)?;
            let kernel = table[at];
            // One that fails is quarantined, and not found again.
            if ruling.settings.policy.self_test && !self_test::passes(registry, kernel, device) {
                continue;
            }
            tracing::debug!(op = O::NAME, %key, device = %device.id(), kernel = kernel.spec.id(), %level, "kernel selected");
            if kernel.is_reference
                && level == Level::Default
                && metrics::first_time(format!("{} {} {key}", O::NAME, device.id()))
            {
                tracing::warn!(op = O::NAME, %key, device = %device.id(), "no better kernel than the reference is usable");
            }
            return Ok((at, level));
        }
    }

    /// The op's kernels with their type.
    fn table(registry: &Registry) -> Result<&'static [&'static Kernel<O>]> {
        if let Some(table) = O::state().table.get() {
            return Ok(table);
        }
        let record = registry.record(O::NAME)?;
        if !record.kernels.iter().any(|k| is_reference(k.spec().backend)) {
            return Err(BuildError::BackendNotLinked {
                package: record.info.origin.package.into(),
                detail: format!("op \"{}\" is without its reference kernel", O::NAME),
                fix: "keep the object file with the registration: no stripped constructor section".into(),
            }
            .into());
        }
        let typed: Option<Vec<_>> = record.kernels.iter().map(|k| k.as_any().downcast_ref()).collect();
        let typed = typed.ok_or_else(|| BuildError::InvalidSpec {
            id: O::NAME.into(),
            origin: record.info.origin.to_string(),
            detail: "a kernel of this name has another op's type".into(),
        })?;
        Ok(O::state().table.get_or_init(|| typed.into()))
    }

    /// The kernel's spec.
    pub fn spec(&self) -> &'static KernelSpec {
        &self.kernel.spec
    }

    /// Runs the kernel. The arguments must be of this selection's device and class.
    ///
    /// # Errors
    /// Arguments of another device or class, an index in a tensor that is out of range, or the kernel's
    /// own failure; none of them makes another kernel run.
    #[inline]
    pub fn call(&self, checked: &mut Checked<'_, O>) -> Result<()> {
        if checked.device != self.device || self.key != Some(checked.key) {
            self.admit(checked)?;
        }
        let now = Now::of(&CLOCK);
        match checked.empty {
            true => Ok(()),
            false if self.is_old(now) => self.renewed(checked, now),
            // SAFETY: the selection proves that the requirements hold on this device, and the arguments are of
            // this device and class.
            false => unsafe { run(self.kernel, checked, self.level, now) },
        }
    }

    #[inline]
    fn is_old(&self, now: Now) -> bool {
        match self.asked {
            Asked::Fixed => false,
            Asked::Named(_, epoch) => !now.is_still(epoch),
            Asked::Ranked(epoch) => !now.is_still(epoch) || (now.scopes() && scope::here()),
        }
    }

    /// The call by what holds now.
    #[cold]
    fn renewed(&self, checked: &mut Checked<'_, O>, now: Now) -> Result<()> {
        match self.asked {
            Asked::Named(backend, _) => {
                let new = Self::resolve(self.device, checked.key, Some(backend))?;
                // SAFETY: a selection of this moment, for this device and class.
                unsafe { run(new.kernel, checked, new.level, now) }
            }
            _ => checked.run(),
        }
    }

    /// A selection without a class (by name) takes every class that its kernel takes.
    #[cold]
    fn admit(&self, checked: &Checked<'_, O>) -> Result<()> {
        let ok = checked.device == self.device
            && self.key.is_none()
            && usable(&self.kernel.spec, self.device.platform(), Some(&checked.key), &Allowed::ANY);
        if ok {
            return Ok(());
        }
        let class = self.key.map_or_else(|| "what it takes".to_string(), |k| k.to_string());
        Err(CallError::WrongSelection {
            kernel: self.kernel.spec.id(),
            selected: format!("{class} on {}", self.device.id()),
            given: format!("{} on {}", checked.key, checked.device.id()),
        }
        .into())
    }
}

/// Runs a kernel on the arguments' device.
///
/// # Safety
/// The kernel's requirements hold on that device, and it takes calls of this class. The rest is the promise
/// of whoever registered it.
#[inline]
unsafe fn run<O: Op>(
    kernel: &'static Kernel<O>,
    checked: &mut Checked<'_, O>,
    level: Level,
    now: Now,
) -> Result<()> {
    // SAFETY: passed on.
    unsafe {
        match now.quiet() && kernel.plain {
            true => run_in(kernel, &Ctx::bare(checked.device), checked),
            false => run_with_extras(kernel, checked, level),
        }
    }
}

/// The same, where a recorder listens, or the kernel wants scratch memory or is to be counted.
///
/// # Safety
/// As for [`run`].
#[inline(never)]
unsafe fn run_with_extras<O: Op>(
    kernel: &'static Kernel<O>,
    checked: &Checked<'_, O>,
    level: Level,
) -> Result<()> {
    let device = checked.device;
    if trace::recording() {
        trace::record(kernel, device, checked, level);
    }
    if metrics::counting() {
        kernel.counters.calls.fetch_add(1, Ordering::Relaxed);
    }
    if kernel.is_reference && level == Level::Default {
        kernel.counters.fallbacks.fetch_add(1, Ordering::Relaxed);
    }
    let Some(bytes) = kernel.workspace else {
        // SAFETY: passed on.
        return unsafe { run_in(kernel, &Ctx::bare(device), checked) };
    };
    let bytes = O::workspace(bytes, &checked.args, device.threads());
    // SAFETY: passed on.
    with_workspace(device, bytes, |w| unsafe { run_in(kernel, &Ctx::new(device, w), checked) })
        .map_err(|e| e.on(device.id(), |detail| RunError::OutOfMemory { device: device.id(), detail }))?
}

/// # Safety
/// As for [`run`].
#[inline]
unsafe fn run_in<O: Op>(kernel: &'static Kernel<O>, ctx: &Ctx, checked: &Checked<'_, O>) -> Result<()> {
    // SAFETY: passed on.
    unsafe { O::invoke(kernel.run, ctx, &checked.args)? };
    match ctx.fault() {
        None => Ok(()),
        Some((value, limit)) => Err(CallError::fault(O::NAME, checked.device.id(), value, limit).into()),
    }
}

impl<O: Op> Checked<'_, O> {
    /// Runs the op on the best kernel for its arguments.
    ///
    /// # Errors
    /// No usable kernel, or the kernel's failure.
    #[inline]
    pub fn run(&mut self) -> Result<()> {
        if self.empty {
            return Ok(());
        }
        let now = Now::of(&CLOCK);
        match cached::<O>(self.place, now) {
            // SAFETY: a slot is filled only by a selection for this device and class.
            Some((kernel, level)) => unsafe { run(kernel, self, level, now) },
            None => {
                let new = Selected::<O>::resolve(self.device, self.key, None)?;
                // SAFETY: as above.
                unsafe { run(new.kernel, self, new.level, now) }
            }
        }
    }

    /// Runs the op on `backend`, or not at all.
    ///
    /// # Errors
    /// The backend cannot serve this call, or the kernel's failure.
    pub fn run_on(&mut self, backend: Backend) -> Result<()> {
        Selected::<O>::named(self.device, self.key, backend)?.call(self)
    }
}

impl<O: Op> Kernel<O> {
    /// For a harness that goes through all kernels: this kernel as a selection for `checked`, if it can
    /// serve it at all.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn for_call(&'static self, checked: &Checked<'_, O>) -> Result<Selected<O>> {
        match usable(&self.spec, checked.device.platform(), Some(&checked.key), &Allowed::ANY) {
            true => Ok(Selected::fixed(self, checked.device, Some(checked.key), Level::Call)),
            false => Err(Error::Call(CallError::WrongSelection {
                kernel: self.spec.id(),
                selected: "what its spec takes".into(),
                given: format!("{} on {}", checked.key, checked.device.id()),
            })),
        }
    }
}
