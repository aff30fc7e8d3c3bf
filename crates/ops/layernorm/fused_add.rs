//! What the two fused norms share: residual += x; x = rmsnorm(residual) · (offset + w), with offset 0 or 1.

use crate::args::Arg;
use crate::data::{normal, poison};
use crate::element::{at, put};
use crate::{Case, Cost, DTypeSet, FLOATS};
use kernels_core::{CallError, DType, Key, Valid, View, ViewMut};

/// A whole op of this family.
macro_rules! fused_op {
    ($(#[doc = $doc:literal])+ $op:ident = $name:literal; fn $run:ident; offset $offset:literal) => {
        use $crate::layernorm::fused_add;
        use $crate::{Backend, Case, Contract, Cost, DTypeSet, Formats, Tolerance};
        use kernels_core::{CallError, Ctx, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

        kernels_core::op! {
            $(#[doc = $doc])+
            #[doc = ""]
            #[doc = "The variance and the normalised value come from the unrounded f32 sum; the stored residual is"]
            #[doc = "that sum rounded once. All tensors have one type: f32, f16 or bf16."]
            pub struct $op = $name {
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

        #[doc = concat!("`", $name, "`, both tensors in place.")]
        ///
        /// # Errors
        /// Shapes or types that do not fit, or no usable kernel.
        pub fn $run<'a>(
            x: impl Into<ViewMut<'a>>,
            residual: impl Into<ViewMut<'a>>,
            weight: impl Into<View<'a>>,
            eps: f32,
        ) -> Result<()> {
            $op { x: x.into(), residual: residual.into(), weight: weight.into(), eps }.run()
        }

        impl $op<'_> {
            fn validate(&self) -> Result<Valid, CallError> {
                fused_add::check(Self::OP, self.x.as_view(), self.residual.as_view(), self.weight)
            }
        }

        unsafe fn reference(_: &Ctx, a: &$op<'_>) -> Result<(), RunError> {
            // SAFETY: checked arguments on the host.
            unsafe { fused_add::reference(&a.x, &a.residual, &a.weight, a.eps, $offset) };
            Ok(())
        }

        kernel!(unsafe {
            op: $op,
            backend: Backend::REFERENCE,
            variant: "",
            formats: Formats::same(DTypeSet::FLOAT),
            run: reference,
        });

        $crate::contract!($op);

        impl Contract for $op<'static> {
            /// Columns to use.
            type Params = usize;
            const OUTPUTS: &'static [usize] = &[0, 1];

            fn cases() -> Vec<Case<usize>> {
                fused_add::cases()
            }

            fn bench_cases() -> Vec<Case<usize>> {
                fused_add::bench_cases()
            }

            fn bind<'a>(cols: &usize, tensors: &'a mut [Tensor]) -> Option<$op<'a>> {
                let [x, residual, weight] = tensors else { return None };
                let (x, residual) =
                    (x.view_mut().narrow(1, 0, *cols)?, residual.view_mut().narrow(1, 0, *cols)?);
                Some($op { x, residual, weight: weight.view(), eps: 1e-5 })
            }

            fn tolerance(key: Key) -> Tolerance {
                Tolerance::rounded(key, 1.01, 2e-6)
            }

            fn cost(a: &$op<'_>) -> Cost {
                fused_add::cost(&a.x, &a.weight)
            }
        }
    };
}
pub(super) use fused_op;

pub(super) fn check(
    op: &'static str,
    x: View<'_>,
    residual: View<'_>,
    weight: View<'_>,
) -> Result<Valid, CallError> {
    let rows = Arg::new(op, "x", x).dtype(DTypeSet::FLOAT)?.output()?.rows()?;
    check_beside(op, x, residual, weight)?;
    Ok(Valid { key: Key::of(x.dtype()), empty: rows.rows == 0 || rows.cols == 0 })
}

/// Checks what goes with an `x` that is rows of floats.
pub(super) fn check_beside(
    op: &'static str,
    x: View<'_>,
    residual: View<'_>,
    weight: View<'_>,
) -> Result<(), CallError> {
    let arg = |name, view| Arg::new(op, name, view);
    let input = arg("x", x);
    let cols = input.rows()?.cols;
    arg("residual", residual).like(input)?.shape(x.shape())?.output()?.rows()?;
    arg("weight", weight).like(input)?.shape(&[cols])?.rows()?;
    Ok(())
}

/// # Safety
/// Checked arguments on the host.
pub(super) unsafe fn reference(
    x: &ViewMut<'_>,
    residual: &ViewMut<'_>,
    weight: &View<'_>,
    eps: f32,
    offset: f64,
) {
    let (Some(rows), Some(res)) = (x.rows(), residual.rows()) else { return };
    for r in 0..rows.rows {
        // SAFETY: r and i are inside the rows that the checks found; each element is read before it is written.
        unsafe {
            let sum = |i| at(&x.as_view(), r * rows.stride + i) + at(&residual.as_view(), r * res.stride + i);
            let sums: Vec<f64> = (0..rows.cols).map(sum).collect();
            let scale = scale(&sums, eps);
            for (i, s) in sums.iter().enumerate() {
                put(residual, r * res.stride + i, *s);
                put(x, r * rows.stride + i, s * scale * (offset + at(weight, i)));
            }
        }
    }
}

/// What a row of sums is multiplied by.
pub(super) fn scale(sums: &[f64], eps: f32) -> f64 {
    let mean = sums.iter().map(|s| s * s).sum::<f64>() / sums.len() as f64;
    1.0 / (mean + f64::from(eps)).sqrt()
}

pub(super) fn cases() -> Vec<Case<usize>> {
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

pub(super) fn bench_cases() -> Vec<Case<usize>> {
    FLOATS.into_iter().flat_map(|d| [1, 16, 512].map(|rows| case(d, rows, 4096, 0))).collect()
}

pub(super) fn cost(x: &ViewMut<'_>, weight: &View<'_>) -> Cost {
    let (n, elements) = (2 * x.bytes() as u64, x.layout().elements() as u64);
    Cost { read: n + weight.bytes() as u64, written: n, flops: 5 * elements }
}

fn case(dtype: DType, rows: usize, cols: usize, gap: usize) -> Case<usize> {
    let tensors = vec![
        normal(1, dtype, &[rows, cols + gap], 1.0),
        normal(2, dtype, &[rows, cols + gap], 1.0),
        normal(3, dtype, &[cols], 1.0),
    ];
    Case { name: format!("{dtype} [{rows}, {cols}] gap {gap}"), tensors, params: cols }
}
