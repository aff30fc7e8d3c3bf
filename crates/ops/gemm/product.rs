//! What `linear` and `linear_gguf` share: checks, reference, tolerance and cost.

use crate::args::Arg;
use crate::element::{at, put};
use crate::quantization::blocks::element;
use crate::{Cost, Tolerance};
use kernels_core::{CallError, DTypeSet, Key, Valid, View, ViewMut};

/// Rows of x up to the next power of two: what selection may depend on besides the types.
pub(super) fn row_class(rows: usize) -> usize {
    rows.checked_next_power_of_two().unwrap_or(usize::MAX)
}

pub(super) fn check(
    op: &'static str,
    weights: DTypeSet,
    x: View<'_>,
    weight: View<'_>,
    bias: Option<View<'_>>,
    out: View<'_>,
) -> Result<Valid, CallError> {
    let arg = |name, view| Arg::new(op, name, view);
    let input = arg("x", x).dtype(DTypeSet::FLOAT)?;
    let rows = input.rows()?;
    let matrix = arg("weight", weight).packable().dtype(weights)?.rank(2)?;
    let features = matrix.rows()?;
    if features.cols != rows.cols {
        let detail = format!(
            "[out_features, in_features] with in_features {} expected, {:?} given",
            rows.cols,
            weight.shape()
        );
        return Err(matrix.shape_error(detail));
    }
    if let Some(bias) = bias {
        arg("bias", bias).like(input)?.shape(&[features.rows])?.rows()?;
    }
    arg("out", out).like(input)?.rows_like(x.shape(), features.rows)?.output()?.rows()?;
    let key = Key::of(x.dtype()).with_weight(weight.dtype()).with_fact(row_class(rows.rows));
    let key = key.with_packed(weight.packed());
    Ok(Valid { key, empty: rows.rows == 0 || features.rows == 0 })
}

/// The product in f64, of rows of x that `round` may change first.
///
/// # Safety
/// Checked arguments on the host.
pub(super) unsafe fn reference(
    x: &View<'_>,
    weight: &View<'_>,
    bias: Option<&View<'_>>,
    out: &ViewMut<'_>,
    round: fn(&mut [f64]),
) {
    let (Some(xr), Some(wr), Some(or)) = (x.rows(), weight.rows(), out.rows()) else { return };
    // SAFETY: all indices are inside the rows that the checks found.
    unsafe {
        // As f64 once: the triple loop below is what takes the time.
        let row = |m| {
            let mut row: Vec<f64> = (0..xr.cols).map(|k| at(x, m * xr.stride + k)).collect();
            round(&mut row);
            row
        };
        let input: Vec<Vec<f64>> = (0..xr.rows).map(row).collect();
        for n in 0..wr.rows {
            let row: Vec<f64> = (0..wr.cols).map(|k| element(weight, wr.stride, n, k)).collect();
            for (m, x) in input.iter().enumerate() {
                let dot: f64 = row.iter().zip(x).map(|(w, x)| w * x).sum();
                put(out, m * or.stride + n, dot + bias.map_or(0.0, |b| at(b, n)));
            }
        }
    }
}

/// The absolute part is for sums of up to some thousand products of x of order 1 and w of order 0.1.
pub(super) fn tolerance(key: Key) -> Tolerance {
    Tolerance { abs: 4e-5, ..Tolerance::rounded(key, 1.01, 1e-5) }
}

pub(super) fn cost(x: &View<'_>, weight: &View<'_>, out: &ViewMut<'_>) -> Cost {
    let rows = x.rows().map_or(0, |r| r.rows) as u64;
    let flops = 2 * rows * weight.layout().elements() as u64;
    Cost { read: (x.bytes() + weight.bytes()) as u64, written: out.bytes() as u64, flops }
}
