//! `layernorm.add_rmsnorm_quant`: residual += x; q, scales = quantised(residual / sqrt(mean(residual²) + eps) · w), in
//! one pass (Zhang & Sennrich 2019; Yao et al. 2022, ZeroQuant).

use super::fused_add;
use crate::data::{normal, poison, unwritten};
use crate::element::{at, put};
use crate::quantization::{FLOOR, check_dynamic, computed_tolerance, quantise};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Residual addition, RMS normalisation, and the normalised rows as 8-bit values with a scale each.
    ///
    /// As `layernorm.fused_add_rmsnorm` and then a quantisation by rows, without rounding the normalised values
    /// in between: what an 8-bit product takes next. `x`, the residual and the weight have one type: f32, f16
    /// or bf16. In f32: m = max(|y|, 1e-10) of the row, the scale m / L and the values y · (L / m), rounded to
    /// even and saturated, where L is 127 for i8 and 448 for f8_e4m3. A NaN makes the row's scale NaN.
    pub struct AddRmsNormQuant = "layernorm.add_rmsnorm_quant" {
        /// `[tokens, hidden]`; rows may have a stride.
        reads x,
        /// Shape of `x`: in, the residual; out, the sum, rounded once.
        writes residual,
        /// `[hidden]`.
        reads weight,
        /// Shape of `x`, i8 or f8_e4m3; rows may have a stride.
        writes q,
        /// `[tokens]` f32.
        writes scales,
        /// Added to the mean square, inside the root.
        value eps: f32,
    }
}

/// Adds `x` to `residual`, and gives the normalised sum as values of type `dtype` and scales, in new tensors.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn add_rmsnorm_quant<'a>(
    x: impl Into<View<'a>>,
    residual: impl Into<ViewMut<'a>>,
    weight: impl Into<View<'a>>,
    eps: f32,
    dtype: DType,
) -> Result<(Tensor, Tensor)> {
    let (x, residual, weight) = (x.into(), residual.into(), weight.into());
    let tokens = &x.shape()[..x.shape().len().saturating_sub(1)];
    // SAFETY: the kernel writes every element; on an error the tensors are dropped unread.
    let (mut q, mut scales) = unsafe {
        let q = Tensor::uninit(dtype, x.shape(), x.device())?;
        (q, Tensor::uninit(DType::F32, tokens, x.device())?)
    };
    add_rmsnorm_quant_into(x, residual, weight, eps, [q.view_mut(), scales.view_mut()])?;
    Ok((q, scales))
}

/// Adds `x` to `residual`, and gives the normalised sum into `q` and `scales`.
///
/// # Errors
/// As [`add_rmsnorm_quant`].
pub fn add_rmsnorm_quant_into<'a>(
    x: impl Into<View<'a>>,
    residual: impl Into<ViewMut<'a>>,
    weight: impl Into<View<'a>>,
    eps: f32,
    [q, scales]: [ViewMut<'a>; 2],
) -> Result<()> {
    AddRmsNormQuant { x: x.into(), residual: residual.into(), weight: weight.into(), q, scales, eps }.run()
}

impl AddRmsNormQuant<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let quantised = (self.q.as_view(), DTypeSet::EIGHT_BIT);
        let valid = check_dynamic(Self::OP, self.x, quantised, self.scales.as_view(), None)?;
        fused_add::check_beside(Self::OP, self.x, self.residual.as_view(), self.weight)?;
        Ok(valid)
    }
}

unsafe fn reference(_: &Ctx, a: &AddRmsNormQuant<'_>) -> Result<(), RunError> {
    let (Some(rows), Some(res), Some(out)) = (a.x.rows(), a.residual.rows(), a.q.rows()) else {
        return Ok(());
    };
    for r in 0..rows.rows {
        // SAFETY: rows and elements are inside their tensors.
        unsafe {
            let sum = |i| at(&a.x, r * rows.stride + i) + at(&a.residual.as_view(), r * res.stride + i);
            let sums: Vec<f64> = (0..rows.cols).map(sum).collect();
            let scale = fused_add::scale(&sums, a.eps);
            sums.iter().enumerate().for_each(|(i, s)| put(&a.residual, r * res.stride + i, *s));
            let normalised = |(i, s): (usize, &f64)| (s * scale * at(&a.weight, i)) as f32;
            let values: Vec<f32> = sums.iter().enumerate().map(normalised).collect();
            let scale = quantise(&values, &a.q, r * out.stride, FLOOR);
            put(&a.scales, r * a.scales.stride(0), f64::from(scale));
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: AddRmsNormQuant,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::EIGHT_BIT),
    run: reference,
});

crate::contract!(AddRmsNormQuant);

impl Contract for AddRmsNormQuant<'static> {
    /// Columns to use.
    type Params = usize;
    const OUTPUTS: &'static [usize] = &[1, 3, 4];

    fn cases() -> Vec<Case<usize>> {
        let sizes = [(1, 1, 0), (3, 17, 0), (2, 576, 0), (5, 1368, 24), (1, 4096, 0), (0, 64, 0)];
        let mut cases = Vec::new();
        for dtype in FLOATS {
            for to in DTypeSet::EIGHT_BIT.iter() {
                cases.extend(sizes.map(|(rows, cols, gap)| case(dtype, to, rows, cols, gap)));
                for tensor in 0..2 {
                    let mut with_nan = case(dtype, to, 3, 40, 0);
                    poison(&mut with_nan.tensors[tensor], 47);
                    with_nan.name = format!("{dtype} to {to}, a NaN in tensor {tensor}");
                    cases.push(with_nan);
                }
            }
        }
        cases
    }

    fn bench_cases() -> Vec<Case<usize>> {
        let of = |d| [1, 16, 512].map(|rows| case(d, DType::I8, rows, 4096, 0));
        FLOATS.into_iter().flat_map(of).collect()
    }

    fn bind<'a>(cols: &usize, tensors: &'a mut [Tensor]) -> Option<AddRmsNormQuant<'a>> {
        let [x, residual, weight, q, scales] = tensors else { return None };
        Some(AddRmsNormQuant {
            x: x.view().narrow(1, 0, *cols)?,
            residual: residual.view_mut().narrow(1, 0, *cols)?,
            weight: weight.view(),
            q: q.view_mut().narrow(1, 0, *cols)?,
            scales: scales.view_mut(),
            eps: 1e-5,
        })
    }

    fn tolerance(key: Key) -> Tolerance {
        Tolerance::rounded(key, 1.01, 2e-6)
    }

    fn tolerance_of(key: Key, output: usize) -> Tolerance {
        match output {
            0 => Self::tolerance(key),
            1 => computed_tolerance(key),
            _ => Tolerance { abs: 0.0, rel: 4e-6 },
        }
    }

    fn cost(a: &AddRmsNormQuant<'_>) -> Cost {
        let read = (a.x.bytes() + a.residual.bytes() + a.weight.bytes()) as u64;
        let written = (a.residual.bytes() + a.q.bytes() + a.scales.bytes()) as u64;
        Cost { read, written, flops: 8 * a.x.layout().elements() as u64 }
    }
}

fn case(dtype: DType, to: DType, rows: usize, cols: usize, gap: usize) -> Case<usize> {
    let shape = [rows, cols + gap];
    let tensors = vec![
        normal(1, dtype, &shape, 1.0),
        normal(2, dtype, &shape, 1.0),
        normal(3, dtype, &[cols], 1.0),
        unwritten(to, &shape),
        unwritten(DType::F32, &[rows]),
    ];
    Case { name: format!("{dtype} to {to} [{rows}, {cols}] gap {gap}"), tensors, params: cols }
}
