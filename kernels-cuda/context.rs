//! What this process holds of a device: its primary context, its stream, its report, its staging memory.

use crate::staging::Staging;
use crate::words::{is_sticky, words};
use cudarc::driver::{result, sys};
use kernels_core::{DriverError, Stream};
use kernels_gpu::Report;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// More devices than a machine has.
const MOST: usize = 64;

/// A device in use. Made at its first use, kept for the process.
pub(crate) struct Context {
    context: sys::CUcontext,
    /// The driver's own stream.
    own: sys::CUstream,
    current: AtomicUsize,
    /// Whether memory is freed in stream order.
    pub pools: bool,
    report: *const Report,
    report_on_device: u64,
    staging: Mutex<Staging>,
}

// SAFETY: CUDA's handles may be used from any thread; the report is made of atomics.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Of a device.
    ///
    /// # Errors
    /// In the driver's words.
    #[inline]
    pub fn of(ordinal: u32) -> Result<&'static Context, String> {
        static ALL: [OnceLock<Result<Context, String>>; MOST] = [const { OnceLock::new() }; MOST];
        let slot = ALL.get(ordinal as usize).ok_or("more devices than this driver serves")?;
        slot.get_or_init(|| Context::new(ordinal)).as_ref().map_err(String::clone)
    }

    fn new(ordinal: u32) -> Result<Context, String> {
        let device = result::device::get(ordinal as i32).map_err(words)?;
        // SAFETY: the device came from `get`; the primary context is never released; the report's memory neither.
        unsafe {
            let context = result::primary_ctx::retain(device).map_err(words)?;
            let _current = Current::set(context).map_err(words)?;
            let own = result::stream::create(result::stream::StreamKind::NonBlocking).map_err(words)?;
            let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
            let pools = result::device::get_attribute(device, attribute).map_err(words)? != 0;
            if pools {
                keep_freed_memory(device).map_err(words)?;
            }
            let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
            let report = result::malloc_host(size_of::<Report>(), flags).map_err(words)?.cast::<Report>();
            report.write(Report::default());
            let mut report_on_device = 0;
            sys::cuMemHostGetDevicePointer_v2(&mut report_on_device, report.cast(), 0)
                .result()
                .map_err(words)?;
            Ok(Context {
                context,
                own,
                current: AtomicUsize::new(own.addr()),
                pools,
                report,
                report_on_device,
                staging: Mutex::new(Staging::new()?),
            })
        }
    }

    /// Makes it this thread's.
    ///
    /// # Errors
    /// The driver's, also those of earlier work.
    #[inline]
    pub fn enter(&self) -> Result<Current, DriverError> {
        // SAFETY: the context is never released.
        unsafe { Current::set(self.context) }.map_err(|e| self.blame(e))
    }

    /// The driver's handle of a stream.
    #[inline]
    pub fn handle(&self, stream: Stream) -> sys::CUstream {
        match stream {
            Stream(0) => self.own,
            Stream(handle) => std::ptr::with_exposed_provenance_mut(handle),
        }
    }

    /// The current stream.
    #[inline]
    pub fn stream(&self) -> sys::CUstream {
        std::ptr::with_exposed_provenance_mut(self.current.load(Ordering::Acquire))
    }

    /// Makes another stream the current one, behind all that is queued on the one before.
    ///
    /// # Safety
    /// A live stream of this device; the context is current.
    ///
    /// # Errors
    /// In the driver's words.
    pub unsafe fn switch(&self, to: Stream) -> Result<(), String> {
        let (from, to) = (self.stream(), self.handle(to));
        if from == to {
            return Ok(());
        }
        // SAFETY: both streams are live.
        unsafe {
            let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(words)?;
            let queued = result::event::record(event, from).and_then(|()| {
                let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
                result::stream::wait_event(to, event, flags)
            });
            let _ = result::event::destroy(event);
            queued.map_err(words)?;
        }
        self.current.store(to.expose_provenance(), Ordering::Release);
        Ok(())
    }

    /// Where kernels report.
    #[inline]
    pub fn report_on_device(&self) -> u64 {
        self.report_on_device
    }

    /// Pinned memory for copies.
    pub fn staging(&self) -> MutexGuard<'_, Staging> {
        self.staging.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Waits for the current stream, and says what went wrong in it.
    ///
    /// # Errors
    /// Those of the work in it.
    pub fn wait(&self) -> Result<(), DriverError> {
        // SAFETY: the current stream is live.
        unsafe { result::stream::synchronize(self.stream()) }.map_err(|e| self.blame(e))?;
        self.report().take().map_or(Ok(()), Err)
    }

    /// An error, with the op that caused it where that is another than the caller.
    #[cold]
    pub fn blame(&self, error: result::DriverError) -> DriverError {
        match is_sticky(error) {
            true => DriverError::Queued {
                op: self.report().running(),
                detail: format!("{}; the device takes no more work from this process", words(error)),
            },
            false => DriverError::Words(words(error)),
        }
    }

    fn report(&self) -> &Report {
        // SAFETY: pinned memory that is never freed; only atomics are read.
        unsafe { &*self.report }
    }
}

/// Freed memory stays with the process: what is allocated next gets it without the system.
///
/// # Safety
/// `device` came from the driver.
unsafe fn keep_freed_memory(device: sys::CUdevice) -> Result<(), result::DriverError> {
    let mut pool = std::ptr::null_mut();
    let mut threshold = u64::MAX;
    let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: each call reads or writes one word of ours.
    unsafe {
        sys::cuDeviceGetDefaultMemPool(&mut pool, device).result()?;
        sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut threshold).cast()).result()
    }
}

/// A context that is current on this thread; what was there comes back in `Drop`, also on unwind.
pub(crate) struct Current(Option<Option<sys::CUcontext>>);

impl Current {
    /// # Safety
    /// The context is live, and stays so.
    unsafe fn set(context: sys::CUcontext) -> Result<Current, result::DriverError> {
        let before = result::ctx::get_current()?;
        if before == Some(context) {
            return Ok(Current(None));
        }
        // SAFETY: by contract.
        unsafe { result::ctx::set_current(context) }?;
        Ok(Current(Some(before)))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            // SAFETY: it was current on this thread.
            let _ = unsafe { result::ctx::set_current(before.unwrap_or(std::ptr::null_mut())) };
        }
    }
}
