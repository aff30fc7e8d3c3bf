//! Ops and kernels as types: an op's arguments, checked arguments, and the kernel with its function.

use crate::call::OpState;
use crate::ctx::Ctx;
use crate::device::Device;
use crate::error::{CallError, Error, RunError};
use crate::layout::Layout;
use crate::metrics::{Counters, Counts};
use crate::names::Backend;
use crate::spec::{KernelSpec, Key, Origin};
use std::any::Any;
use std::sync::atomic::Ordering;

/// A logical operator with one contract. Implemented by [`crate::op!`].
pub trait Op: Sized + Send + Sync + 'static {
    /// `"<group>.<name>"`.
    const NAME: &'static str;
    /// Its arguments.
    type Args<'a>: Send + Sync;

    /// Checks arguments, and says what selection depends on.
    ///
    /// # Errors
    /// The first argument that does not fit, and how to mend it.
    fn validate(args: &Self::Args<'_>) -> Result<Valid, CallError>;

    /// Shows each tensor: name, element type, layout, device.
    fn tensors(args: &Self::Args<'_>, see: &mut dyn FnMut(&'static str, crate::DType, &Layout, Device));

    /// A kernel function of this op: `unsafe fn(&Ctx, &Args<'_>) -> Result<(), RunError>`. Unsafe: it runs only
    /// on a device that meets its spec's requirements, on checked arguments of that device.
    type Run: Copy + Send + Sync;

    /// How much scratch memory a call takes: `fn(&Args<'_>, threads) -> bytes`.
    type Workspace: Copy + Send + Sync;

    /// Calls a kernel function.
    ///
    /// # Safety
    /// The device meets the kernel's requirements, and the arguments are checked and of that device.
    ///
    /// # Errors
    /// The kernel's own.
    unsafe fn invoke(run: Self::Run, ctx: &Ctx, args: &Self::Args<'_>) -> Result<(), RunError>;

    /// Calls a workspace function.
    fn workspace(of: Self::Workspace, args: &Self::Args<'_>, threads: usize) -> usize;

    /// The op's selection cache, one static for each op.
    fn state() -> &'static OpState<Self>;
}

/// What checking arguments found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Valid {
    /// What selection may depend on.
    pub key: Key,
    /// There is nothing to do (zero tokens): the call returns at once.
    pub empty: bool,
}

/// Arguments that fit the op's contract, all on one device: the only ones that a kernel gets.
pub struct Checked<'a, O: Op> {
    pub(crate) args: O::Args<'a>,
    pub(crate) key: Key,
    pub(crate) device: Device,
    pub(crate) empty: bool,
    /// Device and key as the selection's slots address them.
    pub(crate) place: u64,
}

impl<'a, O: Op> Checked<'a, O> {
    /// Parses arguments, once.
    ///
    /// # Errors
    /// The first argument that does not fit, or two devices in one call.
    pub fn new(args: O::Args<'a>) -> Result<Self, Error> {
        let mut device = None;
        let mut mixed = None;
        O::tensors(&args, &mut |name, _, _, d| match device {
            None => device = Some((name, d)),
            Some((first, known)) if known != d => mixed = Some((first, known, name, d)),
            Some(_) => {}
        });
        if let Some((first, known, name, other)) = mixed {
            return Err(CallError::DeviceMismatch {
                op: O::NAME,
                first,
                device: known.id(),
                second: name,
                other: other.id(),
            }
            .into());
        }
        let Valid { key, empty } = O::validate(&args)?;
        let device = device.map_or_else(Device::cpu, |(_, d)| d);
        Ok(Checked { args, key, device, empty, place: crate::call::place(device, key) })
    }

    /// What [`Checked::run`] would run and why, of all that was linked; the same code decides.
    ///
    /// # Errors
    /// What was linked does not hold together.
    pub fn explain(&self) -> Result<crate::Decision, Error> {
        crate::Registry::linked()?.explain(O::NAME, self.device.platform(), Some(&self.key), None)
    }

    /// What selection depends on.
    pub fn key(&self) -> Key {
        self.key
    }

    /// The device of the arguments.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The arguments.
    pub fn args(&self) -> &O::Args<'a> {
        &self.args
    }
}

/// A spec and its typed function.
pub struct Kernel<O: Op> {
    pub(crate) spec: KernelSpec,
    pub(crate) run: O::Run,
    pub(crate) workspace: Option<O::Workspace>,
    /// Whether a ranked call that lands here fell back for want of anything better.
    pub(crate) is_reference: bool,
    pub(crate) counters: Counters,
    /// Nothing to do around the call: no scratch memory, no counting.
    pub(crate) plain: bool,
}

impl<O: Op> Kernel<O> {
    /// Used by [`crate::kernel!`].
    ///
    /// # Safety
    /// On every device that meets the spec's requirements, `run` is sound for every [`Checked`] argument
    /// of op `O`: it executes no instruction that they do not cover, it writes all of each output and
    /// reads none of it before, and it stays within the tensors whatever indices they hold.
    pub const unsafe fn new(spec: KernelSpec, run: O::Run, workspace: Option<O::Workspace>) -> Self {
        let is_reference = matches!(spec.backend.0.as_bytes(), b"reference");
        let plain = workspace.is_none() && !is_reference;
        Kernel { spec, run, workspace, is_reference, counters: Counters::new(), plain }
    }
}

/// A kernel without its type, as the registry keeps it.
pub trait AnyKernel: Send + Sync {
    /// Its spec.
    fn spec(&self) -> &KernelSpec;
    /// To get its type back.
    fn as_any(&'static self) -> &'static dyn Any;
    /// What it did so far in this process.
    fn counts(&self) -> Counts;
    /// A selection preferred it and could not have it.
    #[doc(hidden)]
    fn count_miss(&self);
}

impl<O: Op> AnyKernel for Kernel<O> {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn as_any(&'static self) -> &'static dyn Any {
        self
    }

    fn counts(&self) -> Counts {
        self.counters.read()
    }

    fn count_miss(&self) {
        self.counters.misses.fetch_add(1, Ordering::Relaxed);
    }
}

/// An op as the registry keeps it.
#[derive(Debug)]
pub struct OpInfo {
    /// `"<group>.<name>"`.
    pub name: &'static str,
    /// First line of its contract.
    pub summary: &'static str,
    /// Its tensors, in order.
    pub tensors: &'static [&'static str],
    /// Where it is declared.
    pub origin: Origin,
}

/// A kernel in the inventory.
pub struct KernelEntry(pub &'static dyn AnyKernel);
inventory::collect!(KernelEntry);

/// An op in the inventory.
pub struct OpEntry(pub &'static OpInfo);
inventory::collect!(OpEntry);

/// Whether `backend` is the contract's own implementation.
pub(crate) fn is_reference(backend: Backend) -> bool {
    backend == Backend::REFERENCE
}
