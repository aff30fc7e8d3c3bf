//! One row of x: weight rows one after another, so that a thread reads memory from one end to the other. Four rows at a
//! time would be four places, each with pages of its own, and took 1.2 (f32) to 1.4 times (bf16) as long.

use super::input::Input;
use super::output::Output;
use super::times::Times;
use crate::isa::{Elem, FAR_AHEAD, Isa, load_some, prefetch};

/// x times the weight row at `w`, which is column `n` of the output.
///
/// # Safety
/// `S`'s features; one row of x, and the weight row valid for its columns; the column is inside the output.
#[inline(always)]
pub unsafe fn line<S: Isa, W: Elem, O: Elem, T: Times>(x: Input, w: *const W, n: usize, out: Output<O>) {
    // SAFETY: every offset is below the number of columns.
    unsafe {
        let (mut acc, mut i) = ([S::splat(0.0); 4], 0);
        while i + 4 * S::W <= x.cols {
            for line in (0..4 * S::W * size_of::<W>()).step_by(64) {
                prefetch(w.add(i).cast::<u8>().wrapping_add(FAR_AHEAD + line));
            }
            for j in 0..4 {
                let at = i + j * S::W;
                acc[j] = T::times::<S>(acc[j], S::load_f32(x.ptr.add(at)), W::load::<S>(w.add(at)));
            }
            i += 4 * S::W;
        }
        while i < x.cols {
            let left = S::W.min(x.cols - i);
            let (x, w) =
                (load_some::<S, f32>(x.ptr.add(i), left, 0.0), load_some::<S, W>(w.add(i), left, 0.0));
            acc[0] = T::times::<S>(acc[0], x, w);
            i += left;
        }
        out.put(0, n, S::sum_of_four(acc));
    }
}
