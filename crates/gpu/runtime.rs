//! The runtime seam: how a vendor's compiler and driver make a program run.

use crate::cache;
use crate::jit::Jit;
use crate::launch::Grid;
use crate::program::Program;
use kernels_core::{Backend, Ctx, Device, Platform, Reason};
use std::ffi::c_void;

/// Compile, load, launch.
///
/// # Safety
/// A function that `load` gave is the program's kernel on that device, and `launch` runs it on the stream of the
/// context with the parameters as given.
pub unsafe trait Runtime: Sized + Send + Sync + 'static {
    /// The backend whose kernels it runs.
    const BACKEND: Backend;

    /// The compiler's name and version; part of what a compiled kernel is known by.
    ///
    /// # Errors
    /// Which library is missing, and where it was looked for.
    fn compiler() -> Result<String, Reason>;

    /// The architecture of a platform as the compiler calls it; it names files.
    fn arch(platform: &Platform) -> String;

    /// The device's code of a program.
    ///
    /// # Errors
    /// The compiler's log.
    fn compile(program: &Program, platform: &Platform) -> Result<Vec<u8>, String>;

    /// A function of `image` on a device; it stays loaded.
    ///
    /// # Errors
    /// In the driver's words.
    fn load(device: Device, image: &[u8], entry: &str) -> Result<usize, String>;

    /// Where kernels on a device report: the device's address of a [`crate::Report`].
    ///
    /// # Errors
    /// In the driver's words.
    fn report(device: Device) -> Result<u64, String>;

    /// Queues a kernel.
    ///
    /// # Safety
    /// `function` came from `load` for this device; `params` point to what the kernel takes, and what they name is
    /// valid for it.
    ///
    /// # Errors
    /// In the driver's words.
    unsafe fn launch(
        ctx: &Ctx,
        function: usize,
        grid: &Grid,
        params: &mut [*mut c_void],
    ) -> Result<(), String>;
}

/// Whether kernels of `sources` can be had on a platform: with the compiler, or from the cache without it.
///
/// # Errors
/// The compiler is missing, and the cache has none of them.
pub fn ready<R: Runtime>(platform: &Platform, sources: &[&Jit]) -> Result<(), Reason> {
    R::compiler().map(|_| ()).or_else(|reason| {
        let arch = R::arch(platform);
        let names: Vec<_> = sources.iter().map(|j| j.name()).collect();
        let cached = cache::Cache::of_user().is_ok_and(|c| c.has_any(&names, &arch));
        if cached { Ok(()) } else { Err(reason) }
    })
}
