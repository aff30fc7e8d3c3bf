//! candle's CUDA storages: where their elements are, and new memory. The kernels run on candle's own stream, so that they
//! come after what candle has queued and before what it queues next; nothing is copied.

use crate::error::{CandleError, at_edge};
use candle_core::cuda_backend::cudarc::driver::{CudaSlice, DevicePtr, DevicePtrMut, SyncOnDrop};
use candle_core::cuda_backend::{CudaStorageSlice, WrapErr};
use candle_core::{CudaDevice, CudaStorage, Result};
use kernels_core::{DType, Device, Registry, Stream};
use std::sync::OnceLock;

/// Calls `$body` with `$slice` as the slice inside a storage.
macro_rules! each_slice {
    ($storage:expr, $slice:ident => $body:expr) => {
        match $storage {
            CudaStorageSlice::U8($slice) => $body,
            CudaStorageSlice::U32($slice) => $body,
            CudaStorageSlice::I16($slice) => $body,
            CudaStorageSlice::I32($slice) => $body,
            CudaStorageSlice::I64($slice) => $body,
            CudaStorageSlice::BF16($slice) => $body,
            CudaStorageSlice::F16($slice) => $body,
            CudaStorageSlice::F32($slice) => $body,
            CudaStorageSlice::F64($slice) => $body,
            CudaStorageSlice::F8E4M3($slice) => $body,
            CudaStorageSlice::F6E2M3($slice)
            | CudaStorageSlice::F6E3M2($slice)
            | CudaStorageSlice::F4($slice)
            | CudaStorageSlice::F8E8M0($slice) => $body,
        }
    };
}

/// `cudaStreamLegacy`: what candle means by a stream without a handle.
const LEGACY: usize = 1;

/// Our device for candle's, with candle's stream as its current one.
pub(crate) fn device(of: &CudaDevice) -> Result<Device> {
    let stream = of.cuda_stream();
    let device = ours(stream.context().ordinal())?;
    let handle = match stream.cu_stream().expose_provenance() {
        0 => LEGACY,
        handle => handle,
    };
    if device.stream() != Stream(handle) {
        // SAFETY: a live stream of this device; candle's device holds it, and a storage holds that.
        unsafe { device.set_stream(Stream(handle)) }.map_err(at_edge)?;
    }
    Ok(device)
}

/// Our device of candle's number, looked for once: this is on the way of every argument.
fn ours(ordinal: usize) -> Result<Device> {
    static KNOWN: [OnceLock<Device>; 64] = [const { OnceLock::new() }; 64];
    if let Some(device) = KNOWN.get(ordinal).and_then(OnceLock::get) {
        return Ok(*device);
    }
    let device = Registry::linked().and_then(|r| r.device(&format!("cuda:{ordinal}"))).map_err(at_edge)?;
    Ok(KNOWN.get(ordinal).map_or(device, |known| *known.get_or_init(|| device)))
}

/// Where elements are, with what keeps candle's account of who reads them until it is dropped.
pub(crate) fn read<'s>(
    storage: &'s CudaStorage,
    stream: &'s candle_core::cuda_backend::cudarc::driver::CudaStream,
) -> (*mut u8, SyncOnDrop<'s>) {
    each_slice!(&storage.slice, s => {
        let (ptr, guard) = s.device_ptr(stream);
        (std::ptr::with_exposed_provenance_mut(ptr as usize), guard)
    })
}

/// The same, to write.
pub(crate) fn write<'s>(
    storage: &'s mut CudaStorage,
    stream: &'s candle_core::cuda_backend::cudarc::driver::CudaStream,
) -> (*mut u8, SyncOnDrop<'s>) {
    each_slice!(&mut storage.slice, s => {
        let (ptr, guard) = s.device_ptr_mut(stream);
        (std::ptr::with_exposed_provenance_mut(ptr as usize), guard)
    })
}

/// Memory for `len` elements that are not written yet.
pub(crate) fn reserve(op: &'static str, on: &CudaDevice, dtype: DType, len: usize) -> Result<CudaStorage> {
    fn memory<T: candle_core::cuda_backend::cudarc::driver::DeviceRepr>(
        on: &CudaDevice,
        len: usize,
    ) -> Result<CudaSlice<T>> {
        // SAFETY: the kernel writes every element before anything reads one. candle allocates no empty memory.
        unsafe { on.cuda_stream().alloc::<T>(len.max(1)) }.w()
    }
    let slice = match dtype {
        DType::F32 => CudaStorageSlice::F32(memory(on, len)?),
        DType::F16 => CudaStorageSlice::F16(memory(on, len)?),
        DType::BF16 => CudaStorageSlice::BF16(memory(on, len)?),
        DType::F8E4M3 => CudaStorageSlice::F8E4M3(memory(on, len)?),
        DType::U8 | DType::I8 => CudaStorageSlice::U8(memory(on, len)?),
        DType::U32 => CudaStorageSlice::U32(memory(on, len)?),
        DType::I32 => CudaStorageSlice::I32(memory(on, len)?),
        DType::I64 => CudaStorageSlice::I64(memory(on, len)?),
        other => {
            let dtype = other.to_string();
            return Err(candle_core::Error::wrap(CandleError::Type { op, tensor: "out", dtype }));
        }
    };
    Ok(CudaStorage { slice, device: on.clone() })
}
