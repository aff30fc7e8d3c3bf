//! What the products of 8-bit matrices share: out = (a · bᵀ) · scales_a · scales_b + bias.

use crate::args::Arg;
use crate::data::{Rng, normal, unwritten};
use crate::element::{at, put};
use crate::{Case, Cost, FLOATS, Tolerance};
use kernels_core::{CallError, DType, DTypeSet, Key, Tensor, Valid, View, ViewMut};

/// A whole op of this family.
macro_rules! scaled_op {
    ($(#[doc = $doc:literal])+ $op:ident = $name:literal; fn $plain:ident, $into:ident; of $dtype:ident, $shown:literal) => {
        use $crate::gemm::scaled;
        use $crate::{Backend, Case, Contract, Cost, DTypeSet, Formats, Tolerance};
        use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

        kernels_core::op! {
            $(#[doc = $doc])+
            #[doc = ""]
            #[doc = "`(a · bᵀ)[m, n] · scales_a[m] · scales_b[n] + bias[n]`, rounded once. The shape fact for"]
            #[doc = "selection is twice the number of rows of `a`, up to the next power of two; plus 1 where rows lie at"]
            #[doc = "multiples of 16 bytes, and so many features are in each."]
            pub struct $op = $name {
                #[doc = concat!("`[rows, in_features]`, ", $shown, "; rows may have a stride.")]
                reads a,
                #[doc = concat!("`[out_features, in_features]`, ", $shown, "; rows may have a stride.")]
                reads b,
                /// `[rows]` f32.
                reads scales_a,
                /// `[out_features]` f32.
                reads scales_b,
                /// `[out_features]`, of the type of `out`.
                maybe bias,
                /// `[rows, out_features]`, f32, f16 or bf16; rows may have a stride.
                writes out,
            }
        }

        #[doc = concat!("`", $name, "`, in a new tensor of type `out_dtype`.")]
        ///
        /// # Errors
        /// Shapes or types that do not fit, or no usable kernel.
        pub fn $plain<'a>(
            a: impl Into<View<'a>>,
            b: impl Into<View<'a>>,
            scales_a: impl Into<View<'a>>,
            scales_b: impl Into<View<'a>>,
            bias: Option<View<'a>>,
            out_dtype: DType,
        ) -> Result<Tensor> {
            let (a, b): (View<'_>, View<'_>) = (a.into(), b.into());
            let first = |v: &View<'_>| v.shape().first().copied().unwrap_or(0);
            // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
            let mut out = unsafe { Tensor::uninit(out_dtype, &[first(&a), first(&b)], a.device())? };
            let (scales_a, scales_b) = (scales_a.into(), scales_b.into());
            $op { a, b, scales_a, scales_b, bias, out: out.view_mut() }.run()?;
            Ok(out)
        }

        #[doc = concat!("`", $name, "`, into `out`.")]
        ///
        /// # Errors
        /// Shapes or types that do not fit, or no usable kernel.
        pub fn $into<'a>(
            a: impl Into<View<'a>>,
            b: impl Into<View<'a>>,
            scales_a: impl Into<View<'a>>,
            scales_b: impl Into<View<'a>>,
            bias: Option<View<'a>>,
            out: impl Into<ViewMut<'a>>,
        ) -> Result<()> {
            let (scales_a, scales_b) = (scales_a.into(), scales_b.into());
            $op { a: a.into(), b: b.into(), scales_a, scales_b, bias, out: out.into() }.run()
        }

        impl $op<'_> {
            fn validate(&self) -> Result<Valid, CallError> {
                let (matrices, scales) = ([self.a, self.b], [self.scales_a, self.scales_b]);
                scaled::check(Self::OP, DType::$dtype, matrices, scales, self.bias, self.out.as_view())
            }
        }

        unsafe fn reference(_: &Ctx, a: &$op<'_>) -> Result<(), RunError> {
            // SAFETY: checked arguments on the host.
            unsafe { scaled::reference([&a.a, &a.b], [&a.scales_a, &a.scales_b], a.bias.as_ref(), &a.out) };
            Ok(())
        }

        kernel!(unsafe {
            op: $op,
            backend: Backend::REFERENCE,
            variant: "",
            formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::of(&[DType::$dtype])),
            run: reference,
        });

        $crate::contract!($op);

        impl Contract for $op<'static> {
            /// Columns to use, and whether there is a bias.
            type Params = (usize, bool);
            const OUTPUTS: &'static [usize] = &[5];

            fn cases() -> Vec<Case<Self::Params>> {
                scaled::cases(DType::$dtype)
            }

            fn bench_cases() -> Vec<Case<Self::Params>> {
                scaled::bench_cases(DType::$dtype)
            }

            fn bind<'a>(params: &Self::Params, tensors: &'a mut [Tensor]) -> Option<$op<'a>> {
                let [a, b, scales_a, scales_b, bias, out] = tensors else { return None };
                Some($op {
                    a: a.view().narrow(1, 0, params.0)?,
                    b: b.view().narrow(1, 0, params.0)?,
                    scales_a: scales_a.view(),
                    scales_b: scales_b.view(),
                    bias: params.1.then(|| bias.view()),
                    out: out.view_mut(),
                })
            }

            fn tolerance(key: Key) -> Tolerance {
                scaled::tolerance(key)
            }

            fn cost(a: &$op<'_>) -> Cost {
                scaled::cost(&a.a, &a.b, &a.out)
            }
        }
    };
}
pub(super) use scaled_op;

/// Products of i8 are at most 2¹⁴, so that this many fit an i32.
const MOST_FEATURES: usize = 1 << 16;

pub(super) fn check(
    op: &'static str,
    dtype: DType,
    [a, b]: [View<'_>; 2],
    [scales_a, scales_b]: [View<'_>; 2],
    bias: Option<View<'_>>,
    out: View<'_>,
) -> Result<Valid, CallError> {
    let arg = |name, view| Arg::new(op, name, view);
    let (eight, f32s) = (DTypeSet::of(&[dtype]), DTypeSet::of(&[DType::F32]));
    let input = arg("a", a).dtype(eight)?.rank(2)?;
    let rows = input.rows()?;
    let matrix = arg("b", b).dtype(eight)?.rank(2)?;
    let features = matrix.shape(&[b.dim(0), rows.cols])?.rows()?;
    if rows.cols > MOST_FEATURES {
        return Err(input.shape_error(format!("at most {MOST_FEATURES} in_features, {} given", rows.cols)));
    }
    arg("scales_a", scales_a).dtype(f32s)?.shape(&[rows.rows])?.dense_last()?;
    arg("scales_b", scales_b).dtype(f32s)?.shape(&[features.rows])?.dense_last()?;
    let output = arg("out", out).dtype(DTypeSet::FLOAT)?.shape(&[rows.rows, features.rows])?.output()?;
    output.rows()?;
    if let Some(bias) = bias {
        arg("bias", bias).like(output)?.shape(&[features.rows])?.rows()?;
    }
    let aligned = [a, b, out].iter().all(rows_lie_at_16_bytes)
        && rows.cols.is_multiple_of(16)
        && features.rows.is_multiple_of(16);
    let fact = 2 * super::product::row_class(rows.rows).min(1024) + usize::from(aligned);
    let key = Key::of(out.dtype()).with_weight(dtype).with_fact(fact);
    Ok(Valid { key, empty: rows.rows == 0 || features.rows == 0 })
}

fn rows_lie_at_16_bytes(view: &View<'_>) -> bool {
    let stride = view.rows().map_or(0, |rows| rows.stride * view.dtype().block_bytes());
    view.as_ptr::<u8>().addr().is_multiple_of(16) && stride.is_multiple_of(16)
}

/// Whether rows of such a call lie at multiples of 16 bytes, and both numbers of features are multiples of 16.
pub fn rows_are_aligned(key: &Key) -> bool {
    key.fact % 2 == 1
}

/// # Safety
/// Checked arguments on the host.
pub(super) unsafe fn reference(
    [a, b]: [&View<'_>; 2],
    [scales_a, scales_b]: [&View<'_>; 2],
    bias: Option<&View<'_>>,
    out: &ViewMut<'_>,
) {
    let (Some(ar), Some(br), Some(or)) = (a.rows(), b.rows(), out.rows()) else { return };
    // SAFETY: all indices are inside the rows that the checks found.
    unsafe {
        let row =
            |v: &View<'_>, start: usize| -> Vec<f64> { (0..ar.cols).map(|k| at(v, start + k)).collect() };
        let input: Vec<Vec<f64>> = (0..ar.rows).map(|m| row(a, m * ar.stride)).collect();
        for n in 0..br.rows {
            let weights = row(b, n * br.stride);
            for (m, x) in input.iter().enumerate() {
                let dot: f64 = weights.iter().zip(x).map(|(w, x)| w * x).sum();
                let scaled = dot * at(scales_a, m) * at(scales_b, n);
                put(out, m * or.stride + n, scaled + bias.map_or(0.0, |b| at(b, n)));
            }
        }
    }
}

pub(super) fn cases(dtype: DType) -> Vec<Case<(usize, bool)>> {
    let mut cases = Vec::new();
    for out in FLOATS {
        // One row, odd everything, several tiles, no rows, one of each, nothing to sum.
        for (size, gap) in [
            ([1, 64, 64], 0),
            ([3, 17, 45], 3),
            ([21, 70, 300], 0),
            ([0, 5, 8], 0),
            ([1, 1, 1], 0),
            ([2, 3, 0], 0),
            ([64, 130, 576], 0),
            // More columns and rows than are kept together.
            ([70, 70, 1040], 4),
            // As libraries want it: features in sixteens, rows at multiples of 16 bytes.
            ([21, 48, 96], 16),
        ] {
            cases.push(case(out, dtype, size, gap, gap == 0));
        }
    }
    if dtype == DType::I8 {
        // Rows so long that caches hold few.
        cases.push(case(DType::F32, dtype, [18, 5, 45_120], 0, false));
    }
    cases
}

pub(super) fn bench_cases(dtype: DType) -> Vec<Case<(usize, bool)>> {
    [1, 16, 512].map(|m| case(DType::BF16, dtype, [m, 4096, 4096], 0, false)).into()
}

/// i8 sums are exact; those of f8_e4m3 lose some of f32's precision where products of order 1 cancel.
pub(super) fn tolerance(key: Key) -> Tolerance {
    Tolerance { abs: 4e-5, ..Tolerance::rounded(key, 1.01, 1e-5) }
}

pub(super) fn cost(a: &View<'_>, b: &View<'_>, out: &ViewMut<'_>) -> Cost {
    let flops = 2 * a.dim(0) as u64 * b.layout().elements() as u64;
    Cost { read: (a.bytes() + b.bytes()) as u64, written: out.bytes() as u64, flops }
}

fn case(out: DType, dtype: DType, [m, n, k]: [usize; 3], gap: usize, bias: bool) -> Case<(usize, bool)> {
    // Results of order 1 either way.
    let (size, unit) = if dtype == DType::I8 { (40.0, 0.005) } else { (1.0, 0.2) };
    let scales = |seed, len: usize| {
        let values: Vec<f32> = Rng::new(seed).normals(len, 0.1).iter().map(|v| unit * (1.0 + v)).collect();
        Tensor::from_slice(&values, &[len]).unwrap_or_else(|e| panic!("test data: {e}"))
    };
    let tensors = vec![
        normal(1, dtype, &[m, k + gap], size),
        normal(2, dtype, &[n, k + gap], size),
        scales(3, m),
        scales(4, n),
        normal(5, out, &[n], 1.0),
        unwritten(out, &[m, n]),
    ];
    let with = if bias { ", bias" } else { "" };
    Case { name: format!("{dtype} to {out} [{m}, {n}, {k}] gap {gap}{with}"), tensors, params: (k, bias) }
}
