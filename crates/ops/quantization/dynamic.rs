//! What the quantisations at run time share: groups of a row, each by its largest magnitude.

use crate::args::Arg;
use crate::data::{normal, poison, unwritten};
use crate::element::{at, put};
use crate::{Case, Cost, FLOATS, Tolerance};
use kernels_core::{CallError, DType, DTypeSet, Key, Tensor, Valid, View, ViewMut};

/// The least magnitude that a scale is made from.
pub const FLOOR: f32 = 1e-10;

/// The largest magnitude of an 8-bit type: 127 or 448.
pub fn largest(dtype: DType) -> f32 {
    if dtype == DType::I8 { 127.0 } else { 448.0 }
}

/// A whole op that quantises each row by itself.
macro_rules! per_token_op {
    ($(#[doc = $doc:literal])+ $op:ident = $name:literal; fn $plain:ident, $into:ident; to $dtype:ident, $shown:literal) => {
        use $crate::quantization::dynamic;
        use $crate::{Backend, Case, Contract, Cost, DTypeSet, Formats, Tolerance};
        use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

        kernels_core::op! {
            $(#[doc = $doc])+
            #[doc = ""]
            #[doc = "In f32: m = max(|x|, 1e-10) of the row, the scale m / L and the values x · (L / m), rounded to"]
            #[doc = "even and saturated, where L is the type's largest. A NaN makes the row's scale NaN."]
            pub struct $op = $name {
                /// `[tokens, hidden]`, f32, f16 or bf16; rows may have a stride.
                reads x,
                #[doc = concat!("Shape of `x`, ", $shown, "; rows may have a stride.")]
                writes q,
                /// `[tokens]` f32.
                writes scales,
            }
        }

        #[doc = concat!("`", $name, "` of `x`: values and scales, in new tensors.")]
        ///
        /// # Errors
        /// Shapes or types that do not fit, or no usable kernel.
        pub fn $plain<'a>(x: impl Into<View<'a>>) -> Result<(Tensor, Tensor)> {
            let x = x.into();
            let tokens = &x.shape()[..x.shape().len().saturating_sub(1)];
            // SAFETY: the kernel writes every element; on an error the tensors are dropped unread.
            let (mut q, mut scales) = unsafe {
                let q = Tensor::uninit(DType::$dtype, x.shape(), x.device())?;
                (q, Tensor::uninit(DType::F32, tokens, x.device())?)
            };
            $into(x, &mut q, &mut scales)?;
            Ok((q, scales))
        }

        #[doc = concat!("`", $name, "` of `x`, into `q` and `scales`.")]
        ///
        /// # Errors
        /// Shapes or types that do not fit, or no usable kernel.
        pub fn $into<'a>(
            x: impl Into<View<'a>>,
            q: impl Into<ViewMut<'a>>,
            scales: impl Into<ViewMut<'a>>,
        ) -> Result<()> {
            $op { x: x.into(), q: q.into(), scales: scales.into() }.run()
        }

        impl $op<'_> {
            fn validate(&self) -> Result<Valid, CallError> {
                let types = DTypeSet::of(&[DType::$dtype]);
                dynamic::check(Self::OP, self.x, (self.q.as_view(), types), self.scales.as_view(), None)
            }
        }

        unsafe fn reference(_: &Ctx, a: &$op<'_>) -> Result<(), RunError> {
            // SAFETY: checked arguments on the host.
            unsafe { dynamic::reference(&a.x, &a.q, &a.scales, None, dynamic::FLOOR) };
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
            /// Columns to use.
            type Params = usize;
            const OUTPUTS: &'static [usize] = &[1, 2];

            fn cases() -> Vec<Case<usize>> {
                dynamic::cases(DType::$dtype, None)
            }

            fn bench_cases() -> Vec<Case<usize>> {
                dynamic::bench_cases(DType::$dtype, None)
            }

            fn bind<'a>(cols: &usize, tensors: &'a mut [Tensor]) -> Option<$op<'a>> {
                let [x, q, scales] = tensors else { return None };
                let (x, q) = (x.view().narrow(1, 0, *cols)?, q.view_mut().narrow(1, 0, *cols)?);
                Some($op { x, q, scales: scales.view_mut() })
            }

            fn tolerance(_: Key) -> Tolerance {
                // Every step is one rounding of f32.
                Tolerance::EXACT
            }

            fn cost(a: &$op<'_>) -> Cost {
                dynamic::cost(&a.x, &a.q, &a.scales)
            }
        }
    };
}
pub(super) use per_token_op;

pub(crate) fn check(
    op: &'static str,
    x: View<'_>,
    (q, types): (View<'_>, DTypeSet),
    scales: View<'_>,
    group: Option<usize>,
) -> Result<Valid, CallError> {
    let arg = |name, view| Arg::new(op, name, view);
    let input = arg("x", x).dtype(DTypeSet::FLOAT)?.rank(2)?;
    let rows = input.rows()?;
    if rows.cols == 0 && rows.rows > 0 {
        return Err(input.shape_error("a row of at least one element expected, to have a largest".into()));
    }
    let groups = match group {
        None => 1,
        Some(group) if group == 0 || !rows.cols.is_multiple_of(group) => {
            return Err(input.shape_error(format!("rows of {} are not whole groups of {group}", rows.cols)));
        }
        Some(group) => rows.cols / group,
    };
    let of_scales = [rows.rows, groups];
    let of_scales = if group.is_some() { &of_scales[..] } else { &of_scales[..1] };
    check_outputs(op, (q, types, x.shape()), (scales, of_scales))?;
    let key = Key::of(x.dtype()).with_weight(q.dtype());
    Ok(Valid { key, empty: rows.rows == 0 })
}

/// Checks the values of these types and shape, and their scales.
pub(crate) fn check_outputs(
    op: &'static str,
    (q, types, shape): (View<'_>, DTypeSet, &[usize]),
    (scales, of_scales): (View<'_>, &[usize]),
) -> Result<(), CallError> {
    Arg::new(op, "q", q).dtype(types)?.shape(shape)?.output()?.rows()?;
    let scales = Arg::new(op, "scales", scales).dtype(DTypeSet::of(&[DType::F32]))?;
    scales.shape(of_scales)?.output()?.dense_last()?;
    Ok(())
}

/// In f32, as the contract says: these numbers decide what is rounded.
///
/// # Safety
/// Checked arguments on the host.
pub(super) unsafe fn reference(
    x: &View<'_>,
    q: &ViewMut<'_>,
    scales: &ViewMut<'_>,
    group: Option<usize>,
    floor: f32,
) {
    let (Some(rows), Some(out)) = (x.rows(), q.rows()) else { return };
    let group = group.unwrap_or(rows.cols);
    for r in 0..rows.rows {
        for g in 0..rows.cols / group {
            // SAFETY: rows, groups and elements are inside their tensors.
            unsafe {
                let value = |i: usize| at(x, r * rows.stride + g * group + i) as f32;
                let values: Vec<f32> = (0..group).map(value).collect();
                let scale = quantise(&values, q, r * out.stride + g * group, floor);
                let place = r * scales.stride(0) + if scales.shape().len() == 2 { g } else { 0 };
                put(scales, place, f64::from(scale));
            }
        }
    }
}

/// One group as 8 bits, from element `place` of `q` on; its scale.
///
/// # Safety
/// The group has its place in `q`, which is on the host.
pub(crate) unsafe fn quantise(values: &[f32], q: &ViewMut<'_>, place: usize, floor: f32) -> f32 {
    // A NaN is not passed over, as `f32::max` would.
    let wider = |m: f32, v: f32| if v.is_nan() || v.abs() > m { v.abs() } else { m };
    let m = values.iter().fold(floor, |m, v| if m.is_nan() { m } else { wider(m, *v) });
    let largest = largest(q.dtype());
    for (i, v) in values.iter().enumerate() {
        // SAFETY: by contract.
        unsafe { put(q, place + i, f64::from(v * (largest / m))) };
    }
    m / largest
}

/// For ops that compute what they quantise: a value between two 8-bit values may become either.
pub(crate) fn computed_tolerance(key: Key) -> Tolerance {
    let stored = Key { dtype: key.weight, ..key };
    match key.weight {
        DType::I8 => Tolerance { abs: 1.0, rel: 0.0 },
        _ => Tolerance { abs: 0.0, ..Tolerance::rounded(stored, 1.01, 0.0) }.at_least_subnormal(stored),
    }
}

pub(super) fn cases(to: DType, group: Option<usize>) -> Vec<Case<usize>> {
    let mut cases = Vec::new();
    for dtype in FLOATS {
        for (rows, cols, gap, scale) in
            [(3, 256, 0, 1.0), (5, 1408, 24, 30.0), (0, 128, 0, 1.0), (1, 4096, 0, 1e-3), (2, 128, 0, 0.0)]
        {
            cases.push(case(dtype, to, rows, cols, gap, scale, group));
        }
        if group.is_none() {
            cases.push(case(dtype, to, 2, 1, 0, 1.0, group));
            cases.push(case(dtype, to, 3, 77, 1, 1.0, group));
        }
        for (value, what) in [(f32::NAN, "a NaN"), (f32::INFINITY, "an infinity")] {
            let mut special = case(dtype, to, 3, 128, 0, 1.0, group);
            match value.is_nan() {
                true => poison(&mut special.tensors[0], 150),
                false => {
                    let mut x = special.tensors[0].to_f32_vec().unwrap_or_default();
                    x[150] = value;
                    special.tensors[0] =
                        Tensor::from_f32(&x, dtype, &[3, 128]).unwrap_or_else(|e| panic!("test data: {e}"));
                }
            }
            special.name = format!("{dtype} to {to}, {what}");
            cases.push(special);
        }
    }
    cases
}

pub(super) fn bench_cases(to: DType, group: Option<usize>) -> Vec<Case<usize>> {
    let sizes = [1, 16, 512];
    FLOATS.into_iter().flat_map(|d| sizes.map(|rows| case(d, to, rows, 4096, 0, 1.0, group))).collect()
}

pub(super) fn cost(x: &View<'_>, q: &ViewMut<'_>, scales: &ViewMut<'_>) -> Cost {
    let elements = x.layout().elements() as u64;
    Cost { read: x.bytes() as u64, written: (q.bytes() + scales.bytes()) as u64, flops: 4 * elements }
}

fn case(
    dtype: DType,
    to: DType,
    rows: usize,
    cols: usize,
    gap: usize,
    scale: f32,
    group: Option<usize>,
) -> Case<usize> {
    let scales = match group {
        None => unwritten(DType::F32, &[rows]),
        Some(group) => unwritten(DType::F32, &[rows, cols / group]),
    };
    let shape = [rows, cols + gap];
    let tensors = vec![normal(1, dtype, &shape, scale), unwritten(to, &shape), scales];
    Case { name: format!("{dtype} to {to} [{rows}, {cols}] gap {gap} scale {scale}"), tensors, params: cols }
}
