//! `sampling.apply_mask`: tokens that a grammar forbids get −∞, in place (the bit mask of Dong et al. 2024,
//! XGrammar).

use crate::args::Arg;
use crate::data::{Rng, ints, normal};
use crate::element::{index, put};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Logits of forbidden tokens to −∞, in place, by a bit mask (as grammar engines make it).
    ///
    /// Token t of a row may follow where bit `t % 32` of word `t / 32` is set. Bits past the vocabulary mean
    /// nothing.
    pub struct ApplyMask = "sampling.apply_mask" {
        /// `[rows, vocabulary]`, f32, f16 or bf16; rows may have a stride.
        writes logits,
        /// `[rows, words]` i32 or u32, at least vocabulary / 32 words, rounded up; rows may have a stride.
        reads mask,
    }
}

/// Masks `logits` in place.
///
/// # Errors
/// Shapes or types that do not fit, or no usable kernel.
pub fn apply_mask<'a>(logits: impl Into<ViewMut<'a>>, mask: impl Into<View<'a>>) -> Result<()> {
    ApplyMask { logits: logits.into(), mask: mask.into() }.run()
}

impl ApplyMask<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let arg = |name, view| Arg::new(Self::OP, name, view);
        let rows = arg("logits", self.logits.as_view()).dtype(DTypeSet::FLOAT)?.rank(2)?.output()?.rows()?;
        let mask = arg("mask", self.mask).dtype(DTypeSet::of(&[DType::I32, DType::U32]))?.rank(2)?;
        let words = mask.rows()?;
        let needed = rows.cols.div_ceil(32);
        if words.rows != rows.rows || words.cols < needed {
            return Err(mask.shape_error(format!(
                "[{}, words] with at least {needed} words expected, {:?} given",
                rows.rows,
                self.mask.shape()
            )));
        }
        Ok(Valid { key: Key::of(self.logits.dtype()), empty: rows.rows == 0 || rows.cols == 0 })
    }
}

unsafe fn reference(_: &Ctx, a: &ApplyMask<'_>) -> Result<(), RunError> {
    let (Some(x), Some(m)) = (a.logits.rows(), a.mask.rows()) else { return Ok(()) };
    for r in 0..x.rows {
        for i in 0..x.cols {
            // SAFETY: r and i are inside the rows that the checks found, and so is the word.
            unsafe {
                if index(&a.mask, r * m.stride + i / 32) >> (i % 32) & 1 == 0 {
                    put(&a.logits, r * x.stride + i, f64::NEG_INFINITY);
                }
            }
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: ApplyMask,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: reference,
});

crate::contract!(ApplyMask);

impl Contract for ApplyMask<'static> {
    /// Columns and words to use.
    type Params = (usize, usize);
    const OUTPUTS: &'static [usize] = &[0];

    fn cases() -> Vec<Case<Self::Params>> {
        let sizes =
            [(1, 1, 0, 0), (3, 33, 0, 1), (2, 1000, 7, 2), (0, 64, 0, 0), (1, 49152, 0, 0), (4, 31, 1, 0)];
        FLOATS.into_iter().flat_map(|d| sizes.map(|(r, c, gap, more)| case(d, r, c, gap, more))).collect()
    }

    fn bench_cases() -> Vec<Case<Self::Params>> {
        FLOATS.into_iter().flat_map(|d| [1, 16].map(|rows| case(d, rows, 128_256, 0, 0))).collect()
    }

    fn bind<'a>(params: &Self::Params, tensors: &'a mut [Tensor]) -> Option<ApplyMask<'a>> {
        let [logits, mask] = tensors else { return None };
        let logits = logits.view_mut().narrow(1, 0, params.0)?;
        Some(ApplyMask { logits, mask: mask.view().narrow(1, 0, params.1)? })
    }

    fn tolerance(_: Key) -> Tolerance {
        Tolerance::EXACT
    }

    fn cost(a: &ApplyMask<'_>) -> Cost {
        // At least the mask is read, and, were everything forbidden, every logit written.
        Cost { read: a.mask.bytes() as u64, written: a.logits.bytes() as u64, flops: 0 }
    }
}

fn case(dtype: DType, rows: usize, cols: usize, gap: usize, more: usize) -> Case<(usize, usize)> {
    let (words, mut rng) = (cols.div_ceil(32) + more, Rng::new(3));
    // All, none, and some of it.
    let word = |rng: &mut Rng| match rng.below(4) {
        0 => -1,
        1 => 0,
        _ => i64::from(rng.next_u64() as i32),
    };
    let mask: Vec<i64> = (0..rows * (words + 1)).map(|_| word(&mut rng)).collect();
    let mask = ints(DType::I32, &mask, &[rows, words + 1]);
    let tensors = vec![normal(1, dtype, &[rows, cols + gap], 1.0), mask];
    Case {
        name: format!("{dtype} [{rows}, {cols}] gap {gap}, {words} words"),
        tensors,
        params: (cols, words),
    }
}
