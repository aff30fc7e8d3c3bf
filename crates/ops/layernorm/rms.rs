//! What `rmsnorm` and `gemma_rmsnorm` share: y = x / sqrt(mean(x²) + eps) · (offset + w) over the last
//! dimension, with offset 0 or 1.

use crate::args::Arg;
use crate::data::{normal, unwritten};
use crate::element::{at, put};
use crate::{Case, Cost, DTypeSet, FLOATS};
use kernels_core::{CallError, DType, Key, Tensor, Valid, View, ViewMut};

/// A whole op of this family.
macro_rules! rms_op {
    ($(#[doc = $doc:literal])+ $op:ident = $name:literal; fn $plain:ident, $into:ident; offset $offset:literal) => {
        use $crate::layernorm::rms;
        use $crate::{Backend, Case, Contract, Cost, DTypeSet, Formats, Tolerance};
        use kernels_core::{CallError, Ctx, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

        kernels_core::op! {
            $(#[doc = $doc])+
            #[doc = ""]
            #[doc = "Sums in f32 or better, rounds once. All tensors have one type: f32, f16 or bf16."]
            pub struct $op = $name {
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

        #[doc = concat!("`", $name, "` of `x`, in a new tensor.")]
        ///
        /// # Errors
        /// Shapes or types that do not fit, or no usable kernel.
        pub fn $plain<'a>(x: impl Into<View<'a>>, weight: impl Into<View<'a>>, eps: f32) -> Result<Tensor> {
            let (x, weight) = (x.into(), weight.into());
            // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
            let mut out = unsafe { Tensor::uninit(x.dtype(), x.shape(), x.device())? };
            $op { x, weight, out: out.view_mut(), eps }.run()?;
            Ok(out)
        }

        #[doc = concat!("`", $name, "` of `x`, into `out`.")]
        ///
        /// # Errors
        /// Shapes or types that do not fit, or no usable kernel.
        pub fn $into<'a>(
            x: impl Into<View<'a>>,
            weight: impl Into<View<'a>>,
            eps: f32,
            out: impl Into<ViewMut<'a>>,
        ) -> Result<()> {
            $op { x: x.into(), weight: weight.into(), out: out.into(), eps }.run()
        }

        impl $op<'_> {
            fn validate(&self) -> Result<Valid, CallError> {
                rms::check(Self::OP, self.x, self.weight, self.out.as_view())
            }
        }

        unsafe fn reference(_: &Ctx, a: &$op<'_>) -> Result<(), RunError> {
            // SAFETY: checked arguments on the host.
            unsafe { rms::reference(&a.x, &a.weight, &a.out, a.eps, $offset) };
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
            /// Columns to use, and eps.
            type Params = (usize, f32);
            const OUTPUTS: &'static [usize] = &[2];

            fn cases() -> Vec<Case<Self::Params>> {
                rms::cases()
            }

            fn bench_cases() -> Vec<Case<Self::Params>> {
                rms::bench_cases()
            }

            fn bind<'a>(params: &Self::Params, tensors: &'a mut [Tensor]) -> Option<$op<'a>> {
                let [x, weight, out] = tensors else { return None };
                let (cols, eps) = *params;
                let (x, out) = (x.view().narrow(1, 0, cols)?, out.view_mut().narrow(1, 0, cols)?);
                Some($op { x, weight: weight.view(), out, eps })
            }

            fn tolerance(key: Key) -> Tolerance {
                Tolerance { abs: 1e-30, ..Tolerance::rounded(key, 1.01, 2e-6) }
            }

            fn cost(a: &$op<'_>) -> Cost {
                rms::cost(&a.x, &a.weight)
            }
        }
    };
}
pub(super) use rms_op;

pub(super) fn check(
    op: &'static str,
    x: View<'_>,
    weight: View<'_>,
    out: View<'_>,
) -> Result<Valid, CallError> {
    let arg = |name, view| Arg::new(op, name, view);
    let input = arg("x", x).dtype(DTypeSet::FLOAT)?;
    let rows = input.rows()?;
    arg("weight", weight).like(input)?.shape(&[rows.cols])?.rows()?;
    arg("out", out).like(input)?.shape(x.shape())?.output()?.rows()?;
    Ok(Valid { key: Key::of(x.dtype()), empty: rows.rows == 0 || rows.cols == 0 })
}

/// # Safety
/// Checked arguments on the host.
pub(super) unsafe fn reference(x: &View<'_>, weight: &View<'_>, out: &ViewMut<'_>, eps: f32, offset: f64) {
    let (Some(rows), Some(o)) = (x.rows(), out.rows()) else { return };
    for r in 0..rows.rows {
        // SAFETY: r and i are inside the rows that the checks found.
        unsafe {
            let squares: f64 = (0..rows.cols).map(|i| at(x, r * rows.stride + i).powi(2)).sum();
            let scale = 1.0 / (squares / rows.cols as f64 + f64::from(eps)).sqrt();
            for i in 0..rows.cols {
                put(out, r * o.stride + i, at(x, r * rows.stride + i) * scale * (offset + at(weight, i)));
            }
        }
    }
}

pub(super) fn cases() -> Vec<Case<(usize, f32)>> {
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

pub(super) fn bench_cases() -> Vec<Case<(usize, f32)>> {
    FLOATS.into_iter().flat_map(|d| [1, 16, 512].map(|rows| case(d, rows, 4096, 0, 1.0))).collect()
}

pub(super) fn cost(x: &View<'_>, weight: &View<'_>) -> Cost {
    let (n, elements) = (x.bytes() as u64, x.layout().elements() as u64);
    Cost { read: n + weight.bytes() as u64, written: n, flops: 4 * elements }
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
