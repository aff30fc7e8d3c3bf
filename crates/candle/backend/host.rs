//! Views as candle tensors, and back.

use candle_core::{DType as CandleType, Device, Result, Tensor};
use kernels_core::{DType, Element, RunError, View, ViewMut, bf16, f16};
use kernels_ops::element::{at, offsets};

/// A failure of one of candle's operations.
pub(super) fn failed(op: &'static str, error: &candle_core::Error) -> RunError {
    let (kernel, detail) = (format!("candle-{op}"), error.to_string());
    RunError::LaunchFailed { kernel, device: kernels_core::DeviceId::CPU, detail }
}

/// A dense copy of a view's elements, as f32.
///
/// # Safety
/// The view is on the host, of a plain type.
pub(super) unsafe fn load(view: &View<'_>) -> Result<Tensor> {
    // SAFETY: by contract; the offsets are those of elements.
    let values: Vec<f32> = offsets([view.layout()]).map(|[i]| unsafe { at(view, i) } as f32).collect();
    Tensor::from_vec(values, view.shape(), &Device::Cpu)
}

/// The same of what is to be written.
///
/// # Safety
/// As for [`load`], with initialised elements.
pub(super) unsafe fn load_mut(view: &ViewMut<'_>) -> Result<Tensor> {
    // SAFETY: by contract.
    unsafe { load(&view.as_view()) }
}

/// A dense copy of a view's elements in their own type.
///
/// # Safety
/// As for [`load`].
pub(super) unsafe fn load_as<T: Element + candle_core::WithDType>(view: &View<'_>) -> Result<Tensor> {
    // SAFETY: by contract; the offsets are those of elements.
    let values: Vec<T> = offsets([view.layout()]).map(|[i]| unsafe { *view.as_ptr::<T>().add(i) }).collect();
    Tensor::from_vec(values, view.shape(), &Device::Cpu)
}

/// A tensor's elements into a view of the same shape, rounded by candle to its type.
///
/// # Safety
/// The view is on the host, of a type that candle has.
pub(super) unsafe fn store(tensor: &Tensor, view: &ViewMut<'_>) -> Result<()> {
    // SAFETY: passed on.
    unsafe { store_where(tensor, view, |_| true) }
}

/// The same for those rows (of the first dimension) that `wanted` names.
///
/// # Safety
/// As for [`store`].
pub(super) unsafe fn store_where(
    tensor: &Tensor,
    view: &ViewMut<'_>,
    wanted: impl Fn(usize) -> bool,
) -> Result<()> {
    /// # Safety
    /// As for [`store`], for elements of type `T`.
    unsafe fn write<T: candle_core::WithDType>(
        tensor: &Tensor,
        view: &ViewMut<'_>,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let values = tensor.to_dtype(T::DTYPE)?.flatten_all()?.to_vec1::<T>()?;
        let in_row = (view.layout().elements() / view.shape().first().copied().unwrap_or(1).max(1)).max(1);
        for (i, ([place], value)) in offsets([view.layout()]).zip(values).enumerate() {
            if wanted(i / in_row) {
                // SAFETY: the offset is that of an element.
                unsafe { view.as_mut_ptr::<T>().add(place).write(value) };
            }
        }
        Ok(())
    }
    // SAFETY: passed on.
    unsafe {
        match view.dtype() {
            DType::F32 => write::<f32>(tensor, view, wanted),
            DType::F16 => write::<f16>(tensor, view, wanted),
            DType::BF16 => write::<bf16>(tensor, view, wanted),
            DType::F8E4M3 => write::<kernels_core::F8E4M3>(tensor, view, wanted),
            DType::U8 | DType::I8 => write::<u8>(tensor, view, wanted),
            DType::U32 => write::<u32>(tensor, view, wanted),
            DType::I32 => write::<i32>(tensor, view, wanted),
            DType::I64 => write::<i64>(tensor, view, wanted),
            other => candle_core::bail!("candle has no {other}"),
        }
    }
}

/// f32 zeros.
pub(super) fn zeros(shape: &[usize]) -> Result<Tensor> {
    Tensor::zeros(shape, CandleType::F32, &Device::Cpu)
}
