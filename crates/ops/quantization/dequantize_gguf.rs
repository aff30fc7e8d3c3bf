//! `quantization.dequantize_gguf`: GGUF blocks to floats, (q − offset) · scale + min as ggml defines each format; see
//! [`blocks`](super::blocks).

use crate::args::Arg;
use crate::data::{blocks, unwritten};
use crate::element::put;
use crate::quantization::blocks::element;
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Values of GGUF blocks (F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K).
    ///
    /// The formats' exact values, rounded once to the output's type.
    pub struct DequantizeGguf = "quantization.dequantize_gguf" {
        /// `[.., cols]`, whole blocks in each row; rows may have a stride.
        reads weight,
        /// Shape of `weight`, f32, f16 or bf16; rows may have a stride.
        writes out,
    }
}

/// The values of `weight` as `dtype`, in a new tensor.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn dequantize_gguf<'a>(weight: impl Into<View<'a>>, dtype: DType) -> Result<Tensor> {
    let weight = weight.into();
    // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
    let mut out = unsafe { Tensor::uninit(dtype, weight.shape(), weight.device())? };
    dequantize_gguf_into(weight, &mut out)?;
    Ok(out)
}

/// The values of `weight`, into `out`.
///
/// # Errors
/// As [`dequantize_gguf`].
pub fn dequantize_gguf_into<'a>(weight: impl Into<View<'a>>, out: impl Into<ViewMut<'a>>) -> Result<()> {
    DequantizeGguf { weight: weight.into(), out: out.into() }.run()
}

impl DequantizeGguf<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let arg = |name, view| Arg::new(Self::OP, name, view);
        let rows = arg("weight", self.weight).dtype(DTypeSet::FLOAT.union(DTypeSet::GGUF))?.rows()?;
        let out = arg("out", self.out.as_view()).dtype(DTypeSet::FLOAT)?.shape(self.weight.shape())?;
        out.output()?.rows()?;
        let key = Key::of(self.out.dtype()).with_weight(self.weight.dtype());
        Ok(Valid { key, empty: rows.rows == 0 || rows.cols == 0 })
    }
}

unsafe fn reference(_: &Ctx, a: &DequantizeGguf<'_>) -> Result<(), RunError> {
    let (Some(w), Some(o)) = (a.weight.rows(), a.out.rows()) else { return Ok(()) };
    for r in 0..w.rows {
        for i in 0..w.cols {
            // SAFETY: r and i are inside the rows that the checks found.
            unsafe { put(&a.out, r * o.stride + i, element(&a.weight, w.stride, r, i)) };
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: DequantizeGguf,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT.union(DTypeSet::GGUF)),
    run: reference,
});

crate::contract!(DequantizeGguf);

impl Contract for DequantizeGguf<'static> {
    /// Columns to use.
    type Params = usize;
    const OUTPUTS: &'static [usize] = &[1];

    fn cases() -> Vec<Case<usize>> {
        let weights = DTypeSet::FLOAT.union(DTypeSet::GGUF);
        let mut cases = Vec::new();
        for weight in weights.iter() {
            for out in FLOATS {
                let block = weight.block_len();
                cases.extend(
                    [(3, block, 0), (2, 5 * block, block), (0, block, 0)]
                        .map(|(r, c, g)| case(weight, out, r, c, g)),
                );
            }
        }
        cases
    }

    fn bench_cases() -> Vec<Case<usize>> {
        [DType::Q4_0, DType::Q8_0, DType::Q4K, DType::Q6K].map(|w| case(w, DType::F32, 512, 4096, 0)).into()
    }

    fn bind<'a>(cols: &usize, tensors: &'a mut [Tensor]) -> Option<DequantizeGguf<'a>> {
        let [weight, out] = tensors else { return None };
        Some(DequantizeGguf { weight: weight.view().narrow(1, 0, *cols)?, out: out.view_mut() })
    }

    fn tolerance(key: Key) -> Tolerance {
        // f32 arithmetic rounds each of these formats once, so f32 is exact; 16-bit results round twice.
        if key.dtype == DType::F32 {
            Tolerance::EXACT
        } else {
            Tolerance::rounded(key, 1.01, 0.0).at_least_subnormal(key)
        }
    }

    fn cost(a: &DequantizeGguf<'_>) -> Cost {
        let elements = a.out.layout().elements() as u64;
        Cost { read: a.weight.bytes() as u64, written: a.out.bytes() as u64, flops: 2 * elements }
    }
}

fn case(weight: DType, out: DType, rows: usize, cols: usize, gap: usize) -> Case<usize> {
    let tensors = vec![blocks(1, weight, &[rows, cols + gap]), unwritten(out, &[rows, cols])];
    Case { name: format!("{weight} to {out} [{rows}, {cols}] gap {gap}"), tensors, params: cols }
}
