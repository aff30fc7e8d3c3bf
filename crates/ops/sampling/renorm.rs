//! What the two renormalisations share: checks, the reference, cases.

use crate::args::{Arg, INDEX};
use crate::data::{Rng, normal, unwritten};
use crate::element::{at, put};
use crate::{Case, Cost, Tolerance};
use kernels_core::{CallError, DType, DTypeSet, Key, Tensor, Valid, View, ViewMut};

/// Checks probabilities, one parameter a row of a type in `takes`, and the output.
pub(super) fn check(
    op: &'static str,
    probs: View<'_>,
    (name, parameter, takes): (&'static str, View<'_>, DTypeSet),
    out: View<'_>,
) -> Result<Valid, CallError> {
    let arg = |name, view| Arg::new(op, name, view);
    let f32s = DTypeSet::of(&[DType::F32]);
    let input = arg("probs", probs).dtype(f32s)?.rank(2)?;
    let rows = input.rows()?;
    if rows.cols > i32::MAX as usize {
        return Err(input.shape_error(format!("at most {} tokens, so that ids are i32", i32::MAX)));
    }
    arg(name, parameter).dtype(takes)?.shape(&[rows.rows])?.dense_last()?;
    arg("out", out).dtype(f32s)?.shape(probs.shape())?.output()?.rows()?;
    Ok(Valid { key: Key::of(DType::F32), empty: rows.rows == 0 || rows.cols == 0 })
}

/// Types of a count for each row.
pub(super) const COUNTS: DTypeSet = INDEX;

/// Each row with what `keep` keeps of it, as a share of the kept sum. `keep` gets the row's values from the
/// most probable down, of equals the lowest id first, and says how many to keep.
///
/// # Safety
/// Checked arguments on the host.
pub(super) unsafe fn reference(
    probs: &View<'_>,
    out: &ViewMut<'_>,
    mut keep: impl FnMut(usize, &[f64]) -> Option<usize>,
) {
    let (Some(p), Some(o)) = (probs.rows(), out.rows()) else { return };
    for r in 0..p.rows {
        // SAFETY: r and i are inside the rows that the checks found.
        unsafe {
            let row: Vec<f64> = (0..p.cols).map(|i| at(probs, r * p.stride + i)).collect();
            let mut order: Vec<usize> = (0..p.cols).collect();
            order.sort_by(|a, b| row[*b].total_cmp(&row[*a]).then(a.cmp(b)));
            let sorted: Vec<f64> = order.iter().map(|i| row[*i]).collect();
            let (nan, kept) = (row.iter().any(|x| x.is_nan() || *x < 0.0), keep(r, &sorted));
            let total: f64 = sorted.iter().take(kept.unwrap_or(0)).sum();
            (0..p.cols).for_each(|i| put(out, r * o.stride + i, if nan { f64::NAN } else { 0.0 }));
            if !nan && total > 0.0 {
                order
                    .iter()
                    .take(kept.unwrap_or(0))
                    .for_each(|i| put(out, r * o.stride + i, row[*i] / total));
            }
        }
    }
}

/// One division in f32.
pub(super) const TOLERANCE: Tolerance = Tolerance { abs: 1e-37, rel: 3e-7 };

pub(super) fn cost(probs: &View<'_>) -> Cost {
    let elements = probs.layout().elements() as u64;
    Cost { read: probs.bytes() as u64, written: probs.bytes() as u64, flops: 2 * elements }
}

/// Probabilities of some sharpness with ties; a parameter of each row.
pub(super) fn case(rows: usize, cols: usize, gap: usize, parameter: Tensor, name: &str) -> Case<usize> {
    let logits = normal(7, DType::F32, &[rows, cols + gap], 2.0).to_f32_vec().unwrap_or_default();
    let mut rng = Rng::new(8);
    // Steps of a quarter make ties.
    let weights: Vec<f32> =
        logits.iter().map(|x| (if rng.below(2) == 0 { *x } else { (4.0 * x).round() / 4.0 }).exp()).collect();
    let mut probs = Vec::with_capacity(weights.len());
    for row in weights.chunks(cols + gap) {
        let sum: f32 = row.iter().take(cols).sum();
        probs.extend(row.iter().map(|w| w / sum));
    }
    let shape = [rows, cols + gap];
    let probs = Tensor::from_slice(&probs, &shape).unwrap_or_else(|e| panic!("test data: {e}"));
    let tensors = vec![probs, parameter, unwritten(DType::F32, &shape)];
    Case { name: format!("[{rows}, {cols}] gap {gap} {name}"), tensors, params: cols }
}

/// Changes a case's probabilities.
pub(super) fn edited(mut case: Case<usize>, name: &str, edit: impl FnOnce(&mut Vec<f32>)) -> Case<usize> {
    let mut values = case.tensors[0].to_f32_vec().unwrap_or_default();
    edit(&mut values);
    case.tensors[0] =
        Tensor::from_slice(&values, case.tensors[0].shape()).unwrap_or_else(|e| panic!("test data: {e}"));
    case.name.push_str(name);
    case
}
