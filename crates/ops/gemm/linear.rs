//! `gemm.linear`: out = x · weightᵀ + bias.

use super::product;
use crate::args::Arg;
use crate::data::{blocks, normal, poison, unwritten};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{
    CallError, Ctx, DType, Key, Packed, Registry, Result, RunError, Selector, Tensor, Valid, View, ViewMut,
    kernel,
};

kernels_core::op! {
    /// Product with a float weight matrix, and a bias.
    ///
    /// Sums in f32, rounded once. The weight may have another float type than `x`. Where both are bf16, subnormal
    /// numbers may count as 0, as processors' own products of bf16 take them.
    /// The shape fact for selection is the number of rows, up to the next power of two.
    pub struct Linear = "gemm.linear" {
        /// `[.., in_features]`, f32, f16 or bf16; rows may have a stride.
        reads x,
        /// `[out_features, in_features]`, f32, f16 or bf16; rows may have a stride.
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
pub fn linear<'a>(
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
    Linear { x, weight, bias, out: out.view_mut() }.run()?;
    Ok(out)
}

/// `x · weightᵀ + bias`, into `out`.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn linear_into<'a>(
    x: impl Into<View<'a>>,
    weight: impl Into<View<'a>>,
    bias: Option<View<'a>>,
    out: impl Into<ViewMut<'a>>,
) -> Result<()> {
    Linear { x: x.into(), weight: weight.into(), bias, out: out.into() }.run()
}

/// `weight` in the layout of the kernel that multiplies it with x of type `dtype` on its device, ahead of the calls;
/// `None` where that kernel takes weights as they are. The view of what this gives goes where the weight would. It
/// belongs to that kernel: a policy that later chooses another makes calls with it an error.
///
/// On CPUs kernels of vectors turn weights in the call otherwise, which for few rows of x takes as long as the product.
///
/// # Errors
/// No usable kernel, a weight that is none, or no memory.
pub fn prepack_linear<'a>(weight: impl Into<View<'a>>, dtype: DType) -> Result<Option<Packed>> {
    let weight = weight.into();
    Arg::new(Linear::OP, "weight", weight).dtype(WEIGHTS)?.rank(2)?.rows()?;
    let key = Key::of(dtype).with_weight(weight.dtype()).with_fact(product::row_class(16));
    Selector::new(Registry::linked()?, weight.device()).prepack(Linear::OP, &key, &weight)
}

const WEIGHTS: DTypeSet = DTypeSet::FLOAT;

impl Linear<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        product::check(Self::OP, WEIGHTS, self.x, self.weight, self.bias, self.out.as_view())
    }
}

unsafe fn reference(_: &Ctx, a: &Linear<'_>) -> Result<(), RunError> {
    // SAFETY: checked arguments on the host.
    unsafe { product::reference(&a.x, &a.weight, a.bias.as_ref(), &a.out, |_| {}) };
    Ok(())
}

kernel!(unsafe {
    op: Linear,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::mixed(DTypeSet::FLOAT, WEIGHTS),
    run: reference,
});

crate::contract!(Linear);

impl Contract for Linear<'static> {
    /// Columns to use, and whether there is a bias.
    type Params = (usize, bool);
    const OUTPUTS: &'static [usize] = &[3];

    fn cases() -> Vec<Case<Self::Params>> {
        let mut cases = Vec::new();
        for x in FLOATS {
            for weight in WEIGHTS.iter() {
                // One row, odd everything, several tiles, no rows, one of each.
                for (size, gap) in
                    [([1, 64, 64], 0), ([3, 17, 45], 3), ([21, 70, 300], 0), ([0, 5, 8], 0), ([1, 1, 1], 0)]
                {
                    cases.push(case(x, weight, size, gap, gap == 0));
                }
                cases.push(case(x, weight, [64, 130, 576], 0, false));
                if x == weight {
                    // More rows and columns than are kept together.
                    cases.push(case(x, weight, [530, 40, 520], 4, true));
                    // Rows that do not begin where two numbers do, and rows longer than the pieces they are taken in.
                    cases.push(case(x, weight, [34, 33, 42], 3, true));
                    cases.push(case(x, weight, [9, 7, 2100], 0, true));
                }
                for tensor in 0..2 {
                    let mut with_nan = case(x, weight, [7, 6, 40], 0, true);
                    poison(&mut with_nan.tensors[tensor], 85);
                    with_nan.name.push_str(", a NaN");
                    cases.push(with_nan);
                }
            }
        }
        cases
    }

    fn bench_cases() -> Vec<Case<Self::Params>> {
        let of = |d| [1, 16, 512].map(|m| case(d, d, [m, 4096, 4096], 0, false));
        FLOATS.into_iter().flat_map(of).collect()
    }

    fn bind<'a>(params: &Self::Params, tensors: &'a mut [Tensor]) -> Option<Linear<'a>> {
        let [x, weight, bias, out] = tensors else { return None };
        let (cols, has_bias) = *params;
        Some(Linear {
            x: x.view().narrow(1, 0, cols)?,
            weight: weight.view().narrow(1, 0, cols)?,
            bias: has_bias.then(|| bias.view()),
            out: out.view_mut(),
        })
    }

    fn weight<'b, 'a>(args: &'b mut Self::Args<'a>) -> Option<&'b mut View<'a>> {
        Some(&mut args.weight)
    }

    fn tolerance(key: Key) -> Tolerance {
        product::tolerance(key)
    }

    fn cost(a: &Linear<'_>) -> Cost {
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
