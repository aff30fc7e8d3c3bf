//! Memory for results, which becomes candle tensors.

use crate::call::Raw;
use crate::dtype::{each_storage, reserve};
use crate::error::CandleError;
use candle_core::op::BackpropOp;
use candle_core::{Result, Storage, Tensor};
use kernels_core::{DType, Device, Layout};

/// New memory for a result, and where it is.
pub(crate) struct Fresh {
    storage: Storage,
    pub raw: Raw,
}

impl Fresh {
    /// For a contiguous tensor on a device of candle's.
    pub fn new(op: &'static str, on: &candle_core::Device, dtype: DType, shape: &[usize]) -> Result<Fresh> {
        let fail = |bytes| candle_core::Error::wrap(CandleError::Memory { op, bytes });
        let layout = Layout::contiguous(shape).ok_or_else(|| fail(usize::MAX))?;
        let bytes = layout.elements() * dtype.block_bytes();
        #[cfg(feature = "candle-cuda")]
        if let candle_core::Device::Cuda(on) = on {
            let (device, stream) = (crate::cuda::device(on)?, on.cuda_stream());
            let mut storage = crate::cuda::reserve(op, on, dtype, layout.elements())?;
            // On candle's stream everything is in order, so its account need not outlive this.
            let ptr = crate::cuda::write(&mut storage, &stream).0;
            return Ok(Fresh { storage: Storage::Cuda(storage), raw: Raw { ptr, dtype, layout, device } });
        }
        // Arguments elsewhere are refused before any memory is asked for.
        let _ = on;
        let mut storage = reserve(dtype, layout.elements()).ok_or_else(|| fail(bytes))?;
        let ptr = each_storage!(&mut storage, v => v.as_mut_ptr().cast::<u8>());
        Ok(Fresh { storage: Storage::Cpu(storage), raw: Raw { ptr, dtype, layout, device: Device::cpu() } })
    }

    /// # Safety
    /// Every element was written.
    pub unsafe fn into_tensor(mut self) -> Tensor {
        let len = self.raw.layout.elements();
        if let Storage::Cpu(storage) = &mut self.storage {
            // SAFETY: the vector has room for them, and they are written.
            each_storage!(storage, v => unsafe { v.set_len(len) });
        }
        Tensor::from_storage(self.storage, self.raw.layout.shape(), BackpropOp::none(), false)
    }
}
