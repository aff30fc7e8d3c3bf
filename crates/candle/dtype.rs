//! candle's element types and ours.

use candle_core::quantized::GgmlDType;
use candle_core::{CpuStorage, DType as CandleType};
use kernels_core::{DType, View, ViewMut};

/// Ours for candle's.
pub(crate) fn ours(dtype: CandleType) -> Option<DType> {
    Some(match dtype {
        CandleType::F32 => DType::F32,
        CandleType::F16 => DType::F16,
        CandleType::BF16 => DType::BF16,
        CandleType::F8E4M3 => DType::F8E4M3,
        CandleType::U8 => DType::U8,
        CandleType::U32 => DType::U32,
        CandleType::I32 => DType::I32,
        CandleType::I64 => DType::I64,
        _ => return None,
    })
}

/// Ours for a block format of candle's.
pub(crate) fn blocks(dtype: GgmlDType) -> Option<DType> {
    Some(match dtype {
        GgmlDType::F32 => DType::F32,
        GgmlDType::F16 => DType::F16,
        GgmlDType::BF16 => DType::BF16,
        GgmlDType::Q4_0 => DType::Q4_0,
        GgmlDType::Q4_1 => DType::Q4_1,
        GgmlDType::Q5_0 => DType::Q5_0,
        GgmlDType::Q5_1 => DType::Q5_1,
        GgmlDType::Q8_0 => DType::Q8_0,
        GgmlDType::Q4K => DType::Q4K,
        GgmlDType::Q5K => DType::Q5K,
        GgmlDType::Q6K => DType::Q6K,
        _ => return None,
    })
}

/// The inverse of [`blocks`].
pub(crate) fn ggml(dtype: DType) -> Option<GgmlDType> {
    use GgmlDType::*;
    [F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4K, Q5K, Q6K]
        .into_iter()
        .find(|d| blocks(*d) == Some(dtype))
}

/// `U8` elements as the i8 that they hold.
pub(crate) fn signed(view: View<'_>) -> View<'_> {
    match view.dtype() {
        // SAFETY: the same memory; i8 and u8 have one size and any bits.
        DType::U8 => unsafe { View::from_raw(view.as_ptr(), DType::I8, *view.layout(), view.device()) },
        _ => view,
    }
}

/// The same to write.
pub(crate) fn signed_mut(view: ViewMut<'_>) -> ViewMut<'_> {
    match view.dtype() {
        // SAFETY: as in `signed`; the first view is given up for the second.
        DType::U8 => unsafe {
            ViewMut::from_raw(view.as_mut_ptr(), DType::I8, *view.layout(), view.device())
        },
        _ => view,
    }
}

/// Calls `$body` with `$vec` as the vector inside a storage.
macro_rules! each_storage {
    ($storage:expr, $vec:ident => $body:expr) => {
        match $storage {
            candle_core::CpuStorage::U8($vec) => $body,
            candle_core::CpuStorage::U32($vec) => $body,
            candle_core::CpuStorage::I16($vec) => $body,
            candle_core::CpuStorage::I32($vec) => $body,
            candle_core::CpuStorage::I64($vec) => $body,
            candle_core::CpuStorage::BF16($vec) => $body,
            candle_core::CpuStorage::F16($vec) => $body,
            candle_core::CpuStorage::F32($vec) => $body,
            candle_core::CpuStorage::F64($vec) => $body,
            candle_core::CpuStorage::F8E4M3($vec) => $body,
            candle_core::CpuStorage::F6E2M3($vec)
            | candle_core::CpuStorage::F6E3M2($vec)
            | candle_core::CpuStorage::F4($vec)
            | candle_core::CpuStorage::F8E8M0($vec) => $body,
        }
    };
}
pub(crate) use each_storage;

/// Memory for `len` elements that are not written yet: the storage says it holds none.
pub(crate) fn reserve(dtype: DType, len: usize) -> Option<CpuStorage> {
    fn memory<T>(len: usize) -> Option<Vec<T>> {
        let mut memory = Vec::new();
        memory.try_reserve_exact(len).ok()?;
        Some(memory)
    }
    Some(match dtype {
        DType::F32 => CpuStorage::F32(memory(len)?),
        DType::F16 => CpuStorage::F16(memory(len)?),
        DType::BF16 => CpuStorage::BF16(memory(len)?),
        DType::F8E4M3 => CpuStorage::F8E4M3(memory(len)?),
        DType::U8 | DType::I8 => CpuStorage::U8(memory(len)?),
        DType::U32 => CpuStorage::U32(memory(len)?),
        DType::I32 => CpuStorage::I32(memory(len)?),
        DType::I64 => CpuStorage::I64(memory(len)?),
        _ => return None,
    })
}
