//! One token's rows into their place in a cache.

use crate::isa::{Elem, Isa, load_tail, store_tail};
use crate::quantization::rows::convert;
use kernels_core::{Element, View, ViewMut};

/// Shares of a cache's blocks: two tokens with one slot are written by one thread, the later one last, and
/// never race.
pub const UNITS: usize = 16;

/// Token `t` of `from`, divided by `scale`, to row `row` of block `block`.
///
/// # Safety
/// `S`'s features; the token and its place are inside the tensors.
#[inline(always)]
pub unsafe fn store<S: Isa, A: Elem, B: Elem>(
    from: &View<'_>,
    to: &ViewMut<'_>,
    t: usize,
    (block, row): (usize, usize),
    scale: f32,
) {
    let dim = from.dim(2);
    for h in 0..from.dim(1) {
        // SAFETY: every index is inside its dimension.
        unsafe {
            let source = from.as_ptr::<A>().add(t * from.stride(0) + h * from.stride(1));
            let target =
                to.as_mut_ptr::<B>().add(block * to.stride(0) + row * to.stride(1) + h * to.stride(2));
            match (scale == 1.0, <A as Element>::DTYPE == <B as Element>::DTYPE) {
                (true, true) => target.copy_from_nonoverlapping(source.cast(), dim),
                (true, false) => convert::<S, A, B>(source, target, dim),
                (false, _) => divide::<S, A, B>(source, target, dim, scale),
            }
        }
    }
}

/// # Safety
/// `S`'s features; pointers valid for `n` elements.
#[inline(always)]
unsafe fn divide<S: Isa, A: Elem, B: Elem>(from: *const A, to: *mut B, n: usize, scale: f32) {
    // SAFETY: every offset is below n.
    unsafe {
        let (s, mut i) = (S::splat(scale), 0);
        while i + S::W <= n {
            B::store::<S>(to.add(i), S::div(A::load::<S>(from.add(i)), s));
            i += S::W;
        }
        if i < n {
            let v = S::div(load_tail::<S, A>(from.add(i), n - i, 0.0), s);
            store_tail::<S, B>(to.add(i), v, n - i);
        }
    }
}
