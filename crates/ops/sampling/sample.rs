//! `sampling.sample`: one token for each row of logits (top-k: Fan et al. 2018; top-p: Holtzman et al. 2020; min-p:
//! Nguyen et al. 2024).
//!
//! At temperature 0 the largest logit, the lowest id of several. Otherwise probabilities at the temperature,
//! then in this order: top-k keeps the k most probable (of equals, lower ids first), top-p of those the
//! shortest run of most probable ones that reaches p of their sum, min-p of those the ones with at least that
//! share of the largest. The draw is the first kept id, in the order of ids, at which the running sum exceeds
//! `uniform(seed, row)` of the whole.

use super::uniform;
use crate::args::{Arg, in_range};
use crate::data::{normal, unwritten};
use crate::element::{at, put};
use crate::{Backend, Case, Contract, Cost, DTypeSet, FLOATS, Formats, Tolerance};
use kernels_core::{CallError, Ctx, DType, Key, Result, RunError, Tensor, Valid, View, ViewMut, kernel};

kernels_core::op! {
    /// A token for each row of logits: temperature, top-k, top-p, min-p, and a seeded draw; greedy at 0.
    ///
    /// A row with NaN or +∞, or of nothing but −∞, gives id −1 and the error `NotANumber`, never an index
    /// out of range.
    pub struct Sample = "sampling.sample" {
        /// `[rows, vocabulary]`, f32, f16 or bf16; rows may have a stride.
        reads logits,
        /// `[rows]`, i32.
        writes ids,
        /// 0 for greedy.
        value temperature: f32,
        /// How many to keep; 0 keeps all.
        value top_k: usize,
        /// Share of the sum to keep, above 0; 1 keeps all.
        value top_p: f32,
        /// Share of the largest probability to keep from, 0 to 1; 0 keeps all.
        value min_p: f32,
        /// Of the draw.
        value seed: u64,
    }
}

/// How to draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// 0 for greedy.
    pub temperature: f32,
    /// 0 keeps all.
    pub top_k: usize,
    /// 1 keeps all.
    pub top_p: f32,
    /// 0 keeps all.
    pub min_p: f32,
    /// Of the draw.
    pub seed: u64,
}

impl Draw {
    /// The largest logit.
    pub const GREEDY: Draw = Draw { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 0 };
}

/// A token for each row, in a new i32 tensor.
///
/// # Errors
/// A row that leaves no choice, a parameter outside its range, shapes or types that do not fit, or no usable
/// kernel.
pub fn sample<'a>(logits: impl Into<View<'a>>, draw: Draw) -> Result<Tensor> {
    let logits = logits.into();
    let rows = logits.shape().first().copied().unwrap_or(0);
    // SAFETY: the kernel writes every element; on an error the tensor is dropped unread.
    let mut ids = unsafe { Tensor::uninit(DType::I32, &[rows], logits.device())? };
    sample_into(logits, draw, &mut ids)?;
    Ok(ids)
}

/// A token for each row, into `ids`.
///
/// # Errors
/// As [`sample`]; `ids` then holds −1 in the rows that left no choice.
pub fn sample_into<'a>(logits: impl Into<View<'a>>, draw: Draw, ids: impl Into<ViewMut<'a>>) -> Result<()> {
    let Draw { temperature, top_k, top_p, min_p, seed } = draw;
    Sample { logits: logits.into(), ids: ids.into(), temperature, top_k, top_p, min_p, seed }.run()
}

impl Sample<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let arg = |name, view| Arg::new(Self::OP, name, view);
        let logits = arg("logits", self.logits).dtype(DTypeSet::FLOAT)?.rank(2)?;
        let rows = logits.rows()?;
        if rows.cols == 0 && rows.rows > 0 {
            return Err(logits.shape_error("a vocabulary of at least one token expected, none given".into()));
        }
        if rows.cols > i32::MAX as usize {
            return Err(logits.shape_error(format!("at most {} tokens, so that ids are i32", i32::MAX)));
        }
        arg("ids", self.ids.as_view())
            .dtype(DTypeSet::of(&[DType::I32]))?
            .shape(&[rows.rows])?
            .output()?
            .dense_last()?;
        let check =
            |what, v: f32, ok, range| in_range(Self::OP, what, v.into(), ok, range, self.logits.device());
        check(
            "temperature",
            self.temperature,
            self.temperature >= 0.0 && self.temperature.is_finite(),
            "0 and above",
        )?;
        check("top_p", self.top_p, self.top_p > 0.0 && self.top_p <= 1.0, "above 0, to 1")?;
        check("min_p", self.min_p, (0.0..=1.0).contains(&self.min_p), "0 to 1")?;
        Ok(Valid { key: Key::of(self.logits.dtype()), empty: rows.rows == 0 })
    }
}

unsafe fn reference(ctx: &Ctx, a: &Sample<'_>) -> Result<(), RunError> {
    let Some(x) = a.logits.rows() else { return Ok(()) };
    for r in 0..x.rows {
        // SAFETY: r and i are inside the rows that the checks found.
        let row: Vec<f64> = (0..x.cols).map(|i| unsafe { at(&a.logits, r * x.stride + i) }).collect();
        let id = choose(a, &row, uniform(a.seed, r));
        if id.is_none() {
            ctx.not_a_number(r);
        }
        // SAFETY: there is an id for each row.
        unsafe { put(&a.ids, r, id.map_or(-1.0, |i| i as f64)) };
    }
    Ok(())
}

/// The chosen id of one row, `None` where the row leaves no choice.
fn choose(a: &Sample<'_>, row: &[f64], uniform: f64) -> Option<usize> {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !max.is_finite() || row.iter().any(|x| x.is_nan()) {
        return None;
    }
    if a.temperature == 0.0 {
        return row.iter().position(|x| *x == max);
    }
    let weight = |x: f64| ((x - max) / f64::from(a.temperature)).exp();
    let mut kept: Vec<(usize, f64)> = row.iter().map(|x| weight(*x)).enumerate().collect();
    kept.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    if a.top_k > 0 {
        kept.truncate(a.top_k);
    }
    if a.top_p < 1.0 {
        let target = f64::from(a.top_p) * kept.iter().map(|k| k.1).sum::<f64>();
        let mut sum = 0.0;
        let enough = kept.iter().position(|k| {
            sum += k.1;
            sum >= target
        });
        kept.truncate(enough.map_or(kept.len(), |i| i + 1));
    }
    kept.retain(|k| k.1 >= f64::from(a.min_p));
    kept.sort_by_key(|k| k.0);
    let target = uniform * kept.iter().map(|k| k.1).sum::<f64>();
    let mut sum = 0.0;
    let chosen = kept.iter().find(|k| {
        sum += k.1;
        sum > target
    });
    chosen.or(kept.last()).map(|k| k.0)
}

kernel!(unsafe {
    op: Sample,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: reference,
});

crate::contract!(Sample);

impl Contract for Sample<'static> {
    /// Columns to use, and how to draw.
    type Params = (usize, Draw);
    const OUTPUTS: &'static [usize] = &[1];

    fn cases() -> Vec<Case<Self::Params>> {
        let draws = [
            Draw::GREEDY,
            Draw { temperature: 1.0, seed: 1, ..Draw::GREEDY },
            Draw { temperature: 0.8, top_k: 5, seed: 2, ..Draw::GREEDY },
            Draw { temperature: 1.3, top_p: 0.9, seed: 3, ..Draw::GREEDY },
            Draw { temperature: 1.0, min_p: 0.1, seed: 4, ..Draw::GREEDY },
            Draw { temperature: 0.7, top_k: 40, top_p: 0.95, min_p: 0.05, seed: 5 },
            Draw { temperature: 2.0, top_k: 1, seed: 6, ..Draw::GREEDY },
            Draw { temperature: 1.0, top_k: 10_000, top_p: 0.5, seed: 7, ..Draw::GREEDY },
        ];
        let mut cases = Vec::new();
        for dtype in FLOATS {
            for draw in draws {
                // A long row has ties in 16 bits, and its top-k is a small part of it.
                for (rows, cols, gap) in [(4, 1000, 3), (1, 1, 0), (2, 17, 0), (0, 8, 0), (2, 2501, 1)] {
                    cases.push(case(dtype, rows, cols, gap, draw));
                }
            }
            let from = |top_k| Draw { temperature: 1.0, top_k, seed: 8, ..Draw::GREEDY };
            for cols in [100, 2100] {
                // 5 of 2100 are few, and more than a row has left.
                for draw in [Draw::GREEDY, from(50), from(5)] {
                    cases.push(masked(dtype, cols, draw));
                }
            }
            for cols in [700, 5000] {
                cases.push(level(dtype, cols, from(5)));
            }
        }
        cases
    }

    fn bench_cases() -> Vec<Case<Self::Params>> {
        let draws = [
            Draw::GREEDY,
            Draw { temperature: 0.8, seed: 1, ..Draw::GREEDY },
            Draw { temperature: 0.8, top_k: 50, top_p: 0.95, min_p: 0.0, seed: 1 },
            Draw { temperature: 0.8, top_p: 0.95, seed: 1, ..Draw::GREEDY },
        ];
        draws.into_iter().flat_map(|d| [1, 16].map(|rows| case(DType::F32, rows, 128_256, 0, d))).collect()
    }

    fn bind<'a>(params: &Self::Params, tensors: &'a mut [Tensor]) -> Option<Sample<'a>> {
        let [logits, ids] = tensors else { return None };
        let (cols, Draw { temperature, top_k, top_p, min_p, seed }) = *params;
        let logits = logits.view().narrow(1, 0, cols)?;
        Some(Sample { logits, ids: ids.view_mut(), temperature, top_k, top_p, min_p, seed })
    }

    fn tolerance(_: Key) -> Tolerance {
        Tolerance::EXACT
    }

    fn cost(a: &Sample<'_>) -> Cost {
        Cost {
            read: a.logits.bytes() as u64,
            written: a.ids.bytes() as u64,
            flops: a.logits.layout().elements() as u64,
        }
    }
}

fn case(dtype: DType, rows: usize, cols: usize, gap: usize, draw: Draw) -> Case<(usize, Draw)> {
    let tensors =
        vec![normal(draw.seed + 1, dtype, &[rows, cols + gap], 3.0), unwritten(DType::I32, &[rows])];
    Case { name: format!("{dtype} [{rows}, {cols}] gap {gap} {draw:?}"), tensors, params: (cols, draw) }
}

/// All logits equal: of them the lowest ids are kept.
fn level(dtype: DType, cols: usize, draw: Draw) -> Case<(usize, Draw)> {
    let mut case = case(dtype, 2, cols, 0, draw);
    let x: Vec<f32> = (0..2 * cols).map(|i| if i % 3 == 0 { -0.0 } else { 0.0 }).collect();
    case.tensors[0] = Tensor::from_f32(&x, dtype, &[2, cols]).unwrap_or_else(|e| panic!("test data: {e}"));
    case.name = format!("{dtype} {cols} columns level, {draw:?}");
    case
}

/// Most logits −∞, as a grammar leaves them, and two equal largest ones.
fn masked(dtype: DType, cols: usize, draw: Draw) -> Case<(usize, Draw)> {
    let mut case = case(dtype, 2, cols, 0, draw);
    let mut x = vec![f32::NEG_INFINITY; 2 * cols];
    (x[40], x[90], x[cols + 7], x[cols + 8], x[cols + 50]) = (1.0, 1.0, -3.0, 0.5, 0.5);
    case.tensors[0] = Tensor::from_f32(&x, dtype, &[2, cols]).unwrap_or_else(|e| panic!("test data: {e}"));
    case.name = format!("{dtype} {cols} columns masked, ties, {draw:?}");
    case
}
