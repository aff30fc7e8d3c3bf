//! `gemm.linear_gguf`: out = x · weightᵀ + bias, the weight in GGUF blocks (as ggml defines them; see
//! [`blocks`](crate::quantization::blocks)).

use super::{int8_activations, product};
use crate::data::{blocks, normal, poison, unwritten};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Product with a weight matrix in GGUF blocks, and a bias.
    ///
    /// The blocks' exact values times `x`, sums in f32, rounded once. Kernels that say so (`kernels list --json`:
    /// `quantises_activations`) first round `x` to 8 bits in blocks of 32, as
    /// [`int8_activations`](crate::gemm::int8_activations) defines it; `KERNELS_POLICY=full-precision` leaves them out.
    /// The shape fact for selection is the number of rows, up to the next power of two.
    pub struct LinearGguf = "gemm.linear_gguf" {
        /// `[.., in_features]`, f32, f16 or bf16; rows may have a stride.
        reads x,
        /// `[out_features, in_features]`, any GGUF type (F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K); rows may have a stride.
        reads weight,
        /// `[out_features]`, of the type of `x`.
        maybe bias,
        /// `[.., out_features]`, of the type of `x`; rows may have a stride.
        writes out,
    }
}

/// `x · weightᵀ + bias`, in a new tensor.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn linear_gguf<'a>(
    x: impl Into<View<'a>>,
    weight: impl Into<View<'a>>,
    bias: Option<View<'a>>,
) -> Result<Tensor> {
    let (x, weight) = (x.into(), weight.into());
    let mut shape = x.shape().to_vec();
    shape.pop();
    shape.push(weight.shape().first().copied().unwrap_or(0));
    // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
    let mut out = unsafe { Tensor::uninit(x.dtype(), &shape, x.device())? };
    LinearGguf { x, weight, bias, out: out.view_mut() }.run()?;
    Ok(out)
}

/// `x · weightᵀ + bias`, into `out`.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn linear_gguf_into<'a>(
    x: impl Into<View<'a>>,
    weight: impl Into<View<'a>>,
    bias: Option<View<'a>>,
    out: impl Into<ViewMut<'a>>,
) -> Result<()> {
    LinearGguf { x: x.into(), weight: weight.into(), bias, out: out.into() }.run()
}

const WEIGHTS: DTypeSet = DTypeSet::FLOAT.union(DTypeSet::GGUF);

impl LinearGguf<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        product::check(Self::OP, WEIGHTS, self.x, self.weight, self.bias, self.out.as_view())
    }
}

unsafe fn reference(_: &Ctx, a: &LinearGguf<'_>) -> Result<(), RunError> {
    // SAFETY: checked arguments on the host.
    unsafe { product::reference(&a.x, &a.weight, a.bias.as_ref(), &a.out, |_| {}) };
    Ok(())
}

unsafe fn reference_int8(_: &Ctx, a: &LinearGguf<'_>) -> Result<(), RunError> {
    // SAFETY: checked arguments on the host.
    unsafe { product::reference(&a.x, &a.weight, a.bias.as_ref(), &a.out, int8_activations::round) };
    Ok(())
}

kernel!(unsafe {
    op: LinearGguf,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::mixed(DTypeSet::FLOAT, WEIGHTS),
    run: reference,
});

kernel!(unsafe {
    op: LinearGguf,
    backend: Backend::REFERENCE,
    variant: "int8",
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::GGUF),
    run: reference_int8,
    // Not before the exact one.
    priority: -1,
    quantises_activations: true,
});

crate::contract!(LinearGguf);

impl Contract for LinearGguf<'static> {
    /// Columns to use, and whether there is a bias.
    type Params = (usize, bool);
    const OUTPUTS: &'static [usize] = &[3];

    fn cases() -> Vec<Case<Self::Params>> {
        let mut cases = Vec::new();
        for x in FLOATS {
            for weight in WEIGHTS.iter() {
                let block = weight.block_len().max(32);
                cases.push(case(x, weight, [1, 19, 3 * block], 0, true));
                cases.push(case(x, weight, [7, 9, block], block, false));
                cases.push(case(x, weight, [37, 70, 2 * block], 0, true));
                cases.push(case(x, weight, [0, 4, block], 0, false));
                if x == DType::F32 {
                    // More columns than are unpacked together.
                    cases.push(case(x, weight, [37, 19, 1280], 0, false));
                    // Of few rows too, and what is left after whole octets of blocks.
                    cases.push(case(x, weight, [5, 19, 512 + block], 0, true));
                }
                let mut with_nan = case(x, weight, [3, 6, block], 0, true);
                poison(&mut with_nan.tensors[0], block + 5);
                with_nan.name.push_str(", a NaN");
                cases.push(with_nan);
            }
        }
        cases
    }

    fn bench_cases() -> Vec<Case<Self::Params>> {
        let of = |w| [1, 16, 512].map(|m| case(DType::F32, w, [m, 4096, 4096], 0, false));
        DTypeSet::GGUF.iter().flat_map(of).collect()
    }

    fn bind<'a>(params: &Self::Params, tensors: &'a mut [Tensor]) -> Option<LinearGguf<'a>> {
        let [x, weight, bias, out] = tensors else { return None };
        let (cols, has_bias) = *params;
        Some(LinearGguf {
            x: x.view().narrow(1, 0, cols)?,
            weight: weight.view().narrow(1, 0, cols)?,
            bias: has_bias.then(|| bias.view()),
            out: out.view_mut(),
        })
    }

    fn tolerance(key: Key) -> Tolerance {
        product::tolerance(key)
    }

    fn cost(a: &LinearGguf<'_>) -> Cost {
        product::cost(&a.x, &a.weight, &a.out)
    }
}

fn case(x: DType, weight: DType, [m, n, k]: [usize; 3], gap: usize, bias: bool) -> Case<(usize, bool)> {
    let tensors = vec![
        normal(1, x, &[m, k + gap], 1.0),
        blocks(2, weight, &[n, k + gap]),
        normal(3, x, &[n], 1.0),
        unwritten(x, &[m, n]),
    ];
    let with = if bias { ", bias" } else { "" };
    Case { name: format!("{x} x {weight} [{m}, {n}, {k}] gap {gap}{with}"), tensors, params: (k, bias) }
}
