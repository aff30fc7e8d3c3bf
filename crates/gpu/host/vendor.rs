//! The driver seam: the calls of a vendor's driver that the host's side of every GPU backend is made of.

use crate::host::context::Contexts;
use crate::launch::Grid;
use kernels_core::{DeviceKind, Platform, Reason};
use std::ffi::{CStr, c_void};

/// A context, stream, event, function or graph of the driver's.
pub type Handle = *mut c_void;

/// An error of a driver's. CUresult and hipError_t agree on the numbers that matter here.
pub trait Failure: Copy {
    /// The driver's number.
    fn number(self) -> i32;

    /// Its name and what the driver says of it.
    fn words(self) -> String;

    /// Whether a kernel caused it while it ran, so that every later call gets it too: memory that cannot be corrected,
    /// bad addresses, time-outs, assertions, stacks, instructions.
    fn is_sticky(self) -> bool {
        matches!(self.number(), 214 | 700 | 702 | 710 | 714..=719)
    }

    /// Whether a graph is being captured, and the call cannot be part of one.
    fn is_of_capture(self) -> bool {
        self.number() == 900
    }
}

/// What a call of a driver gives.
pub type Outcome<T, V> = Result<T, <V as Vendor>::Error>;

/// A driver's calls. Those that take handles are unsafe: the handles are live, of the device that is current, and memory
/// is valid for what is read and written.
///
/// # Safety
/// What `probe` says of a device is true, memory is aligned to at least 256 bytes, and every call does what it says.
// What its unsafe functions ask for is said once, above.
#[allow(clippy::missing_safety_doc)]
pub unsafe trait Vendor: Sized + Send + Sync + 'static {
    /// What it drives.
    const KIND: DeviceKind;
    /// How the driver is reached: the name in lists.
    const NAME: &'static str;
    /// Its errors.
    type Error: Failure;

    /// Its devices in use: a static of its crate.
    fn contexts() -> &'static Contexts<Self>;

    /// Environment variables that hide devices from the driver.
    const VISIBILITY: &'static [&'static str];

    /// The devices that are there, by ordinal; one that cannot be described is left out of use.
    ///
    /// # Errors
    /// Why there can be none.
    fn probe() -> Result<Vec<Result<Platform, Reason>>, Reason>;

    /// What [`Vendor::make_current`] takes for a device.
    fn context(device: u32) -> Outcome<Handle, Self>;
    /// What is current on this thread.
    fn current() -> Outcome<Handle, Self>;
    /// Makes it this thread's.
    unsafe fn make_current(context: Handle) -> Outcome<(), Self>;

    /// A stream that waits for no other.
    unsafe fn new_stream() -> Outcome<Handle, Self>;
    /// Waits for all that is queued.
    unsafe fn wait_for_stream(stream: Handle) -> Outcome<(), Self>;
    /// An event that measures no time.
    unsafe fn new_event() -> Outcome<Handle, Self>;
    /// Queues the event.
    unsafe fn record(event: Handle, stream: Handle) -> Outcome<(), Self>;
    /// Waits until the event was reached.
    unsafe fn wait_for_event(event: Handle) -> Outcome<(), Self>;
    /// What is queued from now on comes after the event.
    unsafe fn wait_in_stream(stream: Handle, event: Handle) -> Outcome<(), Self>;
    /// Gives it back.
    unsafe fn drop_event(event: Handle) -> Outcome<(), Self>;

    /// Whether memory can be had and given back in stream order; if so, what is freed stays with the process, and what
    /// is allocated next gets it without the system.
    unsafe fn keep_pools(device: u32) -> Outcome<bool, Self>;
    /// Memory, in the order of a stream where there are pools.
    unsafe fn alloc(bytes: usize, stream: Option<Handle>) -> Outcome<u64, Self>;
    /// Gives it back, in the order of a stream, or after the device's work.
    unsafe fn free(at: u64, stream: Option<Handle>) -> Outcome<(), Self>;
    /// Queues zeros.
    unsafe fn zero(at: u64, bytes: usize, stream: Handle) -> Outcome<(), Self>;
    /// Queues a copy from pinned memory.
    unsafe fn to_device(to: u64, from: *const u8, bytes: usize, stream: Handle) -> Outcome<(), Self>;
    /// Queues a copy to pinned memory.
    unsafe fn to_host(to: *mut u8, from: u64, bytes: usize, stream: Handle) -> Outcome<(), Self>;
    /// Pinned memory that every device can read and write.
    unsafe fn alloc_host(bytes: usize) -> Outcome<*mut u8, Self>;
    /// The device's address of pinned memory.
    unsafe fn device_address(host: *mut u8) -> Outcome<u64, Self>;

    /// A function of an image that stays loaded.
    unsafe fn load(image: &[u8], entry: &CStr) -> Outcome<Handle, Self>;
    /// Queues a function.
    unsafe fn launch(
        function: Handle,
        grid: &Grid,
        stream: Handle,
        params: &mut [*mut c_void],
    ) -> Outcome<(), Self>;

    /// Records what this thread queues, instead of running it.
    unsafe fn begin_capture(stream: Handle) -> Outcome<(), Self>;
    /// The recorded graph.
    unsafe fn end_capture(stream: Handle) -> Outcome<Handle, Self>;
    /// An executable of a graph.
    unsafe fn instantiate(graph: Handle) -> Outcome<Handle, Self>;
    /// Gives a recorded graph back.
    unsafe fn drop_recorded(graph: Handle) -> Outcome<(), Self>;
    /// Queues all of it.
    unsafe fn launch_graph(executable: Handle, stream: Handle) -> Outcome<(), Self>;
    /// Gives an executable back.
    unsafe fn drop_graph(executable: Handle) -> Outcome<(), Self>;
}
