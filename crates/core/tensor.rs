//! An owned tensor on one device.

use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::{Error, RunError};
use crate::layout::Layout;
use crate::view::{View, ViewMut};
use float8::F8E4M3;
use half::{bf16, f16};

/// A contiguous tensor that owns its memory; other layouts are [`View`]s of one.
pub struct Tensor {
    ptr: *mut u8,
    bytes: usize,
    dtype: DType,
    layout: Layout,
    device: Device,
}

// SAFETY: the tensor owns its memory, which holds plain elements.
unsafe impl Send for Tensor {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Tensor {}

impl Tensor {
    /// A tensor whose elements are not written yet.
    ///
    /// # Safety
    /// Every element must be written before the tensor is read, or handed on as one that can be.
    pub unsafe fn uninit(dtype: DType, shape: &[usize], device: Device) -> Result<Tensor, Error> {
        Tensor::allocate(dtype, shape, device, false)
    }

    /// A tensor of zeros.
    pub fn zeros(dtype: DType, shape: &[usize], device: Device) -> Result<Tensor, Error> {
        Tensor::allocate(dtype, shape, device, true)
    }

    fn allocate(dtype: DType, shape: &[usize], device: Device, zeroed: bool) -> Result<Tensor, Error> {
        let fail = |detail: String| RunError::OutOfMemory { device: device.id(), detail };
        let layout =
            Layout::contiguous(shape).ok_or_else(|| fail(format!("shape {shape:?} is too large")))?;
        let cut = shape.last().is_some_and(|c| c % dtype.block_len() != 0);
        if cut || (shape.is_empty() && dtype.is_quantised()) {
            let block = dtype.block_len();
            return Err(
                fail(format!("rows of {shape:?} are not whole {dtype} blocks of {block} elements")).into()
            );
        }
        let bytes = layout.elements() / dtype.block_len() * dtype.block_bytes();
        let ptr =
            device.driver().alloc(device.id().index, bytes, zeroed).map_err(|e| e.on(device.id(), fail))?;
        Ok(Tensor { ptr, bytes, dtype, layout, device })
    }

    /// A host tensor of `data`.
    pub fn from_slice<T: Element>(data: &[T], shape: &[usize]) -> Result<Tensor, Error> {
        // SAFETY: T is plain old data.
        let bytes = unsafe { std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), size_of_val(data)) };
        Tensor::from_bytes(bytes, T::DTYPE, shape, Device::cpu())
    }

    /// A tensor of the raw bytes of its elements (for quantised types: of its blocks).
    pub fn from_bytes(data: &[u8], dtype: DType, shape: &[usize], device: Device) -> Result<Tensor, Error> {
        let tensor = Tensor::allocate(dtype, shape, device, false)?;
        if tensor.bytes != data.len() {
            let detail = format!("{dtype} {shape:?} takes {} bytes, {} given", tensor.bytes, data.len());
            return Err(RunError::Copy { device: device.id(), detail }.into());
        }
        // SAFETY: the tensor was just allocated with exactly this many bytes.
        unsafe { device.driver().upload(device.id().index, tensor.ptr, data) }
            .map_err(|e| e.on(device.id(), |detail| RunError::Copy { device: device.id(), detail }))?;
        Ok(tensor)
    }

    /// A host tensor of f32 values, rounded to `dtype` (a float type, or i8; 8-bit types saturate).
    pub fn from_f32(data: &[f32], dtype: DType, shape: &[usize]) -> Result<Tensor, Error> {
        match dtype {
            DType::F16 => {
                Tensor::from_slice(&data.iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>(), shape)
            }
            DType::BF16 => {
                Tensor::from_slice(&data.iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>(), shape)
            }
            DType::F8E4M3 => {
                Tensor::from_slice(&data.iter().map(|x| F8E4M3::from_f32(*x)).collect::<Vec<_>>(), shape)
            }
            DType::I8 => {
                let rounded = |x: &f32| x.round_ties_even() as i8;
                Tensor::from_slice(&data.iter().map(rounded).collect::<Vec<_>>(), shape)
            }
            DType::F32 => Tensor::from_slice(data, shape),
            other => {
                let detail = format!("from_f32 makes f32, f16, bf16, f8_e4m3 or i8, not {other}");
                Err(RunError::Copy { device: crate::names::DeviceId::CPU, detail }.into())
            }
        }
    }

    /// A copy on `device`.
    pub fn to_device(&self, device: Device) -> Result<Tensor, Error> {
        Tensor::from_bytes(&self.to_bytes()?, self.dtype, self.shape(), device)
    }

    /// The raw bytes, on the host.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut out = vec![0u8; self.bytes];
        // SAFETY: the tensor holds `bytes` initialised bytes.
        unsafe { self.device.driver().download(self.device.id().index, &mut out, self.ptr) }.map_err(
            |e| e.on(self.device.id(), |detail| RunError::Copy { device: self.device.id(), detail }),
        )?;
        Ok(out)
    }

    /// The elements, on the host; an error where `T` is not the tensor's type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        if T::DTYPE != self.dtype {
            let detail = format!("the tensor holds {}, not {}", self.dtype, T::DTYPE);
            return Err(RunError::Copy { device: self.device.id(), detail }.into());
        }
        let bytes = self.to_bytes()?;
        let read = |c: &[u8]| {
            // SAFETY: the chunk has size_of::<T>() bytes and T is plain old data.
            unsafe { c.as_ptr().cast::<T>().read_unaligned() }
        };
        Ok(bytes.chunks_exact(size_of::<T>()).map(read).collect())
    }

    /// The elements as f64, from any plain type.
    pub fn to_f64_vec(&self) -> Result<Vec<f64>, Error> {
        macro_rules! widen {
            ($($d:ident: $t:ty => $f:expr),*) => { match self.dtype {
                $( DType::$d => Ok(self.to_vec::<$t>()?.into_iter().map($f).collect()), )*
                other => Err(RunError::Copy { device: self.device.id(), detail: format!("{other} has no plain values") }.into()),
            } };
        }
        widen!(F32: f32 => f64::from, F16: f16 => f64::from, BF16: bf16 => f64::from, I8: i8 => f64::from,
            U8: u8 => f64::from, F8E4M3: F8E4M3 => |x| x.to_f64(), I32: i32 => f64::from, U32: u32 => f64::from, I64: i64 => |x| x as f64)
    }

    /// The elements as f32, from any plain type.
    pub fn to_f32_vec(&self) -> Result<Vec<f32>, Error> {
        Ok(self.to_f64_vec()?.into_iter().map(|x| x as f32).collect())
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The dimensions.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Where it lives.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Its memory in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// To read all of it.
    pub fn view(&self) -> View<'_> {
        // SAFETY: the tensor owns initialised memory of this layout, borrowed for the view's lifetime.
        unsafe { View::from_raw(self.ptr, self.dtype, self.layout, self.device) }
    }

    /// To write all of it.
    pub fn view_mut(&mut self) -> ViewMut<'_> {
        // SAFETY: as in `view`, and the borrow is exclusive; a contiguous layout is injective.
        unsafe { ViewMut::from_raw(self.ptr, self.dtype, self.layout, self.device) }
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: allocated by this driver for this device with this size, and freed once.
        unsafe { self.device.driver().free(self.device.id().index, self.ptr, self.bytes) }
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tensor({} {:?} on {})", self.dtype, self.shape(), self.device.id())
    }
}

impl<'a> From<&'a Tensor> for View<'a> {
    fn from(tensor: &'a Tensor) -> View<'a> {
        tensor.view()
    }
}

impl<'a> From<&'a mut Tensor> for ViewMut<'a> {
    fn from(tensor: &'a mut Tensor) -> ViewMut<'a> {
        tensor.view_mut()
    }
}
