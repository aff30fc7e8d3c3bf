//! The call path: from checked arguments to the kernel's function. No lock, no hash, no allocation.

use crate::ctx::{Ctx, with_workspace};
use crate::decide::usable;
use crate::device::{DEVICE_SLOTS, Device};
use crate::error::{BuildError, CallError, Error, Result, RunError};
use crate::names::Backend;
use crate::op::{Checked, Kernel, Op, is_reference};
use crate::policy::Level;
use crate::registry::Registry;
use crate::select;
use crate::spec::{Key, KernelSpec};
use crate::trace;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts changes of the process's policy. In a slot it takes 24 bits; at their end it stays, and calls
/// resolve anew each time rather than trust a stale slot.
static EPOCH: AtomicU64 = AtomicU64::new(1);
const EPOCH_END: u64 = (1 << 24) - 1;

pub(crate) fn bump_epoch() {
    let _ = EPOCH.fetch_update(Ordering::AcqRel, Ordering::Acquire, |e| (e < EPOCH_END).then_some(e + 1));
}

/// An op's decisions: `epoch << 40 | device slot << 34 | key << 12 | kernel` in each slot, addressed by a
/// hash of device and key and compared exactly, so that one load decides.
pub struct OpState<O: Op> {
    slots: [AtomicU64; SLOTS],
    table: OnceLock<Box<[&'static Kernel<O>]>>,
}

const SLOTS: usize = 64;
const KERNEL_BITS: u64 = 12;

impl<O: Op> OpState<O> {
    /// Nothing decided yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        OpState { slots: [const { AtomicU64::new(0) }; SLOTS], table: OnceLock::new() }
    }
}

/// A kernel that can run calls of a class on a live device: the proof that its requirements hold there.
/// Only this calls a kernel.
pub struct Selected<O: Op> {
    kernel: &'static Kernel<O>,
    device: Device,
    key: Option<Key>,
    level: Level,
}

impl<O: Op> Selected<O> {
    pub(crate) fn new(kernel: &'static Kernel<O>, device: Device, key: Option<Key>, level: Level) -> Self {
        Selected { kernel, device, key, level }
    }

    /// The ranked choice among what was linked, as typed calls make it.
    ///
    /// # Errors
    /// No usable kernel, with every candidate's reason; or what was linked does not hold together.
    #[inline]
    pub fn ranked(device: Device, key: Key) -> Result<Selected<O>> {
        let state = O::state();
        let place = (device.slot() as u64) << 22 | key.pack();
        let epoch = EPOCH.load(Ordering::Acquire);
        let want = epoch << 40 | place << KERNEL_BITS;
        let slot = &state.slots[(place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize];
        let have = slot.load(Ordering::Acquire);
        if have >> KERNEL_BITS == want >> KERNEL_BITS
            && let Some(table) = state.table.get()
        {
            let kernel = table[(have & ((1 << KERNEL_BITS) - 1)) as usize];
            return Ok(Selected { kernel, device, key: Some(key), level: Level::Default });
        }
        Self::resolve(device, key, None, Some((slot, want, epoch)))
    }

    /// The best variant of `backend`, as a call that names it makes it; never another backend.
    ///
    /// # Errors
    /// The backend cannot serve this call.
    pub fn named(device: Device, key: Key, backend: Backend) -> Result<Selected<O>> {
        Self::resolve(device, key, Some(backend), None)
    }

    #[cold]
    fn resolve(
        device: Device,
        key: Key,
        call: Option<Backend>,
        slot: Option<(&AtomicU64, u64, u64)>,
    ) -> Result<Selected<O>> {
        let registry = Registry::linked()?;
        let record = registry.record(O::NAME)?;
        let table = match O::state().table.get() {
            Some(table) => table,
            None => {
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
                O::state().table.get_or_init(|| typed.into())
            }
        };
        let policy = registry.policy();
        let (at, level) = select::ranked(registry, record, device.platform(), Some(&key), &policy, call)?;
        let kernel = table[at];
        tracing::debug!(op = O::NAME, %key, device = %device.id(), kernel = kernel.spec.id(), %level, "kernel selected");
        if kernel.is_reference && level == Level::Default {
            tracing::warn!(op = O::NAME, %key, device = %device.id(), "no better kernel than the reference is usable");
        }
        // A slot says who decided only by what it can hold: the rank. Other levels resolve to the same
        // kernel until the epoch changes, so they may share it; traces ask again.
        if let Some((slot, want, epoch)) = slot
            && device.slot() < DEVICE_SLOTS
            && epoch < EPOCH_END
        {
            slot.store(want | at as u64, Ordering::Release);
        }
        Ok(Selected { kernel, device, key: Some(key), level })
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
        if checked.empty {
            return Ok(());
        }
        if trace::recording() {
            trace::record(self.kernel, self.device, checked, self.level);
        }
        if self.kernel.is_reference {
            self.count_fallback();
        }
        match self.kernel.workspace {
            None => self.run(&Ctx::new(self.device, (std::ptr::null_mut(), 0)), checked),
            Some(bytes) => {
                let bytes = O::workspace(bytes, &checked.args, self.device.threads());
                with_workspace(self.device, bytes, |w| self.run(&Ctx::new(self.device, w), checked))
                    .map_err(|detail| RunError::OutOfMemory { device: self.device.id(), detail })?
            }
        }
    }

    #[inline]
    fn run(&self, ctx: &Ctx, checked: &Checked<'_, O>) -> Result<()> {
        // SAFETY: the selection proves that the requirements hold on this device, and `checked` is of this
        // device and class; the rest is the promise of whoever registered the kernel.
        unsafe { O::invoke(self.kernel.run, ctx, &checked.args)? };
        match ctx.fault() {
            None => Ok(()),
            Some((row, crate::ctx::NAN_ROW)) => {
                Err(CallError::NotANumber { op: O::NAME, device: self.device.id(), row: row as usize }.into())
            }
            Some((value, limit)) => Err(CallError::OutOfRange {
                op: O::NAME,
                device: self.device.id(),
                what: "an index in a tensor",
                value: value.to_string(),
                range: format!("0..{limit}"),
            }
            .into()),
        }
    }

    /// A selection without a class (by name) takes every class that its kernel takes.
    #[cold]
    fn admit(&self, checked: &Checked<'_, O>) -> Result<()> {
        let policy = crate::Policy { experimental: true, ..Default::default() };
        let ok = checked.device == self.device
            && self.key.is_none()
            && usable(&self.kernel.spec, self.device.platform(), Some(&checked.key), &policy);
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

    #[cold]
    fn count_fallback(&self) {
        if self.level == Level::Default {
            self.kernel.fallbacks.fetch_add(1, Ordering::Relaxed);
        }
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
        Selected::<O>::ranked(self.device, self.key)?.call(self)
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
        let policy = crate::Policy { experimental: true, ..Default::default() };
        match usable(&self.spec, checked.device.platform(), Some(&checked.key), &policy) {
            true => Ok(Selected::new(self, checked.device, Some(checked.key), Level::Call)),
            false => Err(Error::Call(CallError::WrongSelection {
                kernel: self.spec.id(),
                selected: "what its spec takes".into(),
                given: format!("{} on {}", checked.key, checked.device.id()),
            })),
        }
    }
}
