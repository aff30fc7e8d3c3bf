//! What a kernel gets besides its arguments.

use crate::device::Device;
use crate::error::DriverError;
use std::cell::RefCell;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// A queue of work on a device, in its driver's terms; 0 is the driver's own, and the only one of a CPU, where
/// calls return when the work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(pub usize);

/// The context of one kernel call.
pub struct Ctx {
    /// The device of the arguments.
    pub device: Device,
    /// Where to queue the work.
    pub stream: Stream,
    /// How many host threads the kernel may use.
    pub threads: usize,
    workspace: *mut u8,
    workspace_bytes: usize,
    fault: Fault,
}

// SAFETY: the workspace belongs to the call; what a kernel hands its threads are disjoint parts of it.
unsafe impl Sync for Ctx {}

/// The error word: an index that a kernel read from a tensor and found out of range.
#[derive(Default)]
struct Fault {
    set: AtomicU32,
    value: AtomicI64,
    limit: AtomicI64,
}

/// The limit that marks a fault as a row of NaN; no dimension is that large.
pub(crate) const NAN_ROW: i64 = i64::MAX;

impl Ctx {
    /// A context without scratch memory, to call a kernel's function by hand.
    #[inline]
    pub fn bare(device: Device) -> Ctx {
        Ctx::new(device, (std::ptr::null_mut(), 0))
    }

    #[inline]
    pub(crate) fn new(device: Device, workspace: (*mut u8, usize)) -> Ctx {
        Ctx {
            device,
            stream: device.stream(),
            threads: device.threads(),
            workspace: workspace.0,
            workspace_bytes: workspace.1,
            fault: Fault::default(),
        }
    }

    /// Scratch memory of at least the size that the kernel's spec asked for, 64-byte aligned, with
    /// unspecified contents. It is the call's own.
    pub fn workspace(&self) -> (*mut u8, usize) {
        (self.workspace, self.workspace_bytes)
    }

    /// Reports an index read from a tensor that is not in `0..limit`; the first report is kept. The
    /// kernel skips that element and goes on; the caller gets `CallError::OutOfRange`.
    #[cold]
    pub fn out_of_range(&self, value: i64, limit: usize) {
        if self.fault.set.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.fault.value.store(value, Ordering::Relaxed);
            self.fault.limit.store(limit as i64, Ordering::Relaxed);
        }
    }

    /// Reports a row whose values are not numbers where the op needs numbers; as [`Ctx::out_of_range`],
    /// the caller gets `CallError::NotANumber`.
    #[cold]
    pub fn not_a_number(&self, row: usize) {
        self.out_of_range(row as i64, NAN_ROW as usize);
    }

    /// `(value, limit)` of the first bad index, if there was one.
    #[inline]
    pub(crate) fn fault(&self) -> Option<(i64, i64)> {
        (self.fault.set.load(Ordering::Relaxed) != 0)
            .then(|| (self.fault.value.load(Ordering::Relaxed), self.fault.limit.load(Ordering::Relaxed)))
    }
}

/// A thread's scratch memory on one device; it only grows, so that a steady state allocates nothing.
struct Scratch {
    device: Device,
    ptr: *mut u8,
    bytes: usize,
    lent: bool,
    /// Recorded work uses it: it outlives this value.
    kept: bool,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // SAFETY: allocated below by the same driver with this size.
        unsafe { self.device.driver().free(self.device.id().index, self.ptr, self.bytes) }
    }
}

thread_local! {
    static SCRATCH: RefCell<Vec<Scratch>> = const { RefCell::new(Vec::new()) };
}

/// Never frees the scratch memory that this thread has on `device`, because recorded work will use it again. It is used
/// on; what outgrows it is new.
pub(crate) fn keep_workspaces(device: Device) {
    SCRATCH.with_borrow_mut(|all| all.iter_mut().filter(|s| s.device == device).for_each(|s| s.kept = true));
}

/// Runs `f` with `bytes` of scratch memory of this thread on `device`.
pub(crate) fn with_workspace<R>(
    device: Device,
    bytes: usize,
    f: impl FnOnce((*mut u8, usize)) -> R,
) -> Result<R, DriverError> {
    let (at, workspace) = SCRATCH.with_borrow_mut(|all| {
        // An op inside an op (a kernel that calls another) finds the first one lent, and takes a second.
        let at = match all.iter().position(|s| s.device == device && !s.lent) {
            Some(at) => at,
            None => {
                let ptr = device.driver().alloc(device.id().index, 0, false)?;
                all.push(Scratch { device, ptr, bytes: 0, lent: false, kept: false });
                all.len() - 1
            }
        };
        if all[at].bytes < bytes {
            let grown = bytes.checked_next_power_of_two();
            let bytes = grown.ok_or_else(|| "more scratch memory than an address can reach".to_string())?;
            let ptr = device.driver().alloc(device.id().index, bytes, false)?;
            all[at] = Scratch { device, ptr, bytes, lent: false, kept: false };
        }
        all[at].lent = true;
        Ok::<_, DriverError>((at, (all[at].ptr, all[at].bytes)))
    })?;
    /// Gives the scratch back also when the kernel panics.
    struct Return(usize);
    impl Drop for Return {
        fn drop(&mut self) {
            SCRATCH.with_borrow_mut(|all| all[self.0].lent = false);
        }
    }
    let _return = Return(at);
    Ok(f(workspace))
}
