//! The CUDA driver's calls, by cudarc.

use crate::platform;
use cudarc::driver::{result, sys};
use kernels_core::{DeviceKind, Platform, Reason};
use kernels_gpu::Grid;
use kernels_gpu::host::{Contexts, Failure, Handle, Outcome, Vendor};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

/// The CUDA driver.
pub struct Cuda;

static CONTEXTS: Contexts<Cuda> = Contexts::new();

/// A CUresult that is no success.
#[derive(Clone, Copy)]
pub struct CudaError(pub(crate) result::DriverError);

impl Failure for CudaError {
    fn number(self) -> i32 {
        self.0.0 as i32
    }

    fn words(self) -> String {
        match (self.0.error_name(), self.0.error_string()) {
            (Ok(name), Ok(text)) => format!("{}: {}", name.to_string_lossy(), text.to_string_lossy()),
            _ => format!("CUDA error {}", self.number()),
        }
    }
}

fn check(answer: sys::CUresult) -> Outcome<(), Cuda> {
    answer.result().map_err(CudaError)
}

fn device(ordinal: u32) -> Outcome<sys::CUdevice, Cuda> {
    result::device::get(ordinal as i32).map_err(CudaError)
}

// SAFETY: each function is one or two calls of the driver's, whose documentation says what the trait asks for. Handles and
// memory are valid by the trait's contract.
unsafe impl Vendor for Cuda {
    const KIND: DeviceKind = DeviceKind::CUDA;
    const NAME: &'static str = "cudarc";
    const VISIBILITY: &'static [&'static str] = &["CUDA_VISIBLE_DEVICES"];
    type Error = CudaError;

    fn contexts() -> &'static Contexts<Cuda> {
        &CONTEXTS
    }

    fn probe() -> Result<Vec<Result<Platform, Reason>>, Reason> {
        platform::probe()
    }

    fn context(ordinal: u32) -> Outcome<Handle, Self> {
        // SAFETY: the device came from `get`; its primary context is never released.
        unsafe { result::primary_ctx::retain(device(ordinal)?) }.map(|c| c.cast()).map_err(CudaError)
    }

    #[inline]
    fn current() -> Outcome<Handle, Self> {
        let current = result::ctx::get_current().map_err(CudaError)?;
        Ok(current.map_or(null_mut(), |c| c.cast()))
    }

    #[inline]
    unsafe fn make_current(context: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        unsafe { result::ctx::set_current(context.cast()) }.map_err(CudaError)
    }

    unsafe fn new_stream() -> Outcome<Handle, Self> {
        result::stream::create(result::stream::StreamKind::NonBlocking).map(|s| s.cast()).map_err(CudaError)
    }

    unsafe fn wait_for_stream(stream: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        unsafe { result::stream::synchronize(stream.cast()) }.map_err(CudaError)
    }

    unsafe fn new_event() -> Outcome<Handle, Self> {
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
        result::event::create(flags).map(|e| e.cast()).map_err(CudaError)
    }

    unsafe fn record(event: Handle, stream: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        unsafe { result::event::record(event.cast(), stream.cast()) }.map_err(CudaError)
    }

    unsafe fn wait_for_event(event: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        unsafe { result::event::synchronize(event.cast()) }.map_err(CudaError)
    }

    unsafe fn wait_in_stream(stream: Handle, event: Handle) -> Outcome<(), Self> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: by contract.
        unsafe { result::stream::wait_event(stream.cast(), event.cast(), flags) }.map_err(CudaError)
    }

    unsafe fn drop_event(event: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        unsafe { result::event::destroy(event.cast()) }.map_err(CudaError)
    }

    unsafe fn keep_pools(ordinal: u32) -> Outcome<bool, Self> {
        let supported = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        let (mut pool, mut keep) = (null_mut(), u64::MAX);
        // SAFETY: the device came from `get`; each call reads or writes one word of ours.
        unsafe {
            let device = device(ordinal)?;
            if result::device::get_attribute(device, supported).map_err(CudaError)? == 0 {
                return Ok(false);
            }
            check(sys::cuDeviceGetDefaultMemPool(&mut pool, device))?;
            check(sys::cuMemPoolSetAttribute(pool, threshold, (&raw mut keep).cast()))?;
        }
        Ok(true)
    }

    unsafe fn alloc(bytes: usize, stream: Option<Handle>) -> Outcome<u64, Self> {
        // SAFETY: by contract.
        unsafe {
            match stream {
                Some(stream) => result::malloc_async(stream.cast(), bytes),
                None => result::malloc_sync(bytes),
            }
        }
        .map_err(CudaError)
    }

    unsafe fn free(at: u64, stream: Option<Handle>) -> Outcome<(), Self> {
        // SAFETY: by contract. cuMemFree waits for the device.
        unsafe {
            match stream {
                Some(stream) => result::free_async(at, stream.cast()),
                None => result::free_sync(at),
            }
        }
        .map_err(CudaError)
    }

    unsafe fn zero(at: u64, bytes: usize, stream: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        unsafe { result::memset_d8_async(at, 0, bytes, stream.cast()) }.map_err(CudaError)
    }

    unsafe fn to_device(to: u64, from: *const u8, bytes: usize, stream: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        check(unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, stream.cast()) })
    }

    unsafe fn to_host(to: *mut u8, from: u64, bytes: usize, stream: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        check(unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, stream.cast()) })
    }

    unsafe fn alloc_host(bytes: usize) -> Outcome<*mut u8, Self> {
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: by contract.
        unsafe { result::malloc_host(bytes, flags) }.map(|p| p.cast()).map_err(CudaError)
    }

    unsafe fn device_address(host: *mut u8) -> Outcome<u64, Self> {
        let mut at = 0;
        // SAFETY: writes one word; pinned memory by contract.
        check(unsafe { sys::cuMemHostGetDevicePointer_v2(&mut at, host.cast(), 0) })?;
        Ok(at)
    }

    unsafe fn load(image: &[u8], entry: &CStr) -> Outcome<Handle, Self> {
        // SAFETY: an image by contract. PTX ends with the zero that the driver reads to; a cubin says its own length.
        unsafe {
            let module = result::module::load_data(image.as_ptr().cast()).map_err(CudaError)?;
            result::module::get_function(module, entry.to_owned()).map(|f| f.cast()).map_err(CudaError)
        }
    }

    #[inline]
    unsafe fn launch(
        function: Handle,
        grid: &Grid,
        stream: Handle,
        params: &mut [*mut c_void],
    ) -> Outcome<(), Self> {
        /// Shared memory of a block that needs no asking.
        const PLAIN_SHARED: u32 = 48 << 10;
        let [x, y, z] = grid.blocks;
        // SAFETY: by contract.
        unsafe {
            if grid.shared > PLAIN_SHARED {
                let most = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                result::function::set_function_attribute(function.cast(), most, grid.shared as i32)
                    .map_err(CudaError)?;
            }
            let (blocks, threads) = ((x, y, z), (grid.threads, 1, 1));
            result::launch_kernel(function.cast(), blocks, threads, grid.shared, stream.cast(), params)
        }
        .map_err(CudaError)
    }

    unsafe fn begin_capture(stream: Handle) -> Outcome<(), Self> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: by contract.
        check(unsafe { sys::cuStreamBeginCapture_v2(stream.cast(), mode) })
    }

    unsafe fn end_capture(stream: Handle) -> Outcome<Handle, Self> {
        let mut graph = null_mut();
        // SAFETY: by contract.
        check(unsafe { sys::cuStreamEndCapture(stream.cast(), &mut graph) })?;
        Ok(graph.cast())
    }

    unsafe fn instantiate(graph: Handle) -> Outcome<Handle, Self> {
        let mut executable = null_mut();
        // SAFETY: by contract.
        check(unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, graph.cast(), 0) })?;
        Ok(executable.cast())
    }

    unsafe fn drop_recorded(graph: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        check(unsafe { sys::cuGraphDestroy(graph.cast()) })
    }

    unsafe fn launch_graph(executable: Handle, stream: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        check(unsafe { sys::cuGraphLaunch(executable.cast(), stream.cast()) })
    }

    unsafe fn drop_graph(executable: Handle) -> Outcome<(), Self> {
        // SAFETY: by contract.
        check(unsafe { sys::cuGraphExecDestroy(executable.cast()) })
    }
}
