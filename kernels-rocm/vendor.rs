//! HIP's calls.

use crate::hip::{
    CAPTURE_THREAD_LOCAL, DEVICE_TO_HOST, DISABLE_TIMING, HOST_SHARED, HOST_TO_DEVICE, Hip, NON_BLOCKING,
    RELEASE_THRESHOLD, hip,
};
use crate::platform;
use kernels_core::{DeviceKind, Platform, Reason};
use kernels_gpu::Grid;
use kernels_gpu::host::{Contexts, Failure, Handle, Outcome, Vendor};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

/// The HIP runtime.
pub struct Rocm;

static CONTEXTS: Contexts<Rocm> = Contexts::new();

/// A hipError_t that is no success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HipError(c_int);

impl HipError {
    /// hipErrorNoDevice.
    const NO_DEVICE: HipError = HipError(100);
    /// hipErrorNotSupported.
    const NOT_SUPPORTED: HipError = HipError(801);

    /// Of a return code.
    pub(crate) fn of(answer: c_int) -> Result<(), HipError> {
        if answer == 0 { Ok(()) } else { Err(HipError(answer)) }
    }
}

impl Failure for HipError {
    fn number(self) -> i32 {
        self.0
    }

    fn words(self) -> String {
        let number = format!("HIP error {}", self.0);
        let Ok(hip) = hip() else { return number };
        // SAFETY: both give a static, terminated string, or null.
        unsafe {
            let (name, text) = ((hip.hipGetErrorName)(self.0), (hip.hipGetErrorString)(self.0));
            if name.is_null() || text.is_null() {
                return number;
            }
            format!("{}: {}", CStr::from_ptr(name).to_string_lossy(), CStr::from_ptr(text).to_string_lossy())
        }
    }
}

/// The runtime; devices that somebody holds were found by it.
#[inline]
fn api() -> Outcome<&'static Hip, Rocm> {
    hip().map_err(|_| HipError::NO_DEVICE)
}

/// A call that writes a handle or an address.
fn made(call: impl FnOnce(&Hip, *mut *mut c_void) -> c_int) -> Outcome<*mut c_void, Rocm> {
    let mut out = null_mut();
    HipError::of(call(api()?, &mut out))?;
    Ok(out)
}

fn pointer(at: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(at as usize)
}

// SAFETY: each function is one or two calls of HIP's, whose documentation says what the trait asks for. Handles and memory
// are valid by the trait's contract; those that write do so to one word of ours.
unsafe impl Vendor for Rocm {
    const KIND: DeviceKind = DeviceKind::ROCM;
    const NAME: &'static str = "hip";
    const VISIBILITY: &'static [&'static str] = &["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"];
    type Error = HipError;

    fn contexts() -> &'static Contexts<Rocm> {
        &CONTEXTS
    }

    fn probe() -> Result<Vec<Result<Platform, Reason>>, Reason> {
        platform::probe()
    }

    /// HIP has a current device on each thread, which stands for its primary context.
    fn context(device: u32) -> Outcome<Handle, Self> {
        Ok(std::ptr::without_provenance_mut(device as usize))
    }

    #[inline]
    fn current() -> Outcome<Handle, Self> {
        let mut device = 0;
        // SAFETY: writes one integer.
        HipError::of(unsafe { (api()?.hipGetDevice)(&mut device) })?;
        Ok(std::ptr::without_provenance_mut(device as usize))
    }

    #[inline]
    unsafe fn make_current(context: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        HipError::of(unsafe { (api()?.hipSetDevice)(context.addr() as c_int) })
    }

    unsafe fn new_stream() -> Outcome<Handle, Self> {
        // SAFETY: by contract.
        made(|hip, out| unsafe { (hip.hipStreamCreateWithFlags)(out, NON_BLOCKING) })
    }

    unsafe fn wait_for_stream(stream: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        HipError::of(unsafe { (api()?.hipStreamSynchronize)(stream) })
    }

    unsafe fn new_event() -> Outcome<Handle, Self> {
        // SAFETY: by contract.
        made(|hip, out| unsafe { (hip.hipEventCreateWithFlags)(out, DISABLE_TIMING) })
    }

    unsafe fn record(event: Handle, stream: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        HipError::of(unsafe { (api()?.hipEventRecord)(event, stream) })
    }

    unsafe fn wait_for_event(event: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        HipError::of(unsafe { (api()?.hipEventSynchronize)(event) })
    }

    unsafe fn wait_in_stream(stream: Handle, event: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        HipError::of(unsafe { (api()?.hipStreamWaitEvent)(stream, event, 0) })
    }

    unsafe fn drop_event(event: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        HipError::of(unsafe { (api()?.hipEventDestroy)(event) })
    }

    /// Some devices and versions have the functions and refuse to serve them, so that is tried.
    unsafe fn keep_pools(device: u32) -> Outcome<bool, Self> {
        let hip = api()?;
        let (Some(pool_of), Some(set)) = (hip.hipDeviceGetDefaultMemPool, hip.hipMemPoolSetAttribute) else {
            return Ok(false);
        };
        let (mut pool, mut keep) = (null_mut(), u64::MAX);
        // SAFETY: by contract; the memory is given back where it was had.
        unsafe {
            let served = HipError::of(pool_of(&mut pool, device as c_int))
                .and_then(|()| HipError::of(set(pool, RELEASE_THRESHOLD, (&raw mut keep).cast())))
                .and_then(|()| Self::alloc(256, Some(null_mut())))
                .and_then(|at| Self::free(at, Some(null_mut())));
            Ok(served.is_ok())
        }
    }

    unsafe fn alloc(bytes: usize, stream: Option<Handle>) -> Outcome<u64, Self> {
        // SAFETY: by contract.
        let at = made(|hip, out| unsafe {
            match (stream, hip.hipMallocAsync) {
                (None, _) => (hip.hipMalloc)(out, bytes),
                (Some(stream), Some(alloc)) => alloc(out, bytes, stream),
                (Some(_), None) => HipError::NOT_SUPPORTED.0,
            }
        })?;
        Ok(at.expose_provenance() as u64)
    }

    unsafe fn free(at: u64, stream: Option<Handle>) -> Outcome<(), Self> {
        let hip = api()?;
        // SAFETY: by contract. hipFree waits for the device.
        HipError::of(unsafe {
            match (stream, hip.hipFreeAsync) {
                (None, _) => (hip.hipFree)(pointer(at)),
                (Some(stream), Some(free)) => free(pointer(at), stream),
                (Some(_), None) => HipError::NOT_SUPPORTED.0,
            }
        })
    }

    unsafe fn zero(at: u64, bytes: usize, stream: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        HipError::of(unsafe { (api()?.hipMemsetAsync)(pointer(at), 0, bytes, stream) })
    }

    unsafe fn to_device(to: u64, from: *const u8, bytes: usize, stream: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        HipError::of(unsafe {
            (api()?.hipMemcpyAsync)(pointer(to), from.cast(), bytes, HOST_TO_DEVICE, stream)
        })
    }

    unsafe fn to_host(to: *mut u8, from: u64, bytes: usize, stream: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        HipError::of(unsafe {
            (api()?.hipMemcpyAsync)(to.cast(), pointer(from), bytes, DEVICE_TO_HOST, stream)
        })
    }

    unsafe fn alloc_host(bytes: usize) -> Outcome<*mut u8, Self> {
        // SAFETY: by contract.
        made(|hip, out| unsafe { (hip.hipHostMalloc)(out, bytes, HOST_SHARED) }).map(|p| p.cast())
    }

    unsafe fn device_address(host: *mut u8) -> Outcome<u64, Self> {
        // SAFETY: by contract.
        made(|hip, out| unsafe { (hip.hipHostGetDevicePointer)(out, host.cast(), 0) })
            .map(|p| p.expose_provenance() as u64)
    }

    unsafe fn load(image: &[u8], entry: &CStr) -> Outcome<Handle, Self> {
        // SAFETY: by contract; an image says its own length.
        let module = made(|hip, out| unsafe { (hip.hipModuleLoadData)(out, image.as_ptr().cast()) })?;
        // SAFETY: by contract.
        made(|hip, out| unsafe { (hip.hipModuleGetFunction)(out, module, entry.as_ptr()) })
    }

    #[inline]
    unsafe fn launch(
        function: Handle,
        grid: &Grid,
        stream: Handle,
        params: &mut [*mut c_void],
    ) -> Outcome<(), Self> {
        let ([x, y, z], params) = (grid.blocks, params.as_mut_ptr());
        // SAFETY: by contract. HIP needs no asking for all the shared memory that a block can have.
        HipError::of(unsafe {
            (api()?.hipModuleLaunchKernel)(
                function,
                x,
                y,
                z,
                grid.threads,
                1,
                1,
                grid.shared,
                stream,
                params,
                null_mut(),
            )
        })
    }

    unsafe fn begin_capture(stream: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        HipError::of(unsafe { (api()?.hipStreamBeginCapture)(stream, CAPTURE_THREAD_LOCAL) })
    }

    unsafe fn end_capture(stream: Handle) -> Outcome<Handle, Self> {
        // SAFETY: by contract.
        made(|hip, out| unsafe { (hip.hipStreamEndCapture)(stream, out) })
    }

    unsafe fn instantiate(graph: Handle) -> Outcome<Handle, Self> {
        // SAFETY: by contract; no log is asked for.
        made(|hip, out| unsafe { (hip.hipGraphInstantiate)(out, graph, null_mut(), null_mut(), 0) })
    }

    unsafe fn drop_recorded(graph: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        HipError::of(unsafe { (api()?.hipGraphDestroy)(graph) })
    }

    unsafe fn launch_graph(executable: Handle, stream: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        HipError::of(unsafe { (api()?.hipGraphLaunch)(executable, stream) })
    }

    unsafe fn drop_graph(executable: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        HipError::of(unsafe { (api()?.hipGraphExecDestroy)(executable) })
    }
}
