//! `layernorm.fused_add_rmsnorm`: residual += x; x = rmsnorm(residual) · w, in place, in one pass.

use crate::args::Arg;
use crate::data::{normal, poison};
use crate::element::{at, put};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Residual addition and RMS normalisation in one pass, both in place.
    ///
    /// The variance and the normalised value come from the unrounded f32 sum; the stored residual is that
    /// sum rounded once. All tensors have one type: f32, f16 or bf16.
    pub struct FusedAddRmsNorm = "layernorm.fused_add_rmsnorm" {
        /// `[.., hidden]`: in, the block's output; out, the normalised sum.
        writes x,
        /// Shape of `x`: in, the residual; out, the sum.
        writes residual,
        /// `[hidden]`.
        reads weight,
        /// Added to the mean square, inside the root.
        value eps: f32,
    }
}

/// `residual += x; x = rmsnorm(residual) · weight`.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn fused_add_rmsnorm<'a>(
    x: impl Into<ViewMut<'a>>,
    residual: impl Into<ViewMut<'a>>,
    weight: impl Into<View<'a>>,
    eps: f32,
) -> Result<()> {
    FusedAddRmsNorm { x: x.into(), residual: residual.into(), weight: weight.into(), eps }.run()
}

impl FusedAddRmsNorm<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let arg = |name, view| Arg::new(Self::OP, name, view);
        let x = arg("x", self.x.as_view()).dtype(DTypeSet::FLOAT)?.output()?;
        let rows = x.rows()?;
        arg("residual", self.residual.as_view()).like(x)?.shape(self.x.shape())?.output()?.rows()?;
        arg("weight", self.weight).like(x)?.shape(&[rows.cols])?.rows()?;
        Ok(Valid { key: Key::of(self.x.dtype()), empty: rows.rows == 0 || rows.cols == 0 })
    }
}

unsafe fn reference(_: &Ctx, a: &FusedAddRmsNorm<'_>) -> Result<(), RunError> {
    let (Some(x), Some(res)) = (a.x.rows(), a.residual.rows()) else { return Ok(()) };
    for r in 0..x.rows {
        // SAFETY: r and i are inside the rows that the checks found; each element is read before it is written.
        unsafe {
            let sum =
                |i| at(&a.x.as_view(), r * x.stride + i) + at(&a.residual.as_view(), r * res.stride + i);
            let sums: Vec<f64> = (0..x.cols).map(sum).collect();
            let mean = sums.iter().map(|s| s * s).sum::<f64>() / x.cols as f64;
            let scale = 1.0 / (mean + f64::from(a.eps)).sqrt();
            for (i, s) in sums.iter().enumerate() {
                put(&a.residual, r * res.stride + i, *s);
                put(&a.x, r * x.stride + i, s * scale * at(&a.weight, i));
            }
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: FusedAddRmsNorm,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: reference,
});

crate::contract!(FusedAddRmsNorm);

impl Contract for FusedAddRmsNorm<'static> {
    /// Columns to use.
    type Params = usize;
    const OUTPUTS: &'static [usize] = &[0, 1];

    fn cases() -> Vec<Case<usize>> {
        let sizes = [(1, 1, 0), (3, 17, 0), (2, 576, 0), (5, 1368, 24), (1, 4096, 0), (0, 64, 0)];
        let of = |d| sizes.map(|(rows, cols, gap)| case(d, rows, cols, gap));
        let mut cases: Vec<_> = FLOATS.into_iter().flat_map(of).collect();
        for dtype in FLOATS {
            for tensor in 0..2 {
                let mut with_nan = case(dtype, 3, 40, 0);
                poison(&mut with_nan.tensors[tensor], 47);
                with_nan.name = format!("{dtype} a NaN in tensor {tensor}");
                cases.push(with_nan);
            }
        }
        cases
    }

    fn bench_cases() -> Vec<Case<usize>> {
        FLOATS.into_iter().flat_map(|d| [1, 16, 512].map(|rows| case(d, rows, 4096, 0))).collect()
    }

    fn bind<'a>(cols: &usize, tensors: &'a mut [Tensor]) -> Option<FusedAddRmsNorm<'a>> {
        let [x, residual, weight] = tensors else { return None };
        let (x, residual) = (x.view_mut().narrow(1, 0, *cols)?, residual.view_mut().narrow(1, 0, *cols)?);
        Some(FusedAddRmsNorm { x, residual, weight: weight.view(), eps: 1e-5 })
    }

    fn tolerance(key: Key) -> Tolerance {
        Tolerance::rounded(key, 1.01, 2e-6)
    }

    fn cost(a: &FusedAddRmsNorm<'_>) -> Cost {
        let n = 2 * a.x.bytes() as u64;
        Cost { read: n + a.weight.bytes() as u64, written: n, flops: 5 * a.x.layout().elements() as u64 }
    }
}

fn case(dtype: DType, rows: usize, cols: usize, gap: usize) -> Case<usize> {
    let tensors = vec![
        normal(1, dtype, &[rows, cols + gap], 1.0),
        normal(2, dtype, &[rows, cols + gap], 1.0),
        normal(3, dtype, &[cols], 1.0),
    ];
    Case { name: format!("{dtype} [{rows}, {cols}] gap {gap}"), tensors, params: cols }
}
