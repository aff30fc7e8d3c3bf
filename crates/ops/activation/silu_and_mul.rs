//! `activation.silu_and_mul`: out = silu(gate) · up, silu(x) = x / (1 + e⁻ˣ); gate is the first half of
//! the last dimension, up the second (SwiGLU, Shazeer 2020).

use crate::args::Arg;
use crate::data::{normal, unwritten};
use crate::element::{at, put};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Gated SiLU: `silu(x[.., ..d]) · x[.., d..]`.
    ///
    /// The gate is computed in f32, multiplied, and rounded once. Both tensors have one type: f32, f16 or
    /// bf16.
    pub struct SiluAndMul = "activation.silu_and_mul" {
        /// `[.., 2d]`: gate, then up; rows may have a stride.
        reads x,
        /// `[.., d]`; rows may have a stride.
        writes out,
    }
}

/// `silu(gate) · up`, in a new tensor.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn silu_and_mul<'a>(x: impl Into<View<'a>>) -> Result<Tensor> {
    let x = x.into();
    let mut shape = x.shape().to_vec();
    if let Some(last) = shape.last_mut() {
        *last /= 2;
    }
    // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
    let mut out = unsafe { Tensor::uninit(x.dtype(), &shape, x.device())? };
    SiluAndMul { x, out: out.view_mut() }.run()?;
    Ok(out)
}

/// `silu(gate) · up`, into `out`.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn silu_and_mul_into<'a>(x: impl Into<View<'a>>, out: impl Into<ViewMut<'a>>) -> Result<()> {
    SiluAndMul { x: x.into(), out: out.into() }.run()
}

impl SiluAndMul<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let arg = |name, view| Arg::new(Self::OP, name, view);
        let x = arg("x", self.x).dtype(DTypeSet::FLOAT)?;
        let rows = x.rows()?;
        let out = arg("out", self.out.as_view()).like(x)?.output()?;
        if rows.cols % 2 != 0 {
            return Err(x.shape_error(format!(
                "the last dimension holds gate and up, so it is even; {} given",
                rows.cols
            )));
        }
        out.rows_like(self.x.shape(), rows.cols / 2)?.rows()?;
        Ok(Valid { key: Key::of(self.x.dtype()), empty: rows.rows == 0 || rows.cols == 0 })
    }
}

unsafe fn reference(_: &Ctx, a: &SiluAndMul<'_>) -> Result<(), RunError> {
    let (Some(x), Some(o)) = (a.x.rows(), a.out.rows()) else { return Ok(()) };
    for r in 0..x.rows {
        for i in 0..o.cols {
            // SAFETY: r and i are inside the rows that the checks found.
            unsafe {
                let (gate, up) = (at(&a.x, r * x.stride + i), at(&a.x, r * x.stride + o.cols + i));
                put(&a.out, r * o.stride + i, gate / (1.0 + (-gate).exp()) * up);
            }
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: SiluAndMul,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: reference,
});

crate::contract!(SiluAndMul);

impl Contract for SiluAndMul<'static> {
    /// Half the columns to use.
    type Params = usize;
    const OUTPUTS: &'static [usize] = &[1];

    fn cases() -> Vec<Case<usize>> {
        let mut cases = Vec::new();
        for dtype in FLOATS {
            // 3420 is a size on which an alignment check on 2d instead of d goes wrong.
            for (rows, d, gap) in
                [(1, 1, 0), (3, 17, 0), (2, 1536, 0), (5, 3420, 12), (0, 64, 0), (1, 11008, 0)]
            {
                cases.push(case(dtype, rows, d, gap, 2.0));
            }
            // Where the exponential over- and underflows.
            cases.push(case(dtype, 2, 100, 0, 60.0));
            cases.push(special(dtype));
        }
        cases
    }

    fn bench_cases() -> Vec<Case<usize>> {
        FLOATS
            .into_iter()
            .flat_map(|d| [(1, 11008), (16, 11008), (512, 4096)].map(|(r, c)| case(d, r, c, 0, 2.0)))
            .collect()
    }

    fn bind<'a>(d: &usize, tensors: &'a mut [Tensor]) -> Option<SiluAndMul<'a>> {
        let [x, out] = tensors else { return None };
        Some(SiluAndMul { x: x.view().narrow(1, 0, 2 * d)?, out: out.view_mut().narrow(1, 0, *d)? })
    }

    fn tolerance(key: Key) -> Tolerance {
        // A gate far below zero gives results below the smallest normal f32, which need not be exact.
        Tolerance { abs: 1e-30, ..Tolerance::rounded(key, 1.01, 2e-6) }.at_least_subnormal(key)
    }

    fn cost(a: &SiluAndMul<'_>) -> Cost {
        // exp, two divisions or products, an addition: the exponential counted as one.
        let elements = a.out.layout().elements() as u64;
        Cost { read: a.x.bytes() as u64, written: a.out.bytes() as u64, flops: 5 * elements }
    }
}

fn case(dtype: DType, rows: usize, d: usize, gap: usize, scale: f32) -> Case<usize> {
    let tensors = vec![normal(1, dtype, &[rows, 2 * d + gap], scale), unwritten(dtype, &[rows, d + gap])];
    Case { name: format!("{dtype} [{rows}, 2x{d}] gap {gap} scale {scale}"), tensors, params: d }
}

fn special(dtype: DType) -> Case<usize> {
    let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 88.0, -88.0, -200.0, 1e-30];
    let x: Vec<f32> = values.iter().copied().chain(values.map(|_| 1.5)).collect();
    let d = values.len();
    let x = Tensor::from_f32(&x, dtype, &[1, 2 * d]).unwrap_or_else(|e| panic!("test data: {e}"));
    Case { name: format!("{dtype} special values"), tensors: vec![x, unwritten(dtype, &[1, d])], params: d }
}
