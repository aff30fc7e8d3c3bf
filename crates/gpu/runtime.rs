//! The runtime seam: how a vendor's compiler and driver make a program run.

use crate::cache;
use crate::host::{Context, Failure, Vendor};
use crate::jit::Jit;
use crate::launch::Grid;
use crate::program::Program;
use kernels_core::{Backend, Ctx, Device, DriverError, Platform, Reason};
use std::ffi::{CString, c_void};

/// A run-time compiler over a driver.
pub trait Runtime: Sized + Send + Sync + 'static {
    /// The driver.
    type Vendor: Vendor;

    /// The backend whose kernels it runs.
    const BACKEND: Backend;

    /// The compiler's name and version; part of what a compiled kernel is known by.
    ///
    /// # Errors
    /// Which library is missing, and where it was looked for.
    fn compiler() -> Result<String, Reason>;

    /// The device's code of a program.
    ///
    /// # Errors
    /// The compiler's log.
    fn compile(program: &Program, platform: &Platform) -> Result<Vec<u8>, String>;

    /// What a program takes of a multiprocessor; for whoever tunes one.
    ///
    /// # Errors
    /// The compiler's log, or that it says nothing of resources.
    fn resources(program: &Program, platform: &Platform) -> Result<Resources, String>;
}

/// What a kernel takes of a multiprocessor, as its compiler says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread: arrays that registers cannot hold, and spilled registers.
    pub local: u32,
    /// Bytes of shared memory that the kernel declares.
    pub shared: u32,
}

/// A function of `image` on a device; it stays loaded.
///
/// # Errors
/// In the driver's words.
pub(crate) fn load<V: Vendor>(device: Device, image: &[u8], entry: &str) -> Result<usize, String> {
    let context = Context::<V>::of(device.id().index)?;
    let _current = context.enter().map_err(|e| e.to_string())?;
    let entry = CString::new(entry).map_err(|e| e.to_string())?;
    // SAFETY: the image comes from the compiler, or from the cache that checked its hash.
    let function = unsafe { V::load(image, &entry) }.map_err(|e| match e.is_of_capture() {
        true => {
            "a kernel cannot be loaded while a graph is captured; run the calls once before, or `warm_up`"
                .to_string()
        }
        false => e.words(),
    })?;
    Ok(function.expose_provenance())
}

/// Queues a kernel on the stream of the call.
///
/// # Safety
/// `context` is of the call's device; `function` came from [`load`] for it; `params` point to what the kernel takes, and what they name is
/// valid for it.
///
/// # Errors
/// In the driver's words.
pub(crate) unsafe fn launch<V: Vendor>(
    context: &Context<V>,
    ctx: &Ctx,
    function: usize,
    grid: &Grid,
    params: &mut [*mut c_void],
) -> Result<(), String> {
    let _current = context.enter().map_err(|e| e.to_string())?;
    let (function, stream) = (std::ptr::with_exposed_provenance_mut(function), context.handle(ctx.stream));
    // SAFETY: the function is this device's and lives; the rest by contract.
    unsafe { V::launch(function, grid, stream, params) }.map_err(|e| match context.blame(e) {
        earlier @ DriverError::Queued { .. } => earlier.to_string(),
        _ => format!("{} ({} blocks of {} threads)", e.words(), grid.blocks[0], grid.threads),
    })
}

/// Whether kernels of `sources` can be had on a platform: with the compiler, or from the cache without it.
///
/// # Errors
/// The compiler is missing, and the cache has none of them.
pub fn ready<R: Runtime>(platform: &Platform, sources: &[&Jit]) -> Result<(), Reason> {
    R::compiler().map(|_| ()).or_else(|reason| {
        let arch = platform.arch.to_string();
        let names: Vec<_> = sources.iter().map(|j| j.name()).collect();
        let cached = cache::Cache::of_user().is_ok_and(|c| c.has_any(&names, &arch));
        if cached { Ok(()) } else { Err(reason) }
    })
}
