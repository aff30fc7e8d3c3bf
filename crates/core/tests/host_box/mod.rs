//! Devices that are not there, whose memory is the host's.

use kernels_core::*;

/// A driver that answers `probe` with what it is told to.
pub struct HostBox<F> {
    pub kind: DeviceKind,
    pub name: &'static str,
    pub probe: F,
}

/// A device with nothing but its architecture.
pub fn platform(kind: DeviceKind, index: u32, arch: Arch) -> Platform {
    let id = DeviceId { kind, index };
    Platform { id, arch, ..Platform::described("portable").unwrap() }
}

// SAFETY: memory is the host driver's; kernels of these tests need nothing of the device.
unsafe impl<F: Fn() -> Result<Vec<Platform>, Reason> + Send + Sync> Driver for HostBox<F> {
    fn kind(&self) -> DeviceKind {
        self.kind
    }
    fn name(&self) -> &'static str {
        self.name
    }
    fn probe(&self) -> Result<Vec<Platform>, Reason> {
        (self.probe)()
    }
    fn alloc(&self, _: u32, bytes: usize, zeroed: bool) -> Result<*mut u8, DriverError> {
        HOST.alloc(0, bytes, zeroed)
    }
    unsafe fn free(&self, _: u32, ptr: *mut u8, bytes: usize) {
        // SAFETY: passed on.
        unsafe { HOST.free(0, ptr, bytes) }
    }
    unsafe fn upload(&self, _: u32, dst: *mut u8, src: &[u8]) -> Result<(), DriverError> {
        // SAFETY: passed on.
        unsafe { HOST.upload(0, dst, src) }
    }
    unsafe fn download(&self, _: u32, dst: &mut [u8], src: *const u8) -> Result<(), DriverError> {
        // SAFETY: passed on.
        unsafe { HOST.download(0, dst, src) }
    }
    fn synchronize(&self, _: u32) -> Result<(), DriverError> {
        Ok(())
    }
}
