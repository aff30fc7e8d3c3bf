//! The device seam over cudarc.

use crate::context::Context;
use crate::platform;
use cudarc::driver::{result, sys};
use kernels_core::{DeviceKind, Driver, DriverError, Platform, Reason, Stream};

/// The driver, for manifests.
pub static CUDA: Cuda = Cuda(());

/// The CUDA driver's type.
pub struct Cuda(());

// SAFETY: what `probe` says comes from the CUDA driver; its allocations are aligned to at least 256 bytes.
unsafe impl Driver for Cuda {
    fn kind(&self) -> DeviceKind {
        DeviceKind::CUDA
    }

    fn name(&self) -> &'static str {
        "cudarc"
    }

    fn probe(&self) -> Result<Vec<Platform>, Reason> {
        platform::probe()
    }

    fn alloc(&self, device: u32, bytes: usize, zeroed: bool) -> Result<*mut u8, DriverError> {
        if bytes == 0 {
            return Ok(std::ptr::without_provenance_mut(256));
        }
        let context = Context::of(device)?;
        let _current = context.enter()?;
        let refused = |e| match context.blame(e) {
            DriverError::Words(words) => DriverError::Words(format!("{bytes} bytes refused ({words})")),
            earlier => earlier,
        };
        // SAFETY: the size is not zero; the memory is written before it is read by `Tensor`'s contract.
        unsafe {
            let ptr = match context.pools {
                true => result::malloc_async(context.stream(), bytes),
                false => result::malloc_sync(bytes),
            }
            .map_err(refused)?;
            if zeroed {
                result::memset_d8_async(ptr, 0, bytes, context.stream()).map_err(|e| context.blame(e))?;
            }
            Ok(std::ptr::with_exposed_provenance_mut(ptr as usize))
        }
    }

    unsafe fn free(&self, device: u32, ptr: *mut u8, bytes: usize) {
        if bytes > 0
            && let Ok(context) = Context::of(device)
            && let Ok(_current) = context.enter()
        {
            // SAFETY: by contract, allocated above. The order of the stream lets queued work finish first; without
            // pools cuMemFree waits for the device. An error means that the context is gone, and the memory with it.
            let _ = unsafe {
                match context.pools {
                    true => result::free_async(address(ptr), context.stream()),
                    false => result::free_sync(address(ptr)),
                }
            };
        }
    }

    unsafe fn upload(&self, device: u32, dst: *mut u8, src: &[u8]) -> Result<(), DriverError> {
        if src.is_empty() {
            return Ok(());
        }
        let context = Context::of(device)?;
        let _current = context.enter()?;
        // SAFETY: by contract.
        unsafe { context.staging().upload(address(dst), src, context.stream()) }.map_err(|e| context.blame(e))
    }

    unsafe fn download(&self, device: u32, dst: &mut [u8], src: *const u8) -> Result<(), DriverError> {
        if dst.is_empty() {
            return Ok(());
        }
        let context = Context::of(device)?;
        let _current = context.enter()?;
        // SAFETY: by contract.
        unsafe { context.staging().download(dst, address(src.cast_mut()), context.stream()) }
            .map_err(|e| context.blame(e))?;
        context.wait()
    }

    fn synchronize(&self, device: u32) -> Result<(), DriverError> {
        let context = Context::of(device)?;
        let _current = context.enter()?;
        context.wait()
    }

    unsafe fn switch_stream(&self, device: u32, to: Stream) -> Result<(), DriverError> {
        let context = Context::of(device)?;
        let _current = context.enter()?;
        // SAFETY: passed on.
        Ok(unsafe { context.switch(to) }?)
    }
}

fn address(ptr: *mut u8) -> sys::CUdeviceptr {
    ptr.expose_provenance() as sys::CUdeviceptr
}
