//! `layernorm.layernorm`: y = (x − mean) / sqrt(variance + eps) · w + b over the last dimension (Ba, Kiros &
//! Hinton 2016).

use crate::args::Arg;
use crate::data::{normal, poison, unwritten};
use crate::element::{at, put};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Normalisation to mean 0 and variance 1, times a weight, plus a bias.
    ///
    /// The variance is the mean square of the differences from the mean (two passes), in f32 or better;
    /// rounded once. All tensors have one type: f32, f16 or bf16.
    pub struct LayerNorm = "layernorm.layernorm" {
        /// `[.., hidden]`; rows may have a stride.
        reads x,
        /// `[hidden]`.
        reads weight,
        /// `[hidden]`.
        maybe bias,
        /// Shape of `x`; rows may have a stride.
        writes out,
        /// Added to the variance, inside the root.
        value eps: f32,
    }
}

/// Normalised `x`, in a new tensor.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn layernorm<'a>(
    x: impl Into<View<'a>>,
    weight: impl Into<View<'a>>,
    bias: Option<View<'a>>,
    eps: f32,
) -> Result<Tensor> {
    let (x, weight) = (x.into(), weight.into());
    // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
    let mut out = unsafe { Tensor::uninit(x.dtype(), x.shape(), x.device())? };
    LayerNorm { x, weight, bias, out: out.view_mut(), eps }.run()?;
    Ok(out)
}

/// Normalised `x`, into `out`.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn layernorm_into<'a>(
    x: impl Into<View<'a>>,
    weight: impl Into<View<'a>>,
    bias: Option<View<'a>>,
    eps: f32,
    out: impl Into<ViewMut<'a>>,
) -> Result<()> {
    LayerNorm { x: x.into(), weight: weight.into(), bias, out: out.into(), eps }.run()
}

impl LayerNorm<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let arg = |name, view| Arg::new(Self::OP, name, view);
        let x = arg("x", self.x).dtype(DTypeSet::FLOAT)?;
        let rows = x.rows()?;
        arg("weight", self.weight).like(x)?.shape(&[rows.cols])?.rows()?;
        if let Some(bias) = self.bias {
            arg("bias", bias).like(x)?.shape(&[rows.cols])?.rows()?;
        }
        arg("out", self.out.as_view()).like(x)?.shape(self.x.shape())?.output()?.rows()?;
        Ok(Valid { key: Key::of(self.x.dtype()), empty: rows.rows == 0 || rows.cols == 0 })
    }
}

unsafe fn reference(_: &Ctx, a: &LayerNorm<'_>) -> Result<(), RunError> {
    let (Some(x), Some(o)) = (a.x.rows(), a.out.rows()) else { return Ok(()) };
    for r in 0..x.rows {
        // SAFETY: r and i are inside the rows that the checks found.
        unsafe {
            let row: Vec<f64> = (0..x.cols).map(|i| at(&a.x, r * x.stride + i)).collect();
            let mean = row.iter().sum::<f64>() / x.cols as f64;
            let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / x.cols as f64;
            let scale = 1.0 / (variance + f64::from(a.eps)).sqrt();
            for (i, v) in row.iter().enumerate() {
                let bias = a.bias.as_ref().map_or(0.0, |b| at(b, i));
                put(&a.out, r * o.stride + i, (v - mean) * scale * at(&a.weight, i) + bias);
            }
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: LayerNorm,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: reference,
});

crate::contract!(LayerNorm);

impl Contract for LayerNorm<'static> {
    /// Columns to use, and whether there is a bias.
    type Params = (usize, bool);
    const OUTPUTS: &'static [usize] = &[3];

    fn cases() -> Vec<Case<Self::Params>> {
        // A mean a thousand times the deviation: E[x²] − E[x]² would have no digits left.
        let mut cases = vec![case(DType::F32, 2, 500, 0, 1000.0, true)];
        for dtype in FLOATS {
            for (rows, cols, gap) in [(1, 1, 0), (3, 17, 0), (2, 768, 0), (5, 1368, 24), (0, 64, 0)] {
                cases.push(case(dtype, rows, cols, gap, 0.0, gap == 0));
            }
            let mut with_nan = case(dtype, 3, 40, 0, 0.0, true);
            poison(&mut with_nan.tensors[0], 47);
            with_nan.name = format!("{dtype} a NaN in row 1");
            cases.push(with_nan);
        }
        cases
    }

    fn bench_cases() -> Vec<Case<Self::Params>> {
        FLOATS.into_iter().flat_map(|d| [1, 16, 512].map(|r| case(d, r, 4096, 0, 0.0, true))).collect()
    }

    fn bind<'a>(params: &Self::Params, tensors: &'a mut [Tensor]) -> Option<LayerNorm<'a>> {
        let [x, weight, bias, out] = tensors else { return None };
        let (cols, has_bias) = *params;
        let (x, out) = (x.view().narrow(1, 0, cols)?, out.view_mut().narrow(1, 0, cols)?);
        Some(LayerNorm { x, weight: weight.view(), bias: has_bias.then(|| bias.view()), out, eps: 1e-5 })
    }

    fn tolerance(key: Key) -> Tolerance {
        // The mean is known to f32: against a deviation a thousand times smaller that is 1e-4.
        Tolerance { abs: 1e-4, ..Tolerance::rounded(key, 1.01, 2e-5) }
    }

    fn cost(a: &LayerNorm<'_>) -> Cost {
        let (n, elements) = (a.x.bytes() as u64, a.x.layout().elements() as u64);
        Cost { read: n + 2 * a.weight.bytes() as u64, written: n, flops: 7 * elements }
    }
}

fn case(
    dtype: DType,
    rows: usize,
    cols: usize,
    gap: usize,
    mean: f32,
    has_bias: bool,
) -> Case<(usize, bool)> {
    let mut x = normal(1, dtype, &[rows, cols + gap], 1.0);
    if mean != 0.0 {
        let shifted: Vec<f32> = x.to_f32_vec().unwrap_or_default().iter().map(|v| v + mean).collect();
        x = Tensor::from_f32(&shifted, dtype, &[rows, cols + gap])
            .unwrap_or_else(|e| panic!("test data: {e}"));
    }
    let tensors = vec![
        x,
        normal(2, dtype, &[cols], 1.0),
        normal(3, dtype, &[cols], 1.0),
        unwritten(dtype, &[rows, cols + gap]),
    ];
    let name = format!("{dtype} [{rows}, {cols}] gap {gap} mean {mean} bias {has_bias}");
    Case { name, tensors, params: (cols, has_bias) }
}
