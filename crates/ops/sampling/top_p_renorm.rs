//! `sampling.top_p_renorm`: probabilities with the shortest run of most probable tokens that reaches p of the sum
//! kept, over their sum (Holtzman et al. 2020).

use super::renorm::{self, case, edited};
use crate::element::at;
use crate::{Backend, Case, Contract, Cost, DTypeSet, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Probabilities with the shortest run of most probable tokens that reaches p of the sum kept (of equals the lowest ids first), over their sum.
    ///
    /// Sums in f64. A row of zeros stays; a NaN or a number below 0 in a row makes
    /// all of it NaN. A p that is NaN gives zeros in its row and the error `NotANumber`.
    pub struct TopPRenorm = "sampling.top_p_renorm" {
        /// `[rows, vocabulary]`, f32, 0 or more; rows may have a stride.
        reads probs,
        /// `[rows]`, f32: the share to keep; 1 and above keeps all, 0 and below the most probable token.
        reads p,
        /// Shape of `probs`, f32; rows may have a stride.
        writes out,
    }
}

/// Renormalised probabilities, in a new tensor.
///
/// # Errors
/// A p that is none, shapes or types that do not fit, or no usable kernel.
pub fn top_p_renorm<'a>(probs: impl Into<View<'a>>, p: impl Into<View<'a>>) -> Result<Tensor> {
    let probs = probs.into();
    // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
    let mut out = unsafe { Tensor::uninit(DType::F32, probs.shape(), probs.device())? };
    TopPRenorm { probs, p: p.into(), out: out.view_mut() }.run()?;
    Ok(out)
}

/// Renormalised probabilities, into `out`.
///
/// # Errors
/// As [`top_p_renorm`].
pub fn top_p_renorm_into<'a>(
    probs: impl Into<View<'a>>,
    p: impl Into<View<'a>>,
    out: impl Into<ViewMut<'a>>,
) -> Result<()> {
    TopPRenorm { probs: probs.into(), p: p.into(), out: out.into() }.run()
}

impl TopPRenorm<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        renorm::check(Self::OP, self.probs, ("p", self.p, DTypeSet::of(&[DType::F32])), self.out.as_view())
    }
}

unsafe fn reference(ctx: &Ctx, a: &TopPRenorm<'_>) -> Result<(), RunError> {
    // SAFETY: checked arguments on the host; there is a p for each row.
    unsafe {
        renorm::reference(&a.probs, &a.out, |r, sorted| {
            let p = at(&a.p, r);
            if p.is_nan() {
                ctx.not_a_number(r);
                return None;
            }
            if p >= 1.0 {
                return Some(sorted.len());
            }
            let (target, mut sum) = (p * sorted.iter().sum::<f64>(), 0.0);
            let enough = sorted.iter().position(|x| {
                sum += x;
                sum >= target
            });
            Some(enough.map_or(sorted.len(), |i| i + 1))
        });
    }
    Ok(())
}

kernel!(unsafe {
    op: TopPRenorm,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::of(&[DType::F32])),
    run: reference,
});

crate::contract!(TopPRenorm);

impl Contract for TopPRenorm<'static> {
    /// Columns to use.
    type Params = usize;
    const OUTPUTS: &'static [usize] = &[2];

    fn cases() -> Vec<Case<usize>> {
        vec![
            case(4, 1000, 3, parameter(&[0.1, 0.5, 0.95, 1.0]), "mixed"),
            case(3, 17, 0, parameter(&[0.999, 0.0, 2.0]), "ends"),
            case(1, 1, 0, parameter(&[0.3]), "one"),
            case(0, 8, 0, parameter(&[]), "none"),
            case(1, 49152, 0, parameter(&[0.9]), "large"),
            edited(case(2, 40, 0, parameter(&[0.6, 0.6]), "equal"), " ties", |x| x.fill(0.025)),
            edited(case(2, 40, 0, parameter(&[0.6, 0.6]), "zeros"), " in row 0", |x| x[..40].fill(0.0)),
            edited(case(2, 40, 0, parameter(&[0.6, 0.6]), "a NaN"), " in row 1", |x| x[43] = f32::NAN),
        ]
    }

    fn bench_cases() -> Vec<Case<usize>> {
        vec![
            case(1, 128_256, 0, parameter(&[0.95]), "bench"),
            case(16, 128_256, 0, parameter(&[0.95; 16]), "bench"),
        ]
    }

    fn bind<'a>(cols: &usize, tensors: &'a mut [Tensor]) -> Option<TopPRenorm<'a>> {
        let [probs, p, out] = tensors else { return None };
        let (probs, out) = (probs.view().narrow(1, 0, *cols)?, out.view_mut().narrow(1, 0, *cols)?);
        Some(TopPRenorm { probs, p: p.view(), out })
    }

    fn tolerance(_: Key) -> Tolerance {
        renorm::TOLERANCE
    }

    fn cost(a: &TopPRenorm<'_>) -> Cost {
        renorm::cost(&a.probs)
    }
}

fn parameter(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, &[values.len()]).unwrap_or_else(|e| panic!("test data: {e}"))
}
