//! Live devices, and the driver seam that a backend crate implements.

use crate::ctx::Stream;
use crate::error::{DriverError, RunError};
use crate::names::{DeviceId, DeviceKind};
use crate::platform::Platform;
use crate::reason::Reason;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// The device seam: enumerate, describe, allocate, copy, synchronise.
///
/// # Safety
/// What `probe` describes is true of the device (kernels run on that proof), and memory from `alloc` is
/// valid on that device until `free`, aligned to at least 64 bytes.
pub unsafe trait Driver: Send + Sync {
    /// The kind of device that it serves.
    fn kind(&self) -> DeviceKind;

    /// Its own name, unique within the kind: one driver of a name is probed once in a process.
    fn name(&self) -> &'static str;

    /// The devices that are there. Called when somebody first asks for a device, not before, so linking
    /// a driver loads no library.
    ///
    /// # Errors
    /// Why there can be none: a missing library, a driver too old.
    fn probe(&self) -> Result<Vec<Platform>, Reason>;

    /// Devices that are there and could not be described when `probe` looked; the others are in use without them.
    fn failures(&self) -> Vec<(DeviceId, Reason)> {
        Vec::new()
    }

    /// Environment variables that hide devices from it.
    fn visibility(&self) -> &'static [&'static str] {
        &[]
    }

    /// `bytes` of device memory, 64-byte aligned; a dangling pointer for 0.
    ///
    /// # Errors
    /// When there is none left, in words; or those of earlier asynchronous work.
    fn alloc(&self, device: u32, bytes: usize, zeroed: bool) -> Result<*mut u8, DriverError>;

    /// Gives memory back, in stream order.
    ///
    /// # Safety
    /// `ptr` came from `alloc` on this device with the same `bytes`, and is not used afterwards.
    unsafe fn free(&self, device: u32, ptr: *mut u8, bytes: usize);

    /// Host to device; returns when `src` may be reused.
    ///
    /// # Safety
    /// `dst` is valid on the device for `src.len()` bytes.
    ///
    /// # Errors
    /// The copy's, or those of earlier asynchronous work.
    unsafe fn upload(&self, device: u32, dst: *mut u8, src: &[u8]) -> Result<(), DriverError>;

    /// Device to host, after all work queued on the device.
    ///
    /// # Safety
    /// `src` is valid on the device for `dst.len()` initialised bytes.
    ///
    /// # Errors
    /// The copy's, or those of earlier asynchronous work.
    unsafe fn download(&self, device: u32, dst: &mut [u8], src: *const u8) -> Result<(), DriverError>;

    /// Waits for all work queued on the device.
    ///
    /// # Errors
    /// Those of earlier asynchronous work.
    fn synchronize(&self, device: u32) -> Result<(), DriverError>;

    /// Makes `to` the queue of the device's work from now on, behind all that is queued on the one before.
    /// `Stream(0)` is the driver's own.
    ///
    /// # Safety
    /// `to` is a live stream of the device, and stays alive while it is the current one.
    ///
    /// # Errors
    /// In the driver's words; that of a device with one queue refuses every other.
    unsafe fn switch_stream(&self, device: u32, to: Stream) -> Result<(), DriverError> {
        let _ = device;
        match to {
            Stream(0) => Ok(()),
            Stream(_) => Err(DriverError::Words("this kind of device has one queue".into())),
        }
    }
}

/// A live device: the proof that its driver saw it.
#[derive(Clone, Copy)]
pub struct Device(&'static DeviceInner);

// What a panic can leave changed is two words, each right by itself.
impl std::panic::UnwindSafe for Device {}
impl std::panic::RefUnwindSafe for Device {}

struct DeviceInner {
    platform: Platform,
    driver: &'static dyn Driver,
    slot: u8,
    threads: AtomicUsize,
    stream: AtomicUsize,
}

/// Devices beyond this many share no fast slot, and are resolved anew at each call.
pub(crate) const DEVICE_SLOTS: u8 = 63;

impl Device {
    /// How many devices have a slot of their own.
    pub const SLOTS: usize = DEVICE_SLOTS as usize;

    /// The host processor, which is always there.
    #[inline]
    pub fn cpu() -> Device {
        static CPU: OnceLock<Device> = OnceLock::new();
        *CPU.get_or_init(|| match Device::of_driver(&crate::host::HOST) {
            Ok(devices) => devices[0],
            Err(reason) => unreachable!("the host driver always answers: {reason}"),
        })
    }

    /// The devices of a driver, probed once in a process.
    ///
    /// # Errors
    /// Why the driver has none.
    pub fn of_driver(driver: &'static dyn Driver) -> Result<&'static [Device], &'static Reason> {
        type Probed = &'static Result<Vec<Device>, Reason>;
        static PROBED: Mutex<Vec<((DeviceKind, &'static str), Probed)>> = Mutex::new(Vec::new());
        static NEXT_SLOT: AtomicUsize = AtomicUsize::new(0);
        let mut probed = PROBED.lock().unwrap_or_else(|e| e.into_inner());
        let key = (driver.kind(), driver.name());
        let found = match probed.iter().find(|(k, _)| *k == key) {
            Some((_, found)) => *found,
            None => {
                let found: Probed = Box::leak(Box::new(driver.probe().map(|platforms| {
                    let live = |platform: Platform| {
                        let slot = NEXT_SLOT.fetch_add(1, Ordering::Relaxed).min(DEVICE_SLOTS as usize) as u8;
                        let threads = AtomicUsize::new(platform.cores.max(1) as usize);
                        let stream = AtomicUsize::new(0);
                        Device(Box::leak(Box::new(DeviceInner { platform, driver, slot, threads, stream })))
                    };
                    platforms.into_iter().map(live).collect()
                })));
                probed.push((key, found));
                found
            }
        };
        found.as_deref()
    }

    /// Which device.
    #[inline]
    pub fn id(&self) -> DeviceId {
        self.0.platform.id
    }

    /// What it can do.
    pub fn platform(&self) -> &'static Platform {
        &self.0.platform
    }

    /// Its driver.
    pub fn driver(&self) -> &'static dyn Driver {
        self.0.driver
    }

    /// Waits for all work queued on the device, and reports its errors.
    ///
    /// # Errors
    /// Those of earlier asynchronous work.
    pub fn synchronize(&self) -> Result<(), crate::Error> {
        self.0.driver.synchronize(self.id().index).map_err(|e| {
            e.on(self.id(), |detail| RunError::LaunchFailed {
                kernel: "(queued work)".into(),
                device: self.id(),
                detail,
            })
        })
    }

    /// How many host threads a kernel may use on this device (a CPU kernel splits its work over them).
    #[inline]
    pub fn threads(&self) -> usize {
        self.0.threads.load(Ordering::Relaxed)
    }

    /// Sets how many threads kernels may use, at least 1. The start value is the number of cores.
    pub fn set_threads(&self, threads: usize) {
        self.0.threads.store(threads.max(1), Ordering::Relaxed);
    }

    /// The queue that its work goes to.
    #[inline]
    pub fn stream(&self) -> Stream {
        Stream(self.0.stream.load(Ordering::Relaxed))
    }

    /// Makes `stream` (in its driver's terms) the queue of the device's work from now on, for the whole process.
    /// Work queued before comes first; `Stream(0)` goes back to the driver's own.
    ///
    /// # Safety
    /// `stream` is a live stream of this device, and stays alive while it is the current one.
    ///
    /// # Errors
    /// The device has one queue, or the driver refuses.
    pub unsafe fn set_stream(&self, stream: Stream) -> Result<(), crate::Error> {
        // SAFETY: passed on.
        unsafe { self.0.driver.switch_stream(self.id().index, stream) }
            .map_err(|e| e.on(self.id(), |detail| RunError::Stream { device: self.id(), detail }))?;
        self.0.stream.store(stream.0, Ordering::Relaxed);
        Ok(())
    }

    /// Never frees the scratch memory that kernels had on this thread so far: for a driver that records work and replays
    /// it.
    pub fn keep_workspaces(&self) {
        crate::ctx::keep_workspaces(*self);
    }

    /// A small number of its own in this process; devices from [`Device::SLOTS`] on share that one.
    #[inline]
    pub fn slot(&self) -> u8 {
        self.0.slot
    }
}

impl PartialEq for Device {
    #[inline]
    fn eq(&self, other: &Device) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Device {}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.id())
    }
}
