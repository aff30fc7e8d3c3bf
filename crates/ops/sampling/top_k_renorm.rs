//! `sampling.top_k_renorm`: probabilities with the k most probable tokens of each row kept, over their sum (Fan et al.
//! 2018).

use super::renorm::{self, case, edited};
use crate::data::ints;
use crate::element::index;
use crate::{Backend, Case, Contract, Cost, DTypeSet, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Probabilities with the k most probable tokens of each row kept (of equals the lowest ids), over their sum.
    ///
    /// Sums in f64. A row of zeros stays; a NaN or a number below 0 in a row makes
    /// all of it NaN. A k below 0 gives zeros in its row and the error `OutOfRange`.
    pub struct TopKRenorm = "sampling.top_k_renorm" {
        /// `[rows, vocabulary]`, f32, 0 or more; rows may have a stride.
        reads probs,
        /// `[rows]`, i32, i64 or u32: how many to keep; 0 keeps all.
        reads k,
        /// Shape of `probs`, f32; rows may have a stride.
        writes out,
    }
}

/// Renormalised probabilities, in a new tensor.
///
/// # Errors
/// A k that is none, shapes or types that do not fit, or no usable kernel.
pub fn top_k_renorm<'a>(probs: impl Into<View<'a>>, k: impl Into<View<'a>>) -> Result<Tensor> {
    let probs = probs.into();
    // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
    let mut out = unsafe { Tensor::uninit(DType::F32, probs.shape(), probs.device())? };
    TopKRenorm { probs, k: k.into(), out: out.view_mut() }.run()?;
    Ok(out)
}

/// Renormalised probabilities, into `out`.
///
/// # Errors
/// As [`top_k_renorm`].
pub fn top_k_renorm_into<'a>(
    probs: impl Into<View<'a>>,
    k: impl Into<View<'a>>,
    out: impl Into<ViewMut<'a>>,
) -> Result<()> {
    TopKRenorm { probs: probs.into(), k: k.into(), out: out.into() }.run()
}

impl TopKRenorm<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        renorm::check(Self::OP, self.probs, ("k", self.k, renorm::COUNTS), self.out.as_view())
    }
}

unsafe fn reference(ctx: &Ctx, a: &TopKRenorm<'_>) -> Result<(), RunError> {
    // SAFETY: checked arguments on the host; there is a k for each row.
    unsafe {
        renorm::reference(&a.probs, &a.out, |r, sorted| {
            let k = index(&a.k, r);
            if k < 0 {
                ctx.out_of_range(k, sorted.len() + 1);
                return None;
            }
            Some(if k == 0 { sorted.len() } else { (k as usize).min(sorted.len()) })
        });
    }
    Ok(())
}

kernel!(unsafe {
    op: TopKRenorm,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::of(&[DType::F32])),
    run: reference,
});

crate::contract!(TopKRenorm);

impl Contract for TopKRenorm<'static> {
    /// Columns to use.
    type Params = usize;
    const OUTPUTS: &'static [usize] = &[2];

    fn cases() -> Vec<Case<usize>> {
        vec![
            case(4, 1000, 3, parameter(&[1, 5, 900, 0]), "mixed"),
            case(2, 17, 0, parameter(&[17, 40]), "all"),
            case(1, 1, 0, parameter(&[1]), "one"),
            case(0, 8, 0, parameter(&[]), "none"),
            case(1, 49152, 0, parameter(&[50]), "large"),
            edited(case(2, 40, 0, parameter(&[3, 3]), "equal"), " ties", |x| x.fill(0.025)),
            edited(case(2, 40, 0, parameter(&[3, 3]), "zeros"), " in row 0", |x| x[..40].fill(0.0)),
            edited(case(2, 40, 0, parameter(&[3, 3]), "a NaN"), " in row 1", |x| x[43] = f32::NAN),
        ]
    }

    fn bench_cases() -> Vec<Case<usize>> {
        vec![
            case(1, 128_256, 0, parameter(&[50]), "bench"),
            case(16, 128_256, 0, parameter(&[50; 16]), "bench"),
        ]
    }

    fn bind<'a>(cols: &usize, tensors: &'a mut [Tensor]) -> Option<TopKRenorm<'a>> {
        let [probs, k, out] = tensors else { return None };
        let (probs, out) = (probs.view().narrow(1, 0, *cols)?, out.view_mut().narrow(1, 0, *cols)?);
        Some(TopKRenorm { probs, k: k.view(), out })
    }

    fn tolerance(_: Key) -> Tolerance {
        renorm::TOLERANCE
    }

    fn cost(a: &TopKRenorm<'_>) -> Cost {
        renorm::cost(&a.probs)
    }
}

fn parameter(values: &[i64]) -> Tensor {
    ints(DType::I32, values, &[values.len()])
}
