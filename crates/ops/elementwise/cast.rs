//! `elementwise.cast`: out = x in another type.

use crate::args::Arg;
use crate::data::poison;
use crate::element::{at, offsets, put};
use crate::elementwise::strided::{self, Shaped, Strides, VALUES};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

/// Element types that are cast to.
const TO: DTypeSet = DTypeSet::FLOAT.union(DTypeSet::of(&[DType::F8E4M3]));

kernels_core::op! {
    /// A tensor in another float type, over any strides.
    ///
    /// Rounded once, to even; f8_e4m3 saturates at ±448. NaN stays NaN.
    pub struct Cast = "elementwise.cast" {
        /// Any shape of up to five dimensions, any strides; f32, f16, bf16, f8_e4m3 or i8.
        reads x,
        /// Shape of `x`; f32, f16, bf16 or f8_e4m3.
        writes out,
    }
}

/// `x` as `dtype`, in a new tensor.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn cast<'a>(x: impl Into<View<'a>>, dtype: DType) -> Result<Tensor> {
    let x = x.into();
    // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
    let mut out = unsafe { Tensor::uninit(dtype, x.shape(), x.device())? };
    Cast { x, out: out.view_mut() }.run()?;
    Ok(out)
}

/// `x` in the type of `out`.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn cast_into<'a>(x: impl Into<View<'a>>, out: impl Into<ViewMut<'a>>) -> Result<()> {
    Cast { x: x.into(), out: out.into() }.run()
}

impl Cast<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        Arg::new(Self::OP, "x", self.x).dtype(VALUES)?;
        Arg::new(Self::OP, "out", self.out.as_view()).dtype(TO)?.shape(self.x.shape())?.output()?;
        let key = Key::of(self.out.dtype()).with_weight(self.x.dtype());
        Ok(Valid { key, empty: self.x.layout().elements() == 0 })
    }
}

unsafe fn reference(_: &Ctx, a: &Cast<'_>) -> Result<(), RunError> {
    for [x, o] in offsets([a.x.layout(), a.out.layout()]) {
        // SAFETY: the offsets are those of elements.
        unsafe { put(&a.out, o, at(&a.x, x)) };
    }
    Ok(())
}

kernel!(unsafe {
    op: Cast,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::mixed(TO, VALUES),
    run: reference,
});

crate::contract!(Cast);

impl Contract for Cast<'static> {
    type Params = Shaped;
    const OUTPUTS: &'static [usize] = &[1];

    fn cases() -> Vec<Case<Shaped>> {
        let mut cases = Vec::new();
        for from in VALUES.iter() {
            for to in TO.iter() {
                cases.extend(strided::shapes().into_iter().map(|s| strided::case(from, to, s, 1)));
                if FLOATS.contains(&from) {
                    cases.push(every_size(from, to));
                }
            }
        }
        cases
    }

    fn bench_cases() -> Vec<Case<Shaped>> {
        let pairs = [
            (DType::F32, DType::BF16),
            (DType::BF16, DType::F32),
            (DType::F32, DType::F8E4M3),
            (DType::F8E4M3, DType::F32),
        ];
        pairs.into_iter().flat_map(|(from, to)| strided::bench_cases(from, to, 1)).collect()
    }

    fn bind<'a>((shape, lie, to): &Shaped, tensors: &'a mut [Tensor]) -> Option<Cast<'a>> {
        let [x, out] = tensors else { return None };
        Some(Cast { x: strided::view(x, shape, *lie)?, out: strided::view_mut(out, shape, *to)? })
    }

    fn tolerance(_: Key) -> Tolerance {
        // One rounding, of a number that f32 holds; AVX-512's bf16 conversion flushes subnormals.
        Tolerance { abs: 1.2e-38, rel: 0.0 }
    }

    fn cost(a: &Cast<'_>) -> Cost {
        Cost { read: a.x.bytes() as u64, written: a.out.bytes() as u64, flops: 0 }
    }
}

/// Numbers of every size that 8 and 16 bits round, ties, and what is no number.
fn every_size(from: DType, to: DType) -> Case<Shaped> {
    let mut values: Vec<f32> =
        (-24..18).flat_map(|e| (0..64).map(move |m| (1.0 + m as f32 / 64.0) * 2f32.powi(e))).collect();
    values.extend(values.clone().into_iter().map(|v| -v));
    values.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 448.0, 464.0, 465.0, f32::NAN]);
    let shaped = (vec![1, values.len()], Strides::Dense, Strides::Dense);
    let mut case = strided::case(from, to, shaped, 1);
    case.tensors[0] =
        Tensor::from_f32(&values, from, &[1, values.len()]).unwrap_or_else(|e| panic!("test data: {e}"));
    poison(&mut case.tensors[0], 5);
    case.name = format!("{from} to {to}, every size");
    case
}
