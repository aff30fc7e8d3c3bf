//! Prepacked weights: a weight in a layout of one kernel's own, opaque to everyone else.
//!
//! A kernel whose spec has `prepack` makes the layout once, ahead of the calls, and is then the only one that
//! takes the weight: the class of a call says for which kernel its weight is packed.

use crate::ctx::Ctx;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Error;
use crate::layout::Layout;
use crate::spec::KernelSpec;
use crate::tensor::Tensor;
use crate::view::View;
use std::sync::{Mutex, MutexGuard};

/// For which kernel a tensor is packed; the default is for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PackedFor(u8);

/// The number travels in 4 bits of a call's class.
const MOST: usize = 15;

fn kernels() -> MutexGuard<'static, Vec<String>> {
    static KERNELS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    KERNELS.lock().unwrap_or_else(|e| e.into_inner())
}

impl PackedFor {
    /// For no kernel: a plain tensor.
    pub const NOBODY: PackedFor = PackedFor(0);

    /// The number of a kernel, which it gets now if it has none; `None` where all are given out.
    pub(crate) fn register(kernel: &str) -> Option<PackedFor> {
        let mut all = kernels();
        let at = match all.iter().position(|k| k == kernel) {
            Some(at) => at,
            None if all.len() == MOST => return None,
            None => {
                all.push(kernel.into());
                all.len() - 1
            }
        };
        Some(PackedFor(at as u8 + 1))
    }

    /// The kernel's id; `None` for nobody.
    pub fn kernel(self) -> Option<String> {
        kernels().get(usize::from(self.0).checked_sub(1)?).cloned()
    }

    pub(crate) fn bits(self) -> u64 {
        self.0.into()
    }
}

/// A weight in the layout of one kernel, from [`Selector::prepack`](crate::Selector::prepack).
pub struct Packed {
    data: Tensor,
    dtype: DType,
    layout: Layout,
    owner: PackedFor,
}

impl Packed {
    /// The weight in the layout of the kernel of this spec, which runs on `device`; `None` where that kernel takes
    /// weights as they are.
    ///
    /// # Safety
    /// The kernel may be used on the device, and its op takes the weight.
    ///
    /// # Errors
    /// No memory.
    pub unsafe fn of(spec: &KernelSpec, device: Device, weight: &View<'_>) -> Result<Option<Packed>, Error> {
        let (Some(prepack), Some(owner)) = (spec.prepack, PackedFor::register(&spec.id())) else {
            return Ok(None);
        };
        // SAFETY: by contract.
        let data = unsafe { prepack(&Ctx::bare(device), weight)? };
        Ok(Some(Packed { data, dtype: weight.dtype(), layout: *weight.layout(), owner }))
    }

    /// The kernel's id.
    pub fn kernel(&self) -> String {
        self.owner.kernel().unwrap_or_default()
    }

    /// Bytes of the packed form.
    pub fn bytes(&self) -> usize {
        self.data.bytes()
    }

    /// To pass where the plain weight would go. It keeps that one's type and shape, and cannot be cut.
    pub fn view(&self) -> View<'_> {
        // SAFETY: the data is borrowed for the view's lifetime; only the kernel that packed it reads it, and it
        // knows the extent.
        unsafe {
            View::from_packed(
                self.data.view().as_ptr(),
                self.dtype,
                self.layout,
                self.data.device(),
                self.owner,
            )
        }
    }
}
