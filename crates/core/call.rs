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
use crate::spec::{KernelSpec, Key};
use crate::trace;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts changes of the process's policy. In a slot it takes 20 bits; at their end it stays, and calls
/// resolve anew each time rather than trust a stale slot.
static EPOCH: AtomicU64 = AtomicU64::new(1);
const EPOCH_END: u64 = (1 << 20) - 1;

pub(crate) fn bump_epoch() {
    let _ = EPOCH.fetch_update(Ordering::AcqRel, Ordering::Acquire, |e| (e < EPOCH_END).then_some(e + 1));
}

/// An op's decisions: `epoch << 44 | device slot << 38 | key << 12 | kernel` in each slot, addressed by a
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

/// Device slot and key in 32 bits.
#[inline]
pub(crate) fn place(device: Device, key: Key) -> u64 {
    u64::from(device.slot()) << 26 | key.pack()
}

/// A slot that holds another decision or none, and what it should hold.
struct Slot<'s> {
    slot: &'s AtomicU64,
    want: u64,
    epoch: u64,
}

/// The decision for a place, where it was made in this epoch.
#[inline]
fn cached<O: Op>(place: u64) -> Result<&'static Kernel<O>, Slot<'static>> {
    let state = O::state();
    let epoch = EPOCH.load(Ordering::Acquire);
    let want = epoch << 44 | place << KERNEL_BITS;
    let slot = &state.slots[(place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize];
    let have = slot.load(Ordering::Acquire);
    match state.table.get() {
        Some(table) if have >> KERNEL_BITS == want >> KERNEL_BITS => {
            Ok(table[(have & ((1 << KERNEL_BITS) - 1)) as usize])
        }
        _ => Err(Slot { slot, want, epoch }),
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
        match cached::<O>(place(device, key)) {
            Ok(kernel) => Ok(Selected { kernel, device, key: Some(key), level: Level::Default }),
            Err(slot) => Self::resolve(device, key, None, Some(slot)),
        }
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
        slot: Option<Slot<'_>>,
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
                        fix: "keep the object file with the registration: no stripped constructor section"
                            .into(),
                    }
                    .into());
                }
                let typed: Option<Vec<_>> =
                    record.kernels.iter().map(|k| k.as_any().downcast_ref()).collect();
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
        if let Some(Slot { slot, want, epoch }) = slot
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
        match checked.empty {
            true => Ok(()),
            // SAFETY: the selection proves that the requirements hold on this device, and the arguments are of
            // this device and class.
            false => unsafe { run(self.kernel, checked, self.level) },
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
}

/// Runs a kernel on the arguments' device.
///
/// # Safety
/// The kernel's requirements hold on that device, and it takes calls of this class. The rest is the promise
/// of whoever registered it.
#[inline]
unsafe fn run<O: Op>(kernel: &'static Kernel<O>, checked: &mut Checked<'_, O>, level: Level) -> Result<()> {
    // SAFETY: passed on.
    unsafe {
        if trace::recording() || !kernel.plain {
            return run_with_extras(kernel, checked, level);
        }
        run_in(kernel, &Ctx::bare(checked.device), checked)
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
    if kernel.is_reference && level == Level::Default {
        kernel.fallbacks.fetch_add(1, Ordering::Relaxed);
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
        match cached::<O>(self.place) {
            // SAFETY: a slot is filled only by a selection for this device and class.
            Ok(kernel) => unsafe { run(kernel, self, Level::Default) },
            Err(slot) => Selected::<O>::resolve(self.device, self.key, None, Some(slot))?.call(self),
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
