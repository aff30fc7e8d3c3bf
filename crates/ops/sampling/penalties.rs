//! `sampling.penalties`: logits of tokens that were there already, lowered in place: repetition (Keskar et al.
//! 2019) over prompt and output, frequency and presence (OpenAI's API) over the output.

use crate::args::{Arg, INDEX};
use crate::data::{Rng, ints, normal};
use crate::element::{at, below, index, put};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// Repetition, frequency and presence penalties on logits, in place.
    ///
    /// A token of the prompt or the output: x / repetition where x > 0, else x · repetition. Then, for a token
    /// that is n times in the output, less n · frequency + presence. In f32, rounded once. A token below 0 is
    /// skipped (padding); one beyond the vocabulary is skipped and gives the error `OutOfRange`.
    pub struct Penalties = "sampling.penalties" {
        /// `[rows, vocabulary]`, f32, f16 or bf16; rows may have a stride.
        writes logits,
        /// `[rows, prompt length]`, i32, i64 or u32; rows may have a stride.
        maybe prompt_tokens,
        /// `[rows, output length]`, i32, i64 or u32; rows may have a stride.
        reads output_tokens,
        /// `[rows]` f32; 1 for none.
        reads repetition,
        /// `[rows]` f32; 0 for none.
        reads frequency,
        /// `[rows]` f32; 0 for none.
        reads presence,
    }
}

/// Lowers `logits` in place; the three are repetition, frequency and presence of each row.
///
/// # Errors
/// A token beyond the vocabulary, shapes or types that do not fit, or no usable kernel.
pub fn penalties<'a>(
    logits: impl Into<ViewMut<'a>>,
    prompt_tokens: Option<View<'a>>,
    output_tokens: impl Into<View<'a>>,
    [repetition, frequency, presence]: [View<'a>; 3],
) -> Result<()> {
    let output_tokens = output_tokens.into();
    Penalties { logits: logits.into(), prompt_tokens, output_tokens, repetition, frequency, presence }.run()
}

impl Penalties<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let arg = |name, view| Arg::new(Self::OP, name, view);
        let logits = arg("logits", self.logits.as_view()).dtype(DTypeSet::FLOAT)?.rank(2)?.output()?;
        let rows = logits.rows()?;
        if rows.cols > i32::MAX as usize {
            return Err(logits.shape_error(format!("at most {} tokens, so that ids are i32", i32::MAX)));
        }
        let lists = [("prompt_tokens", self.prompt_tokens), ("output_tokens", Some(self.output_tokens))];
        for (name, tokens) in lists.into_iter().filter_map(|(n, t)| t.map(|t| (n, t))) {
            let list = arg(name, tokens).dtype(INDEX)?.rank(2)?;
            list.shape(&[rows.rows, tokens.dim(1)])?.rows()?;
        }
        for (name, values) in
            [("repetition", self.repetition), ("frequency", self.frequency), ("presence", self.presence)]
        {
            arg(name, values).dtype(DTypeSet::of(&[DType::F32]))?.shape(&[rows.rows])?.dense_last()?;
        }
        Ok(Valid { key: Key::of(self.logits.dtype()), empty: rows.rows == 0 || rows.cols == 0 })
    }
}

unsafe fn reference(ctx: &Ctx, a: &Penalties<'_>) -> Result<(), RunError> {
    let Some(x) = a.logits.rows() else { return Ok(()) };
    for r in 0..x.rows {
        // For each token whether it was there, and how often in the output.
        let mut seen = std::collections::BTreeMap::<usize, f64>::new();
        for (tokens, weight) in [(a.prompt_tokens.as_ref(), 0.0), (Some(&a.output_tokens), 1.0)] {
            for i in 0..tokens.map_or(0, |t| t.dim(1)) {
                // SAFETY: row and entry are inside the list.
                let token = tokens.map_or(-1, |t| unsafe { index(t, r * t.stride(0) + i) });
                match below(token, x.cols) {
                    Some(id) => *seen.entry(id).or_default() += weight,
                    None if token >= 0 => ctx.out_of_range(token, x.cols),
                    None => {}
                }
            }
        }
        for (id, count) in seen {
            // SAFETY: the id is below the columns; there is a value for each row.
            unsafe {
                let (place, repetition) = (r * x.stride + id, at(&a.repetition, r));
                let logit = at(&a.logits.as_view(), place);
                let scaled = if logit > 0.0 { logit / repetition } else { logit * repetition };
                let presence = if count > 0.0 { at(&a.presence, r) } else { 0.0 };
                put(&a.logits, place, scaled - (count * at(&a.frequency, r) + presence));
            }
        }
    }
    Ok(())
}

kernel!(unsafe {
    op: Penalties,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: reference,
});

crate::contract!(Penalties);

impl Contract for Penalties<'static> {
    /// Columns to use, and whether there is a prompt.
    type Params = (usize, bool);
    const OUTPUTS: &'static [usize] = &[0];

    fn cases() -> Vec<Case<Self::Params>> {
        let mut cases = Vec::new();
        for dtype in FLOATS {
            for (rows, cols, gap, prompt, output) in
                [(3, 50, 0, 20, 30), (2, 1000, 5, 0, 7), (1, 1, 0, 3, 4), (0, 8, 0, 2, 2), (2, 300, 0, 40, 0)]
            {
                cases.push(case(dtype, rows, cols, gap, prompt, output));
            }
        }
        cases
    }

    fn bench_cases() -> Vec<Case<Self::Params>> {
        [1, 16].map(|rows| case(DType::F32, rows, 128_256, 0, 1000, 1000)).into()
    }

    fn bind<'a>(params: &Self::Params, tensors: &'a mut [Tensor]) -> Option<Penalties<'a>> {
        let [logits, prompt, output, repetition, frequency, presence] = tensors else { return None };
        Some(Penalties {
            logits: logits.view_mut().narrow(1, 0, params.0)?,
            prompt_tokens: params.1.then(|| prompt.view()),
            output_tokens: output.view(),
            repetition: repetition.view(),
            frequency: frequency.view(),
            presence: presence.view(),
        })
    }

    fn tolerance(key: Key) -> Tolerance {
        Tolerance { abs: 2e-6, ..Tolerance::rounded(key, 1.01, 1e-6) }
    }

    fn cost(a: &Penalties<'_>) -> Cost {
        let tokens = a.prompt_tokens.as_ref().map_or(0, |t| t.bytes()) + a.output_tokens.bytes();
        Cost { read: tokens as u64, written: 0, flops: 0 }
    }
}

fn case(
    dtype: DType,
    rows: usize,
    cols: usize,
    gap: usize,
    prompt: usize,
    output: usize,
) -> Case<(usize, bool)> {
    let mut rng = Rng::new(4);
    // Each token many times, and padding.
    let mut list = |len: usize| {
        let tokens: Vec<i64> = (0..rows * len)
            .map(|_| if rng.below(5) == 0 { -1 } else { rng.below(cols.min(20)) as i64 })
            .collect();
        ints(DType::I32, &tokens, &[rows, len])
    };
    let (prompts, outputs) = (list(prompt), list(output));
    let values = |seed, base: f32| {
        let values: Vec<f32> = Rng::new(seed).normals(rows, 0.2).iter().map(|v| base + v).collect();
        Tensor::from_slice(&values, &[rows]).unwrap_or_else(|e| panic!("test data: {e}"))
    };
    let tensors = vec![
        normal(1, dtype, &[rows, cols + gap], 3.0),
        prompts,
        outputs,
        values(5, 1.5),
        values(6, 0.3),
        values(7, 0.4),
    ];
    let name = format!("{dtype} [{rows}, {cols}] gap {gap}, {prompt} of prompt, {output} of output");
    Case { name, tensors, params: (cols, prompt > 0) }
}
