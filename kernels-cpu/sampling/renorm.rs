//! What the two renormalisations share.

use super::border::{Border, find_border};
use crate::pool::Plan;
use kernels_core::{View, ViewMut};

/// A unit is a row.
pub fn plan(probs: &View<'_>) -> Plan {
    Plan { units: probs.dim(0), work: 4 * probs.layout().elements() }
}

/// Row `r` with what top-k (0 for all) or top-p (1 and above for all, else above 0) keeps, over its sum;
/// without a filter, zeros.
///
/// # Safety
/// The row is inside both tensors, and `ids` valid for as many entries as it has.
#[inline(always)]
pub unsafe fn row(
    probs: &View<'_>,
    out: &ViewMut<'_>,
    r: usize,
    filter: Option<(usize, f64)>,
    ids: *mut u32,
) {
    let (Some(from), Some(to)) = (probs.rows(), out.rows()) else { return };
    // SAFETY: by contract.
    unsafe {
        let p = probs.as_ptr::<f32>().add(r * from.stride);
        let (w, out) = (std::slice::from_raw_parts(p, from.cols), out.as_mut_ptr::<f32>().add(r * to.stride));
        // No early way out: the loop stays one of vectors.
        if w.iter().fold(false, |bad, x| bad | x.is_nan() | (*x < 0.0)) {
            return (0..from.cols).for_each(|i| out.add(i).write(f32::NAN));
        }
        let border = match filter {
            None => return out.write_bytes(0, from.cols),
            Some((0, p)) if p >= 1.0 => Border::ALL,
            Some((k, p)) => find_border(k, p, w, ids),
        };
        let mut total = 0f64;
        for (i, x) in w.iter().enumerate() {
            total += if border.keeps(*x, i) { f64::from(*x) } else { 0.0 };
        }
        for (i, x) in w.iter().enumerate() {
            let kept = border.keeps(*x, i) && total > 0.0;
            out.add(i).write(if kept { (f64::from(*x) / total) as f32 } else { 0.0 });
        }
    }
}
