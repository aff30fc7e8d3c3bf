//! What the gated activations share: out = f(gate) · up, gate the first half of the last dimension, up the
//! second (Shazeer 2020).

use crate::args::Arg;
use crate::data::{normal, unwritten};
use crate::element::{at, put};
use crate::{Case, Cost, DTypeSet, FLOATS};
use kernels_core::{CallError, DType, Key, Tensor, Valid, View, ViewMut};

/// A whole op of this family.
macro_rules! gated_op {
    ($(#[doc = $doc:literal])+ $op:ident = $name:literal; fn $plain:ident, $into:ident; |$gate:ident| $value:expr) => {
        use $crate::activation::gated;
        use $crate::{Backend, Case, Contract, Cost, DTypeSet, Formats, Tolerance};
        use kernels_core::{CallError, Ctx, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

        kernels_core::op! {
            $(#[doc = $doc])+
            #[doc = ""]
            #[doc = "The gate is computed in f32, multiplied, and rounded once. Both tensors have one type: f32,"]
            #[doc = "f16 or bf16."]
            pub struct $op = $name {
                /// `[.., 2d]`: gate, then up; rows may have a stride.
                reads x,
                /// `[.., d]`; rows may have a stride.
                writes out,
            }
        }

        #[doc = concat!("`", $name, "` of `x`, in a new tensor.")]
        ///
        /// # Errors
        /// Shapes or types that do not fit, or no usable kernel.
        pub fn $plain<'a>(x: impl Into<View<'a>>) -> Result<Tensor> {
            let x = x.into();
            let mut shape = x.shape().to_vec();
            if let Some(last) = shape.last_mut() {
                *last /= 2;
            }
            // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
            let mut out = unsafe { Tensor::uninit(x.dtype(), &shape, x.device())? };
            $op { x, out: out.view_mut() }.run()?;
            Ok(out)
        }

        #[doc = concat!("`", $name, "` of `x`, into `out`.")]
        ///
        /// # Errors
        /// Shapes or types that do not fit, or no usable kernel.
        pub fn $into<'a>(x: impl Into<View<'a>>, out: impl Into<ViewMut<'a>>) -> Result<()> {
            $op { x: x.into(), out: out.into() }.run()
        }

        impl $op<'_> {
            fn validate(&self) -> Result<Valid, CallError> {
                gated::check(Self::OP, self.x, self.out.as_view())
            }
        }

        unsafe fn reference(_: &Ctx, a: &$op<'_>) -> Result<(), RunError> {
            // SAFETY: checked arguments on the host.
            unsafe { gated::reference(&a.x, &a.out, |$gate: f64| $value) };
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
            /// Half the columns to use.
            type Params = usize;
            const OUTPUTS: &'static [usize] = &[1];

            fn cases() -> Vec<Case<usize>> {
                gated::cases()
            }

            fn bench_cases() -> Vec<Case<usize>> {
                gated::bench_cases()
            }

            fn bind<'a>(d: &usize, tensors: &'a mut [Tensor]) -> Option<$op<'a>> {
                let [x, out] = tensors else { return None };
                Some($op { x: x.view().narrow(1, 0, 2 * d)?, out: out.view_mut().narrow(1, 0, *d)? })
            }

            fn tolerance(key: Key) -> Tolerance {
                $crate::activation::tolerance(key)
            }

            fn cost(a: &$op<'_>) -> Cost {
                gated::cost(&a.x, &a.out)
            }
        }
    };
}
pub(super) use gated_op;

pub(super) fn check(op: &'static str, x: View<'_>, out: View<'_>) -> Result<Valid, CallError> {
    let arg = |name, view| Arg::new(op, name, view);
    let input = arg("x", x).dtype(DTypeSet::FLOAT)?;
    let rows = input.rows()?;
    let output = arg("out", out).like(input)?.output()?;
    if rows.cols % 2 != 0 {
        return Err(input.shape_error(format!(
            "the last dimension holds gate and up, so it is even; {} given",
            rows.cols
        )));
    }
    output.rows_like(x.shape(), rows.cols / 2)?.rows()?;
    Ok(Valid { key: Key::of(x.dtype()), empty: rows.rows == 0 || rows.cols == 0 })
}

/// # Safety
/// Checked arguments on the host.
pub(super) unsafe fn reference(x: &View<'_>, out: &ViewMut<'_>, f: impl Fn(f64) -> f64) {
    let (Some(rows), Some(o)) = (x.rows(), out.rows()) else { return };
    for r in 0..rows.rows {
        for i in 0..o.cols {
            // SAFETY: r and i are inside the rows that the checks found.
            unsafe {
                let (gate, up) = (at(x, r * rows.stride + i), at(x, r * rows.stride + o.cols + i));
                put(out, r * o.stride + i, f(gate) * up);
            }
        }
    }
}

pub(super) fn cases() -> Vec<Case<usize>> {
    let mut cases = Vec::new();
    for dtype in FLOATS {
        // 3420 is a size on which an alignment check on 2d instead of d goes wrong.
        for (rows, d, gap) in [(1, 1, 0), (3, 17, 0), (2, 1536, 0), (5, 3420, 12), (0, 64, 0), (1, 11008, 0)]
        {
            cases.push(case(dtype, rows, d, gap, 2.0));
        }
        // Where the exponential over- and underflows.
        cases.push(case(dtype, 2, 100, 0, 60.0));
        cases.push(special(dtype));
    }
    cases
}

pub(super) fn bench_cases() -> Vec<Case<usize>> {
    FLOATS
        .into_iter()
        .flat_map(|d| [(1, 11008), (16, 11008), (512, 4096)].map(|(r, c)| case(d, r, c, 0, 2.0)))
        .collect()
}

pub(super) fn cost(x: &View<'_>, out: &ViewMut<'_>) -> Cost {
    // exp, two divisions or products, an addition: the exponential counted as one.
    let elements = out.layout().elements() as u64;
    Cost { read: x.bytes() as u64, written: out.bytes() as u64, flops: 5 * elements }
}

fn case(dtype: DType, rows: usize, d: usize, gap: usize, scale: f32) -> Case<usize> {
    let tensors = vec![normal(1, dtype, &[rows, 2 * d + gap], scale), unwritten(dtype, &[rows, d + gap])];
    Case { name: format!("{dtype} [{rows}, 2x{d}] gap {gap} scale {scale}"), tensors, params: d }
}

fn special(dtype: DType) -> Case<usize> {
    let values = super::SPECIAL;
    let x: Vec<f32> = values.iter().copied().chain(values.map(|_| 1.5)).collect();
    let d = values.len();
    let x = Tensor::from_f32(&x, dtype, &[1, 2 * d]).unwrap_or_else(|e| panic!("test data: {e}"));
    Case { name: format!("{dtype} special values"), tensors: vec![x, unwritten(dtype, &[1, d])], params: d }
}
