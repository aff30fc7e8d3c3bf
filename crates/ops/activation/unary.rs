//! What the plain activations share: out = f(x), element by element.

use crate::args::Arg;
use crate::data::{normal, unwritten};
use crate::element::{at, put};
use crate::{Case, DTypeSet, FLOATS};
use kernels_core::{CallError, DType, Key, Tensor, Valid, View, ViewMut};

/// A whole op of this family.
macro_rules! unary_op {
    ($(#[doc = $doc:literal])+ $op:ident = $name:literal; fn $plain:ident, $into:ident; |$x:ident| $value:expr) => {
        use $crate::activation::unary;
        use $crate::{Backend, Case, Contract, Cost, DTypeSet, Formats, Tolerance};
        use kernels_core::{CallError, Ctx, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

        kernels_core::op! {
            $(#[doc = $doc])+
            #[doc = ""]
            #[doc = "Computed in f32, rounded once. Both tensors have one type: f32, f16 or bf16."]
            pub struct $op = $name {
                /// `[.., cols]`; rows may have a stride.
                reads x,
                /// Shape of `x`; rows may have a stride.
                writes out,
            }
        }

        #[doc = concat!("`", $name, "` of `x`, in a new tensor.")]
        ///
        /// # Errors
        /// Shapes or types that do not fit, or no usable kernel.
        pub fn $plain<'a>(x: impl Into<View<'a>>) -> Result<Tensor> {
            let x = x.into();
            // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
            let mut out = unsafe { Tensor::uninit(x.dtype(), x.shape(), x.device())? };
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
                unary::check(Self::OP, self.x, self.out.as_view())
            }
        }

        unsafe fn reference(_: &Ctx, a: &$op<'_>) -> Result<(), RunError> {
            // SAFETY: checked arguments on the host.
            unsafe { unary::reference(&a.x, &a.out, |$x: f64| $value) };
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
            const OUTPUTS: &'static [usize] = &[1];

            fn cases() -> Vec<Case<usize>> {
                unary::cases()
            }

            fn bench_cases() -> Vec<Case<usize>> {
                unary::bench_cases()
            }

            fn bind<'a>(cols: &usize, tensors: &'a mut [Tensor]) -> Option<$op<'a>> {
                let [x, out] = tensors else { return None };
                Some($op { x: x.view().narrow(1, 0, *cols)?, out: out.view_mut().narrow(1, 0, *cols)? })
            }

            fn tolerance(key: Key) -> Tolerance {
                $crate::activation::tolerance(key)
            }

            fn cost(a: &$op<'_>) -> Cost {
                let elements = a.x.layout().elements() as u64;
                Cost { read: a.x.bytes() as u64, written: a.out.bytes() as u64, flops: 4 * elements }
            }
        }
    };
}
pub(super) use unary_op;

pub(super) fn check(op: &'static str, x: View<'_>, out: View<'_>) -> Result<Valid, CallError> {
    let arg = |name, view| Arg::new(op, name, view);
    let input = arg("x", x).dtype(DTypeSet::FLOAT)?;
    let rows = input.rows()?;
    arg("out", out).like(input)?.shape(x.shape())?.output()?.rows()?;
    Ok(Valid { key: Key::of(x.dtype()), empty: rows.rows == 0 || rows.cols == 0 })
}

/// # Safety
/// Checked arguments on the host.
pub(super) unsafe fn reference(x: &View<'_>, out: &ViewMut<'_>, f: impl Fn(f64) -> f64) {
    let (Some(rows), Some(o)) = (x.rows(), out.rows()) else { return };
    for r in 0..rows.rows {
        for i in 0..rows.cols {
            // SAFETY: r and i are inside the rows that the checks found.
            unsafe { put(out, r * o.stride + i, f(at(x, r * rows.stride + i))) };
        }
    }
}

pub(super) fn cases() -> Vec<Case<usize>> {
    let mut cases = Vec::new();
    for dtype in FLOATS {
        for (rows, cols, gap) in [(1, 1, 0), (3, 17, 0), (5, 3420, 12), (0, 64, 0), (1, 11008, 0)] {
            cases.push(case(dtype, rows, cols, gap, 2.0));
        }
        cases.push(case(dtype, 2, 100, 0, 60.0));
        let special = Tensor::from_f32(&super::SPECIAL, dtype, &[1, super::SPECIAL.len()]);
        let x = special.unwrap_or_else(|e| panic!("test data: {e}"));
        let tensors = vec![x, unwritten(dtype, &[1, super::SPECIAL.len()])];
        cases.push(Case { name: format!("{dtype} special values"), tensors, params: super::SPECIAL.len() });
    }
    cases
}

pub(super) fn bench_cases() -> Vec<Case<usize>> {
    FLOATS.into_iter().flat_map(|d| [(1, 11008), (512, 4096)].map(|(r, c)| case(d, r, c, 0, 2.0))).collect()
}

fn case(dtype: DType, rows: usize, cols: usize, gap: usize, scale: f32) -> Case<usize> {
    let shape = [rows, cols + gap];
    let tensors = vec![normal(1, dtype, &shape, scale), unwritten(dtype, &shape)];
    Case { name: format!("{dtype} [{rows}, {cols}] gap {gap} scale {scale}"), tensors, params: cols }
}
