//! `sampling.softmax`: probabilities, e^((x − max) / temperature) over its sum, along the last dimension.

use crate::args::{Arg, in_range};
use crate::data::{normal, unwritten};
use crate::element::{at, put};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Softmax of logits over a temperature.
    ///
    /// The row's maximum is subtracted first; sums in f32 or better. A row of −∞ gives zeros; a NaN or +∞ in
    /// a row makes all of it NaN.
    pub struct Softmax = "sampling.softmax" {
        /// `[.., vocabulary]`, f32, f16 or bf16; rows may have a stride.
        reads logits,
        /// Shape of `logits`, f32; rows may have a stride.
        writes probs,
        /// Above 0.
        value temperature: f32,
    }
}

/// Probabilities of `logits`, in a new f32 tensor.
///
/// # Errors
/// A temperature that is not above 0, shapes or types that do not fit, or no usable kernel.
pub fn softmax<'a>(logits: impl Into<View<'a>>, temperature: f32) -> Result<Tensor> {
    let logits = logits.into();
    // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
    let mut probs = unsafe { Tensor::uninit(DType::F32, logits.shape(), logits.device())? };
    softmax_into(logits, temperature, &mut probs)?;
    Ok(probs)
}

/// Probabilities of `logits`, into `probs`.
///
/// # Errors
/// As [`softmax`].
pub fn softmax_into<'a>(
    logits: impl Into<View<'a>>,
    temperature: f32,
    probs: impl Into<ViewMut<'a>>,
) -> Result<()> {
    Softmax { logits: logits.into(), probs: probs.into(), temperature }.run()
}

impl Softmax<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let arg = |name, view| Arg::new(Self::OP, name, view);
        let rows = arg("logits", self.logits).dtype(DTypeSet::FLOAT)?.rows()?;
        let probs = arg("probs", self.probs.as_view()).dtype(DTypeSet::of(&[DType::F32]))?;
        probs.shape(self.logits.shape())?.output()?.rows()?;
        let (t, device) = (self.temperature, self.logits.device());
        in_range(Self::OP, "temperature", t.into(), t > 0.0 && t.is_finite(), "above 0", device)?;
        Ok(Valid { key: Key::of(self.logits.dtype()), empty: rows.rows == 0 || rows.cols == 0 })
    }
}

unsafe fn reference(_: &Ctx, a: &Softmax<'_>) -> Result<(), RunError> {
    let (Some(x), Some(p)) = (a.logits.rows(), a.probs.rows()) else { return Ok(()) };
    for r in 0..x.rows {
        // SAFETY: r and i are inside the rows that the checks found.
        unsafe {
            let row: Vec<f64> = (0..x.cols).map(|i| at(&a.logits, r * x.stride + i)).collect();
            let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weight = |x: &f64| ((x - max) / f64::from(a.temperature)).exp();
            let sum: f64 = row.iter().map(weight).sum();
            let all_masked = row.iter().all(|x| *x == f64::NEG_INFINITY);
            for (i, x) in row.iter().enumerate() {
                put(&a.probs, r * p.stride + i, if all_masked { 0.0 } else { weight(x) / sum });
            }
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: Softmax,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: reference,
});

crate::contract!(Softmax);

impl Contract for Softmax<'static> {
    /// Columns to use, and the temperature.
    type Params = (usize, f32);
    const OUTPUTS: &'static [usize] = &[1];

    fn cases() -> Vec<Case<Self::Params>> {
        let mut cases = Vec::new();
        for dtype in FLOATS {
            for (rows, cols, gap) in [(1, 1, 0), (3, 17, 0), (2, 1000, 5), (0, 64, 0), (1, 49152, 0)] {
                cases.push(case(dtype, rows, cols, gap, 0.7));
            }
            for (value, all) in [
                (f32::NAN, false),
                (f32::INFINITY, false),
                (f32::NEG_INFINITY, false),
                (f32::NEG_INFINITY, true),
            ] {
                cases.push(special(dtype, value, all));
            }
        }
        cases
    }

    fn bench_cases() -> Vec<Case<Self::Params>> {
        [1, 16].map(|rows| case(DType::F32, rows, 128_256, 0, 1.0)).into()
    }

    fn bind<'a>(params: &Self::Params, tensors: &'a mut [Tensor]) -> Option<Softmax<'a>> {
        let [logits, probs] = tensors else { return None };
        let (cols, temperature) = *params;
        Some(Softmax { logits: logits.view().narrow(1, 0, cols)?, probs: probs.view_mut(), temperature })
    }

    fn tolerance(_: Key) -> Tolerance {
        // The argument of the exponential, up to some tens, is rounded to f32.
        Tolerance { abs: 1e-30, rel: 2e-5 }
    }

    fn cost(a: &Softmax<'_>) -> Cost {
        let elements = a.logits.layout().elements() as u64;
        Cost { read: a.logits.bytes() as u64, written: 4 * elements, flops: 4 * elements }
    }
}

fn case(dtype: DType, rows: usize, cols: usize, gap: usize, temperature: f32) -> Case<(usize, f32)> {
    let tensors = vec![normal(1, dtype, &[rows, cols + gap], 4.0), unwritten(DType::F32, &[rows, cols])];
    Case { name: format!("{dtype} [{rows}, {cols}] gap {gap}"), tensors, params: (cols, temperature) }
}

fn special(dtype: DType, value: f32, all: bool) -> Case<(usize, f32)> {
    let mut case = case(dtype, 3, 50, 0, 1.0);
    let mut x = case.tensors[0].to_f32_vec().unwrap_or_default();
    match all {
        true => x[50..100].fill(value),
        false => x[50 + 33] = value,
    }
    case.tensors[0] = Tensor::from_f32(&x, dtype, &[3, 50]).unwrap_or_else(|e| panic!("test data: {e}"));
    case.name = format!("{dtype} {} {value} in row 1", if all { "only" } else { "one" });
    case
}
