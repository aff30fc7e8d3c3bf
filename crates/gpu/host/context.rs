//! What this process holds of a device: its context, its stream, its report, its staging memory.

use crate::host::staging::Staging;
use crate::host::vendor::{Failure, Handle, Outcome, Vendor};
use crate::report::Report;
use kernels_core::{DriverError, Stream};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// More devices than a machine has.
const MOST: usize = 64;

/// The devices of a vendor that are in use.
pub struct Contexts<V: Vendor>([OnceLock<Result<Context<V>, String>>; MOST]);

impl<V: Vendor> Contexts<V> {
    /// None yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Contexts<V> {
        Contexts([const { OnceLock::new() }; MOST])
    }
}

/// A device in use. Made at its first use, kept for the process.
pub struct Context<V: Vendor> {
    context: Handle,
    /// The driver's own stream.
    own: Handle,
    current: AtomicUsize,
    /// Whether memory is freed in stream order.
    pools: bool,
    report: *const Report,
    report_on_device: u64,
    staging: Mutex<Staging<V>>,
}

// SAFETY: a driver's handles may be used from any thread; the report is made of atomics.
unsafe impl<V: Vendor> Send for Context<V> {}
// SAFETY: as above.
unsafe impl<V: Vendor> Sync for Context<V> {}

impl<V: Vendor> Context<V> {
    /// Of a device.
    ///
    /// # Errors
    /// In the driver's words.
    #[inline]
    pub fn of(device: u32) -> Result<&'static Context<V>, String> {
        let slot = V::contexts().0.get(device as usize).ok_or("more devices than this driver serves")?;
        slot.get_or_init(|| Context::new(device)).as_ref().map_err(String::clone)
    }

    fn new(device: u32) -> Result<Context<V>, String> {
        let make = || -> Outcome<Context<V>, V> {
            // SAFETY: the context is current while the rest is made; none of it is ever given back.
            unsafe {
                let context = V::context(device)?;
                let _current = Current::<V>::set(context)?;
                let own = V::new_stream()?;
                let pools = V::keep_pools(device)?;
                let report = V::alloc_host(size_of::<Report>())?.cast::<Report>();
                report.write(Report::default());
                Ok(Context {
                    context,
                    own,
                    current: AtomicUsize::new(own.expose_provenance()),
                    pools,
                    report,
                    report_on_device: V::device_address(report.cast())?,
                    staging: Mutex::new(Staging::new()?),
                })
            }
        };
        make().map_err(Failure::words)
    }

    /// Makes it this thread's.
    ///
    /// # Errors
    /// The driver's, also those of earlier work.
    #[inline]
    pub fn enter(&self) -> Result<Current<V>, DriverError> {
        // SAFETY: the context lives as long as the process.
        unsafe { Current::set(self.context) }.map_err(|e| self.blame(e))
    }

    /// The driver's handle of a stream.
    #[inline]
    pub fn handle(&self, stream: Stream) -> Handle {
        match stream {
            Stream(0) => self.own,
            Stream(handle) => std::ptr::with_exposed_provenance_mut(handle),
        }
    }

    /// The current stream.
    #[inline]
    pub fn stream(&self) -> Handle {
        std::ptr::with_exposed_provenance_mut(self.current.load(Ordering::Acquire))
    }

    /// The current stream, for memory; `None` where the driver has no order for it.
    pub(crate) fn pool(&self) -> Option<Handle> {
        self.pools.then(|| self.stream())
    }

    /// Makes another stream the current one, behind all that is queued on the one before.
    ///
    /// # Safety
    /// A live stream of this device; the context is current.
    ///
    /// # Errors
    /// In the driver's words.
    pub(crate) unsafe fn switch(&self, to: Stream) -> Result<(), String> {
        let (from, to) = (self.stream(), self.handle(to));
        if from == to {
            return Ok(());
        }
        // SAFETY: both streams are live.
        unsafe {
            let event = V::new_event().map_err(Failure::words)?;
            let queued = V::record(event, from).and_then(|()| V::wait_in_stream(to, event));
            let _ = V::drop_event(event);
            queued.map_err(Failure::words)?;
        }
        self.current.store(to.expose_provenance(), Ordering::Release);
        Ok(())
    }

    /// Where kernels report.
    #[inline]
    pub(crate) fn report_on_device(&self) -> u64 {
        self.report_on_device
    }

    /// Pinned memory for copies.
    pub(crate) fn staging(&self) -> MutexGuard<'_, Staging<V>> {
        self.staging.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Waits for the current stream, and says what went wrong in it.
    ///
    /// # Errors
    /// Those of the work in it.
    pub(crate) fn wait(&self) -> Result<(), DriverError> {
        // SAFETY: the current stream is live.
        unsafe { V::wait_for_stream(self.stream()) }.map_err(|e| self.blame(e))?;
        self.report().take().map_or(Ok(()), Err)
    }

    /// An error, with the op that caused it where that is another than the caller.
    #[cold]
    pub fn blame(&self, error: V::Error) -> DriverError {
        match error.is_sticky() {
            true => DriverError::Queued {
                op: self.report().running(),
                detail: format!("{}; the device takes no more work from this process", error.words()),
            },
            false => DriverError::Words(error.words()),
        }
    }

    fn report(&self) -> &Report {
        // SAFETY: pinned memory that is never freed; only atomics are read.
        unsafe { &*self.report }
    }
}

/// A context that is current on this thread; what was there comes back in `Drop`, also on unwind.
pub struct Current<V: Vendor>(Option<Handle>, PhantomData<V>);

impl<V: Vendor> Current<V> {
    /// # Safety
    /// The context is live, and stays so.
    unsafe fn set(context: Handle) -> Outcome<Current<V>, V> {
        let before = V::current()?;
        if before == context {
            return Ok(Current(None, PhantomData));
        }
        // SAFETY: by contract.
        unsafe { V::make_current(context) }?;
        Ok(Current(Some(before), PhantomData))
    }
}

impl<V: Vendor> Drop for Current<V> {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            // SAFETY: it was current on this thread.
            let _ = unsafe { V::make_current(before) };
        }
    }
}
