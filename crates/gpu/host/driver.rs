//! The device seam over a vendor's driver.

use crate::host::context::Context;
use crate::host::vendor::Vendor;
use kernels_core::{DeviceId, DeviceKind, Driver, DriverError, Platform, Reason, Stream};
use std::marker::PhantomData;
use std::sync::Mutex;

/// What a vendor's crate offers at its root: `vendor! { pub static CUDA: Cuda }`.
#[macro_export]
macro_rules! vendor {
    (pub static $driver:ident: $vendor:ident) => {
        pub use $crate::warm_up;

        /// The driver, for manifests.
        pub static $driver: $crate::host::GpuDriver<$vendor> = $crate::host::GpuDriver::new();

        /// Recorded work.
        pub type Graph = $crate::host::Graph<$vendor>;

        /// Records what `calls` queue on `device` as a graph, instead of running it. Run them once before, so that every
        /// kernel is loaded: nothing may be loaded, allocated or waited for inside.
        ///
        /// # Errors
        /// What `calls` say, or the driver, where something inside cannot be recorded.
        pub fn capture(
            device: $crate::kernels_core::Device,
            calls: impl FnOnce() -> Result<(), $crate::kernels_core::Error>,
        ) -> Result<Graph, $crate::kernels_core::Error> {
            $crate::host::capture(device, calls)
        }
    };
}

/// A vendor's driver as the core takes it; see [`vendor!`](crate::vendor).
pub struct GpuDriver<V> {
    /// Devices that could not be described.
    failures: Mutex<Vec<(DeviceId, Reason)>>,
    vendor: PhantomData<V>,
}

impl<V> GpuDriver<V> {
    /// For a manifest.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> GpuDriver<V> {
        GpuDriver { failures: Mutex::new(Vec::new()), vendor: PhantomData }
    }
}

// SAFETY: `Vendor` promises what `probe` says and how memory is aligned.
unsafe impl<V: Vendor> Driver for GpuDriver<V> {
    fn kind(&self) -> DeviceKind {
        V::KIND
    }

    fn name(&self) -> &'static str {
        V::NAME
    }

    fn probe(&self) -> Result<Vec<Platform>, Reason> {
        let mut failures = self.failures.lock().unwrap_or_else(|e| e.into_inner());
        failures.clear();
        let mut found = Vec::new();
        for (index, answer) in (0..).zip(V::probe()?) {
            match answer {
                Ok(platform) => found.push(platform),
                Err(reason) => failures.push((DeviceId { kind: V::KIND, index }, reason)),
            }
        }
        match (found.is_empty(), failures.first()) {
            (true, Some((_, reason))) => Err(reason.clone()),
            _ => Ok(found),
        }
    }

    fn failures(&self) -> Vec<(DeviceId, Reason)> {
        self.failures.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    fn visibility(&self) -> &'static [&'static str] {
        V::VISIBILITY
    }

    fn alloc(&self, device: u32, bytes: usize, zeroed: bool) -> Result<*mut u8, DriverError> {
        if bytes == 0 {
            return Ok(std::ptr::without_provenance_mut(256));
        }
        let context = Context::<V>::of(device)?;
        let _current = context.enter()?;
        let refused = |e| match context.blame(e) {
            DriverError::Words(words) => DriverError::Words(format!("{bytes} bytes refused ({words})")),
            earlier => earlier,
        };
        // SAFETY: the size is not zero; the memory is written before it is read by `Tensor`'s contract.
        unsafe {
            let at = V::alloc(bytes, context.pool()).map_err(refused)?;
            if zeroed {
                V::zero(at, bytes, context.stream()).map_err(|e| context.blame(e))?;
            }
            Ok(std::ptr::with_exposed_provenance_mut(at as usize))
        }
    }

    unsafe fn free(&self, device: u32, ptr: *mut u8, bytes: usize) {
        if bytes > 0
            && let Ok(context) = Context::<V>::of(device)
            && let Ok(_current) = context.enter()
        {
            // SAFETY: by contract, allocated above. The order of the stream lets queued work finish first; without
            // pools the driver waits for the device. An error means that the context is gone, and the memory with it.
            let _ = unsafe { V::free(address(ptr), context.pool()) };
        }
    }

    unsafe fn upload(&self, device: u32, dst: *mut u8, src: &[u8]) -> Result<(), DriverError> {
        if src.is_empty() {
            return Ok(());
        }
        let context = Context::<V>::of(device)?;
        let _current = context.enter()?;
        // SAFETY: by contract.
        unsafe { context.staging().upload(address(dst), src, context.stream()) }.map_err(|e| context.blame(e))
    }

    unsafe fn download(&self, device: u32, dst: &mut [u8], src: *const u8) -> Result<(), DriverError> {
        if dst.is_empty() {
            return Ok(());
        }
        let context = Context::<V>::of(device)?;
        let _current = context.enter()?;
        // SAFETY: by contract.
        unsafe { context.staging().download(dst, address(src.cast_mut()), context.stream()) }
            .map_err(|e| context.blame(e))?;
        context.wait()
    }

    fn synchronize(&self, device: u32) -> Result<(), DriverError> {
        let context = Context::<V>::of(device)?;
        let _current = context.enter()?;
        context.wait()
    }

    unsafe fn switch_stream(&self, device: u32, to: Stream) -> Result<(), DriverError> {
        let context = Context::<V>::of(device)?;
        let _current = context.enter()?;
        // SAFETY: passed on.
        Ok(unsafe { context.switch(to) }?)
    }
}

fn address(ptr: *mut u8) -> u64 {
    ptr.expose_provenance() as u64
}
