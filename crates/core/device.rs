//! Live devices, and the driver seam that a backend crate implements.

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

    /// `bytes` of device memory, 64-byte aligned; a dangling pointer for 0.
    ///
    /// # Errors
    /// In words, when there is none left.
    fn alloc(&self, device: u32, bytes: usize, zeroed: bool) -> Result<*mut u8, String>;

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
    /// In the driver's words.
    unsafe fn upload(&self, device: u32, dst: *mut u8, src: &[u8]) -> Result<(), String>;

    /// Device to host, after all work queued on the device.
    ///
    /// # Safety
    /// `src` is valid on the device for `dst.len()` initialised bytes.
    ///
    /// # Errors
    /// In the driver's words, including those of earlier asynchronous work.
    unsafe fn download(&self, device: u32, dst: &mut [u8], src: *const u8) -> Result<(), String>;

    /// Waits for all work queued on the device.
    ///
    /// # Errors
    /// Those of earlier asynchronous work.
    fn synchronize(&self, device: u32) -> Result<(), String>;
}

/// A live device: the proof that its driver saw it.
#[derive(Clone, Copy)]
pub struct Device(&'static DeviceInner);

struct DeviceInner {
    platform: Platform,
    driver: &'static dyn Driver,
    slot: u8,
    threads: AtomicUsize,
}

/// Devices beyond this many share no fast slot, and are resolved anew at each call.
pub(crate) const DEVICE_SLOTS: u8 = 63;

impl Device {
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
                        Device(Box::leak(Box::new(DeviceInner { platform, driver, slot, threads })))
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
        self.0.driver.synchronize(self.id().index).map_err(|detail| {
            crate::error::RunError::LaunchFailed { kernel: "(queued work)".into(), device: self.id(), detail }
                .into()
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

    #[inline]
    pub(crate) fn slot(&self) -> u8 {
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
