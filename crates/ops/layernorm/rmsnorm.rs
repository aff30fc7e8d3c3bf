//! `layernorm.rmsnorm`: y = x / sqrt(mean(x²) + eps) · w over the last dimension (Zhang & Sennrich 2019).

use crate::args::Arg;
use crate::data::{normal, unwritten};
use crate::element::{at, put};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Root-mean-square normalisation times a weight.
    ///
    /// Sums in f32 or better, rounds once. All tensors have one type: f32, f16 or bf16.
    pub struct RmsNorm = "layernorm.rmsnorm" {
        /// `[.., hidden]`; rows may have a stride.
        reads x,
        /// `[hidden]`.
        reads weight,
        /// Shape of `x`; rows may have a stride.
        writes out,
        /// Added to the mean square, inside the root.
        value eps: f32,
    }
}

/// RMS-normalised `x`, in a new tensor.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn rmsnorm<'a>(x: impl Into<View<'a>>, weight: impl Into<View<'a>>, eps: f32) -> Result<Tensor> {
    let (x, weight) = (x.into(), weight.into());
    // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
    let mut out = unsafe { Tensor::uninit(x.dtype(), x.shape(), x.device())? };
    RmsNorm { x, weight, out: out.view_mut(), eps }.run()?;
    Ok(out)
}

/// RMS-normalised `x`, into `out`.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn rmsnorm_into<'a>(
    x: impl Into<View<'a>>,
    weight: impl Into<View<'a>>,
    eps: f32,
    out: impl Into<ViewMut<'a>>,
) -> Result<()> {
    RmsNorm { x: x.into(), weight: weight.into(), out: out.into(), eps }.run()
}

impl RmsNorm<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let arg = |name, view| Arg::new(Self::OP, name, view);
        let x = arg("x", self.x).dtype(DTypeSet::FLOAT)?;
        let rows = x.rows()?;
        arg("weight", self.weight).like(x)?.shape(&[rows.cols])?.rows()?;
        arg("out", self.out.as_view()).like(x)?.shape(self.x.shape())?.output()?.rows()?;
        Ok(Valid { key: Key::of(self.x.dtype()), empty: rows.rows == 0 || rows.cols == 0 })
    }
}

unsafe fn reference(_: &Ctx, a: &RmsNorm<'_>) -> Result<(), RunError> {
    let (Some(x), Some(o)) = (a.x.rows(), a.out.rows()) else { return Ok(()) };
    for r in 0..x.rows {
        // SAFETY: r and i are inside the rows that the checks found.
        unsafe {
            let squares: f64 = (0..x.cols).map(|i| at(&a.x, r * x.stride + i).powi(2)).sum();
            let scale = 1.0 / (squares / x.cols as f64 + f64::from(a.eps)).sqrt();
            for i in 0..x.cols {
                put(&a.out, r * o.stride + i, at(&a.x, r * x.stride + i) * scale * at(&a.weight, i));
            }
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: RmsNorm,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: reference,
});

crate::contract!(RmsNorm);

impl Contract for RmsNorm<'static> {
    /// Columns to use, and eps.
    type Params = (usize, f32);
    const OUTPUTS: &'static [usize] = &[2];

    fn cases() -> Vec<Case<Self::Params>> {
        let mut cases = Vec::new();
        for dtype in FLOATS {
            // Odd sizes, one that no vector width divides, one row, none, and rows with gaps.
            for (rows, cols, gap) in
                [(1, 1, 0), (3, 17, 0), (2, 576, 0), (5, 1368, 24), (1, 4096, 0), (0, 64, 0), (33, 129, 7)]
            {
                cases.push(case(dtype, rows, cols, gap, 1.0));
            }
            let large = if dtype == DType::F16 { 200.0 } else { 1e15 };
            cases.push(case(dtype, 2, 100, 0, large));
            cases.push(case(dtype, 2, 100, 0, 1e-6));
            cases.push(special(dtype, f32::NAN, "nan"));
            cases.push(special(dtype, f32::INFINITY, "inf"));
        }
        cases
    }

    fn bench_cases() -> Vec<Case<Self::Params>> {
        let sizes = FLOATS.map(|d| [1, 16, 512].map(|rows| case(d, rows, 4096, 0, 1.0)));
        sizes.into_iter().flatten().collect()
    }

    fn bind<'a>(params: &Self::Params, tensors: &'a mut [Tensor]) -> Option<RmsNorm<'a>> {
        let [x, weight, out] = tensors else { return None };
        let (cols, eps) = *params;
        let (x, out) = (x.view().narrow(1, 0, cols)?, out.view_mut().narrow(1, 0, cols)?);
        Some(RmsNorm { x, weight: weight.view(), out, eps })
    }

    fn tolerance(key: Key) -> Tolerance {
        Tolerance { abs: 1e-30, ..Tolerance::rounded(key, 1.01, 2e-6) }
    }

    fn cost(a: &RmsNorm<'_>) -> Cost {
        let n = a.x.bytes() as u64;
        let elements = a.x.layout().elements() as u64;
        Cost { read: n + a.weight.bytes() as u64, written: n, flops: 4 * elements }
    }
}

fn case(dtype: DType, rows: usize, cols: usize, gap: usize, scale: f32) -> Case<(usize, f32)> {
    let tensors = vec![
        normal(1, dtype, &[rows, cols + gap], scale),
        normal(2, dtype, &[cols], 1.0),
        unwritten(dtype, &[rows, cols + gap]),
    ];
    let name = format!("{dtype} [{rows}, {cols}] gap {gap} scale {scale:e}");
    Case { name, tensors, params: (cols, 1e-5) }
}

fn special(dtype: DType, value: f32, what: &str) -> Case<(usize, f32)> {
    let mut case = case(dtype, 3, 40, 0, 1.0);
    let mut x = case.tensors[0].to_f32_vec().unwrap_or_default();
    x[40 + 7] = value;
    case.tensors[0] = Tensor::from_f32(&x, dtype, &[3, 40]).unwrap_or_else(|e| panic!("test data: {e}"));
    case.name = format!("{dtype} one {what} in row 1");
    case
}
