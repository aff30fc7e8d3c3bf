//! `activation.softcap`: x = cap · tanh(x / cap), in place (of logits; Gemma Team 2024, Gemma 2).

use crate::args::{Arg, in_range};
use crate::data::normal;
use crate::element::{at, put};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, ViewMut, kernel};

kernels_core::op! {
    /// Soft cap, in place: `cap · tanh(x / cap)`.
    ///
    /// Computed in f32, rounded once; ±∞ becomes ±cap.
    pub struct Softcap = "activation.softcap" {
        /// `[.., cols]`, f32, f16 or bf16; rows may have a stride.
        writes x,
        /// Above 0.
        value cap: f32,
    }
}

/// Caps `x` in place.
///
/// # Errors
/// A cap that is not above 0, shapes or types that do not fit, or no usable kernel.
pub fn softcap<'a>(x: impl Into<ViewMut<'a>>, cap: f32) -> Result<()> {
    Softcap { x: x.into(), cap }.run()
}

impl Softcap<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let rows = Arg::new(Self::OP, "x", self.x.as_view()).dtype(DTypeSet::FLOAT)?.output()?.rows()?;
        let (cap, device) = (self.cap, self.x.device());
        in_range(Self::OP, "cap", cap.into(), cap > 0.0 && cap.is_finite(), "above 0", device)?;
        Ok(Valid { key: Key::of(self.x.dtype()), empty: rows.rows == 0 || rows.cols == 0 })
    }
}

unsafe fn reference(_: &Ctx, a: &Softcap<'_>) -> Result<(), RunError> {
    let Some(x) = a.x.rows() else { return Ok(()) };
    let cap = f64::from(a.cap);
    for r in 0..x.rows {
        for i in 0..x.cols {
            let place = r * x.stride + i;
            // SAFETY: r and i are inside the rows that the checks found.
            unsafe { put(&a.x, place, cap * (at(&a.x.as_view(), place) / cap).tanh()) };
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: Softcap,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: reference,
});

crate::contract!(Softcap);

impl Contract for Softcap<'static> {
    /// Columns to use, and the cap.
    type Params = (usize, f32);
    const OUTPUTS: &'static [usize] = &[0];

    fn cases() -> Vec<Case<Self::Params>> {
        let mut cases = Vec::new();
        for dtype in FLOATS {
            for (rows, cols, gap, scale) in
                [(1, 1, 0, 1.0), (3, 17, 0, 40.0), (5, 3420, 12, 200.0), (0, 64, 0, 1.0)]
            {
                cases.push(case(dtype, rows, cols, gap, scale));
            }
            cases.push(case(dtype, 2, 100, 0, 1e-3));
            let x = Tensor::from_f32(&super::SPECIAL, dtype, &[1, super::SPECIAL.len()]);
            let tensors = vec![x.unwrap_or_else(|e| panic!("test data: {e}"))];
            let params = (super::SPECIAL.len(), 30.0);
            cases.push(Case { name: format!("{dtype} special values"), tensors, params });
        }
        cases
    }

    fn bench_cases() -> Vec<Case<Self::Params>> {
        FLOATS.into_iter().flat_map(|d| [1, 16].map(|rows| case(d, rows, 128_256, 0, 40.0))).collect()
    }

    fn bind<'a>(params: &Self::Params, tensors: &'a mut [Tensor]) -> Option<Softcap<'a>> {
        let [x] = tensors else { return None };
        Some(Softcap { x: x.view_mut().narrow(1, 0, params.0)?, cap: params.1 })
    }

    fn tolerance(key: Key) -> Tolerance {
        super::tolerance(key)
    }

    fn cost(a: &Softcap<'_>) -> Cost {
        let (n, elements) = (a.x.bytes() as u64, a.x.layout().elements() as u64);
        Cost { read: n, written: n, flops: 6 * elements }
    }
}

fn case(dtype: DType, rows: usize, cols: usize, gap: usize, scale: f32) -> Case<(usize, f32)> {
    let tensors = vec![normal(1, dtype, &[rows, cols + gap], scale)];
    Case { name: format!("{dtype} [{rows}, {cols}] gap {gap} scale {scale}"), tensors, params: (cols, 30.0) }
}
