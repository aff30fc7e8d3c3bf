//! Weight rows as panels of two vectors' columns, in which each step along k is next to the one before: a part of
//! them in a call, or all of them ahead of the calls.

use crate::isa::{Elem, Isa, Square, load_tail, prefetch};
use kernels_core::{Device, Error, Rows, Tensor, View};

/// `depth` steps of `2 W` rows as a panel. What comes `ahead` numbers later in each row is asked for.
///
/// # Safety
/// `S`'s features; so many rows, valid for `depth` numbers, the panel for `depth` steps.
#[inline(always)]
pub unsafe fn turn<S: Isa, W: Elem>(rows: &[*const W], depth: usize, panel: *mut f32, ahead: usize) {
    type Turned<S> = <S as Isa>::Eight;
    for first in (0..2 * S::W).step_by(8) {
        let mut k = 0;
        while k < depth {
            let left = depth - k;
            // SAFETY: by contract.
            unsafe {
                let mut v = [Turned::<S>::splat(0.0); 8];
                for i in 0..8 {
                    let at = rows[first + i].add(k);
                    prefetch(at.wrapping_add(ahead));
                    v[i] = if left < 8 {
                        load_tail::<Turned<S>, W>(at, left, 0.0)
                    } else {
                        W::load::<Turned<S>>(at)
                    };
                }
                let turned = Turned::<S>::transposed(v);
                for i in 0..left.min(8) {
                    Turned::<S>::store_f32(panel.add((k + i) * 2 * S::W + first), turned[i]);
                }
            }
            k += 8;
        }
    }
}

/// All of a weight in panels of two vectors' columns, of its own type, with so many numbers of each column `together`;
/// rows past the last are the last again.
///
/// # Safety
/// The weight is on the host, of type `W`, and its columns are a multiple of `together`.
pub unsafe fn pack<S: Isa, W: Elem>(weight: &View<'_>, together: usize) -> Result<Tensor, Error> {
    let Rows { rows, cols, stride } = weight.rows().unwrap_or(Rows { rows: 0, cols: 0, stride: 0 });
    let width = 2 * S::W;
    // SAFETY: every element is written below.
    let mut packed =
        unsafe { Tensor::uninit(W::DTYPE, &[rows.div_ceil(width), cols, width], Device::cpu())? };
    let (from, to) = (weight.as_ptr::<W>(), packed.view_mut().as_mut_ptr::<W>());
    for first in (0..rows).step_by(width) {
        for j in 0..width {
            let row = (first + j).min(rows - 1);
            for k in 0..cols {
                // SAFETY: the row is inside the weight, and the column has its place in the panel.
                unsafe {
                    let at = k / together * width * together + j * together + k % together;
                    to.add(first * cols + at).write(*from.add(row * stride + k));
                }
            }
        }
    }
    Ok(packed)
}
