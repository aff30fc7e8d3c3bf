//! Views: borrowed tensors as kernels take them, a pointer with a layout.
//!
//! A view is never a slice: rows of two mutable views may interleave in one allocation (q and k of a
//! fused qkv), and an output may not be initialised yet.

use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::layout::{Layout, Rows};
use crate::packed::PackedFor;
use std::marker::PhantomData;

/// A tensor to read.
#[derive(Clone, Copy)]
pub struct View<'a> {
    raw: Raw,
    borrow: PhantomData<&'a [u8]>,
}

/// A tensor to write, or to read and write. It owns its elements for `'a`.
pub struct ViewMut<'a> {
    raw: Raw,
    borrow: PhantomData<&'a mut [u8]>,
}

#[derive(Clone, Copy)]
struct Raw {
    ptr: *mut u8,
    dtype: DType,
    layout: Layout,
    device: Device,
    packed: PackedFor,
}

// SAFETY: a View is a shared borrow of plain elements, as &[u8] is.
unsafe impl Send for View<'_> {}
// SAFETY: as above.
unsafe impl Sync for View<'_> {}
// SAFETY: a ViewMut is an exclusive borrow of plain elements, as &mut [u8] is; what it gives through a
// shared reference is a raw pointer, whose use is unsafe.
unsafe impl Send for ViewMut<'_> {}
// SAFETY: as above.
unsafe impl Sync for ViewMut<'_> {}

macro_rules! common_accessors {
    ($view:ident) => {
        impl<'a> $view<'a> {
            /// Element type.
            pub fn dtype(&self) -> DType {
                self.raw.dtype
            }
            /// Shape and strides.
            pub fn layout(&self) -> &Layout {
                &self.raw.layout
            }
            /// The dimensions.
            pub fn shape(&self) -> &[usize] {
                self.raw.layout.shape()
            }
            /// One dimension.
            pub fn dim(&self, axis: usize) -> usize {
                self.raw.layout.shape()[axis]
            }
            /// The stride of one dimension, in elements.
            pub fn stride(&self, axis: usize) -> usize {
                self.raw.layout.strides()[axis]
            }
            /// For which kernel the elements are packed; a plain tensor for nobody.
            pub fn packed(&self) -> PackedFor {
                self.raw.packed
            }
            /// Where the elements live.
            pub fn device(&self) -> Device {
                self.raw.device
            }
            /// The view as rows of one stride; `None` where its strides forbid that.
            pub fn rows(&self) -> Option<Rows> {
                self.raw.layout.rows()
            }
            /// Bytes of the elements themselves, gaps not counted.
            pub fn bytes(&self) -> usize {
                self.raw.layout.elements() / self.raw.dtype.block_len() * self.raw.dtype.block_bytes()
            }
            /// `len` entries of `axis` from `start` on. `None` where they are not all there, or where they
            /// would cut a quantised block.
            pub fn narrow(self, axis: usize, start: usize, len: usize) -> Option<$view<'a>> {
                let layout = self.raw.layout;
                let end = start.checked_add(len)?;
                if axis >= layout.rank() || end > layout.shape()[axis] || self.packed() != PackedFor::NOBODY {
                    return None;
                }
                let (blk, offset) = (self.raw.dtype.block_len(), start * layout.strides()[axis]);
                if blk > 1 && (offset % blk != 0 || (axis + 1 == layout.rank() && len % blk != 0)) {
                    return None;
                }
                let bytes = offset / blk * self.raw.dtype.block_bytes();
                let raw = Raw {
                    // An empty view points nowhere in particular, so it need not be moved.
                    ptr: if layout.elements() == 0 { self.raw.ptr } else { self.raw.ptr.wrapping_add(bytes) },
                    layout: layout.narrowed(axis, len),
                    ..self.raw
                };
                Some($view { raw, borrow: PhantomData })
            }
            /// The same elements in another shape. `None` unless the view is contiguous and the number of
            /// elements stays.
            pub fn reshape(self, shape: &[usize]) -> Option<$view<'a>> {
                let layout = Layout::contiguous(shape)?;
                let mine = Layout::contiguous(self.shape())?;
                let same =
                    self.raw.layout.elements() == layout.elements() && self.packed() == PackedFor::NOBODY;
                (same && mine == self.raw.layout)
                    .then_some($view { raw: Raw { layout, ..self.raw }, borrow: PhantomData })
            }
            /// A dimension split in two, `inner` its second part: `[tokens, heads * d]` as
            /// `[tokens, heads, d]`, whatever the row stride.
            pub fn split_dim(self, axis: usize, inner: usize) -> Option<$view<'a>> {
                let l = self.raw.layout;
                let packed = self.packed() != PackedFor::NOBODY;
                if axis >= l.rank() || inner == 0 || l.shape()[axis] % inner != 0 || packed {
                    return None;
                }
                let (mut shape, mut strides) = (l.shape().to_vec(), l.strides().to_vec());
                shape[axis] /= inner;
                shape.insert(axis + 1, inner);
                strides.insert(axis + 1, strides[axis]);
                strides[axis] *= inner;
                let layout = Layout::strided(&shape, &strides)?;
                Some($view { raw: Raw { layout, ..self.raw }, borrow: PhantomData })
            }
        }
        impl std::fmt::Debug for $view<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{} {:?} on {}", self.raw.dtype, self.raw.layout, self.raw.device.id())
            }
        }
    };
}
common_accessors!(View);
common_accessors!(ViewMut);

impl<'a> View<'a> {
    /// A view of memory that is not a [`crate::Tensor`].
    ///
    /// # Safety
    /// For `'a`, `ptr` is valid for reads of the layout's span of initialised `dtype` elements on
    /// `device`, aligned to `dtype.align()`, and nobody writes them.
    pub unsafe fn from_raw(ptr: *const u8, dtype: DType, layout: Layout, device: Device) -> View<'a> {
        View {
            raw: Raw { ptr: ptr.cast_mut(), dtype, layout, device, packed: PackedFor::NOBODY },
            borrow: PhantomData,
        }
    }

    /// A view of a weight in one kernel's layout.
    ///
    /// # Safety
    /// For `'a`, `ptr` is what that kernel packed from a weight of this type and layout, on `device`.
    pub(crate) unsafe fn from_packed(
        ptr: *const u8,
        dtype: DType,
        layout: Layout,
        device: Device,
        packed: PackedFor,
    ) -> View<'a> {
        View { raw: Raw { ptr: ptr.cast_mut(), dtype, layout, device, packed }, borrow: PhantomData }
    }

    /// The same elements repeated to `shape`, as NumPy broadcasts: dimensions of 1, and those that are missing in
    /// front, get a stride of 0. `None` where the shapes do not go together.
    pub fn broadcast_to(self, shape: &[usize]) -> Option<View<'a>> {
        let (mine, missing) = (self.raw.layout, shape.len().checked_sub(self.raw.layout.rank())?);
        if self.raw.dtype.is_quantised() || self.packed() != PackedFor::NOBODY {
            return None;
        }
        let mut strides = vec![0; shape.len()];
        for (axis, dim) in mine.shape().iter().enumerate() {
            match *dim == shape[missing + axis] {
                true => strides[missing + axis] = mine.strides()[axis],
                false if *dim == 1 => {}
                false => return None,
            }
        }
        let layout = Layout::strided(shape, &strides)?;
        Some(View { raw: Raw { layout, ..self.raw }, borrow: PhantomData })
    }

    /// Two dimensions exchanged. `None` where one is outside, or a quantised row would be cut.
    pub fn transpose(self, a: usize, b: usize) -> Option<View<'a>> {
        let (mut shape, mut strides) = (self.shape().to_vec(), self.raw.layout.strides().to_vec());
        if a.max(b) >= shape.len() || self.raw.dtype.is_quantised() || self.packed() != PackedFor::NOBODY {
            return None;
        }
        shape.swap(a, b);
        strides.swap(a, b);
        let layout = Layout::strided(&shape, &strides)?;
        Some(View { raw: Raw { layout, ..self.raw }, borrow: PhantomData })
    }

    /// A host slice as a tensor. `None` where the length does not match the shape.
    pub fn from_slice<T: Element>(data: &'a [T], shape: &[usize]) -> Option<View<'a>> {
        let layout = Layout::contiguous(shape)?;
        // SAFETY: the slice is borrowed for 'a and has exactly the layout's elements.
        (layout.elements() == data.len())
            .then(|| unsafe { View::from_raw(data.as_ptr().cast(), T::DTYPE, layout, Device::cpu()) })
    }

    /// Pointer to the first element.
    pub fn as_ptr<T>(&self) -> *const T {
        self.raw.ptr.cast_const().cast()
    }
}

impl<'a> ViewMut<'a> {
    /// A writable view of memory that is not a [`crate::Tensor`].
    ///
    /// # Safety
    /// For `'a`, `ptr` is valid for writes of the layout's span of `dtype` elements on `device`, aligned
    /// to `dtype.align()`; the elements that the layout indexes belong to this view alone; the layout is
    /// injective; and where the op reads the tensor, the elements are initialised.
    pub unsafe fn from_raw(ptr: *mut u8, dtype: DType, layout: Layout, device: Device) -> ViewMut<'a> {
        ViewMut { raw: Raw { ptr, dtype, layout, device, packed: PackedFor::NOBODY }, borrow: PhantomData }
    }

    /// A host slice as a writable tensor. `None` where the length does not match the shape.
    pub fn from_slice<T: Element>(data: &'a mut [T], shape: &[usize]) -> Option<ViewMut<'a>> {
        let layout = Layout::contiguous(shape)?;
        // SAFETY: the slice is borrowed mutably for 'a and has exactly the layout's elements.
        (layout.elements() == data.len())
            .then(|| unsafe { ViewMut::from_raw(data.as_mut_ptr().cast(), T::DTYPE, layout, Device::cpu()) })
    }

    /// Pointer to the first element. Writing through it is for the kernel that holds the view.
    pub fn as_mut_ptr<T>(&self) -> *mut T {
        self.raw.ptr.cast()
    }

    /// The elements to read, while this view is not written.
    pub fn as_view(&self) -> View<'_> {
        View { raw: self.raw, borrow: PhantomData }
    }

    /// A shorter borrow of the same elements.
    pub fn reborrow(&mut self) -> ViewMut<'_> {
        ViewMut { raw: self.raw, borrow: PhantomData }
    }

    /// Two views of disjoint elements: those of `axis` before `at`, and the rest. This is how q and k of
    /// one fused qkv are both mutable. `None` where `at` is outside.
    pub fn split_at(self, axis: usize, at: usize) -> Option<(ViewMut<'a>, ViewMut<'a>)> {
        let dim = *self.shape().get(axis)?;
        let rest = dim.checked_sub(at)?;
        let twin = ViewMut { raw: self.raw, borrow: PhantomData };
        Some((self.narrow(axis, 0, at)?, twin.narrow(axis, at, rest)?))
    }
}
