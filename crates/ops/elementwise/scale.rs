//! `elementwise.scale`: out = x · factor.

use crate::element::{at, offsets, put};
use crate::elementwise::strided::{self, Shaped};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// A tensor times a number, over any strides.
    ///
    /// In f32, rounded once. Both tensors have one type (f32, f16 or bf16) and one shape.
    pub struct Scale = "elementwise.scale" {
        /// Any shape of up to five dimensions, any strides.
        reads x,
        /// Shape and type of `x`.
        writes out,
        /// Any number.
        value factor: f32,
    }
}

/// `x · factor`, in a new tensor.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn scale<'a>(x: impl Into<View<'a>>, factor: f32) -> Result<Tensor> {
    let x = x.into();
    // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
    let mut out = unsafe { Tensor::uninit(x.dtype(), x.shape(), x.device())? };
    Scale { x, out: out.view_mut(), factor }.run()?;
    Ok(out)
}

/// `x · factor`, into `out`.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn scale_into<'a>(x: impl Into<View<'a>>, factor: f32, out: impl Into<ViewMut<'a>>) -> Result<()> {
    Scale { x: x.into(), out: out.into(), factor }.run()
}

impl Scale<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        strided::check(Self::OP, DTypeSet::FLOAT, &[("x", self.x)], self.out.as_view())
    }
}

unsafe fn reference(_: &Ctx, a: &Scale<'_>) -> Result<(), RunError> {
    for [x, o] in offsets([a.x.layout(), a.out.layout()]) {
        // SAFETY: the offsets are those of elements.
        unsafe { put(&a.out, o, at(&a.x, x) * f64::from(a.factor)) };
    }
    Ok(())
}

kernel!(unsafe {
    op: Scale,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: reference,
});

crate::contract!(Scale);

impl Contract for Scale<'static> {
    type Params = Shaped;
    const OUTPUTS: &'static [usize] = &[1];

    fn cases() -> Vec<Case<Shaped>> {
        let of = |d| strided::shapes().into_iter().map(move |s| strided::case(d, d, s, 1));
        FLOATS.into_iter().flat_map(of).collect()
    }

    fn bench_cases() -> Vec<Case<Shaped>> {
        FLOATS.into_iter().flat_map(|d| strided::bench_cases(d, d, 1)).collect()
    }

    fn bind<'a>((shape, lie, to): &Shaped, tensors: &'a mut [Tensor]) -> Option<Scale<'a>> {
        let [x, out] = tensors else { return None };
        let (x, out) = (strided::view(x, shape, *lie)?, strided::view_mut(out, shape, *to)?);
        Some(Scale { x, out, factor: 25.298_221 })
    }

    fn tolerance(key: Key) -> Tolerance {
        strided::tolerance(key)
    }

    fn cost(a: &Scale<'_>) -> Cost {
        let n = a.out.bytes() as u64;
        Cost { read: n, written: n, flops: a.out.layout().elements() as u64 }
    }
}
