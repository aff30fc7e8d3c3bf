//! `elementwise.copy`: out = x, from any strides to any strides.

use crate::data::ints;
use crate::element::offsets;
use crate::elementwise::strided::{self, Shaped, Strides};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// A copy from any strides to any strides, of any plain type, bit for bit.
    pub struct Copy = "elementwise.copy" {
        /// Any shape of up to five dimensions, any strides.
        reads x,
        /// Shape and type of `x`.
        writes out,
    }
}

/// A dense copy of `x`.
///
/// # Errors
/// Types that do not fit, or no usable kernel.
pub fn copy<'a>(x: impl Into<View<'a>>) -> Result<Tensor> {
    let x = x.into();
    // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
    let mut out = unsafe { Tensor::uninit(x.dtype(), x.shape(), x.device())? };
    Copy { x, out: out.view_mut() }.run()?;
    Ok(out)
}

/// `x` into `out`.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn copy_into<'a>(x: impl Into<View<'a>>, out: impl Into<ViewMut<'a>>) -> Result<()> {
    Copy { x: x.into(), out: out.into() }.run()
}

impl Copy<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        strided::check(Self::OP, DTypeSet::PLAIN, &[("x", self.x)], self.out.as_view())
    }
}

unsafe fn reference(_: &Ctx, a: &Copy<'_>) -> Result<(), RunError> {
    let bytes = a.x.dtype().block_bytes();
    for [x, o] in offsets([a.x.layout(), a.out.layout()]) {
        // SAFETY: the offsets are those of elements, which do not overlap.
        unsafe {
            let from = a.x.as_ptr::<u8>().add(x * bytes);
            a.out.as_mut_ptr::<u8>().add(o * bytes).copy_from_nonoverlapping(from, bytes);
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: Copy,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::PLAIN),
    run: reference,
});

crate::contract!(Copy);

impl Contract for Copy<'static> {
    type Params = Shaped;
    const OUTPUTS: &'static [usize] = &[1];

    fn cases() -> Vec<Case<Shaped>> {
        let floats = FLOATS.into_iter().chain([DType::F8E4M3, DType::I8]);
        let of = |d| strided::shapes().into_iter().map(move |s| strided::case(d, d, s, 1));
        let mut cases: Vec<_> = floats.flat_map(of).collect();
        for dtype in [DType::I32, DType::I64, DType::U32] {
            let values: Vec<i64> = (0..35).map(|i| i * 61_356_675).collect();
            let params = (vec![7, 5], Strides::Transposed, Strides::Dense);
            let tensors = vec![ints(dtype, &values, &[5, 7]), ints(dtype, &[0; 35], &[7, 5])];
            cases.push(Case { name: format!("{dtype} [7, 5] transposed"), tensors, params });
        }
        cases
    }

    fn bench_cases() -> Vec<Case<Shaped>> {
        FLOATS.into_iter().flat_map(|d| strided::bench_cases(d, d, 1)).collect()
    }

    fn bind<'a>((shape, lie, to): &Shaped, tensors: &'a mut [Tensor]) -> Option<Copy<'a>> {
        let [x, out] = tensors else { return None };
        Some(Copy { x: strided::view(x, shape, *lie)?, out: strided::view_mut(out, shape, *to)? })
    }

    fn tolerance(_: Key) -> Tolerance {
        Tolerance::EXACT
    }

    fn cost(a: &Copy<'_>) -> Cost {
        let n = a.out.bytes() as u64;
        Cost { read: n, written: n, flops: 0 }
    }
}
