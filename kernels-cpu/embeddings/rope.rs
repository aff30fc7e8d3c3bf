//! `embeddings.rope`. In place, one pass over q and k.

use crate::isa::{Elem, Isa, load_tail, store_tail};
use crate::pool::Plan;
use crate::variants::{variants, with_float};
use kernels_core::{Ctx, View, ViewMut};
use kernels_ops::embeddings::{Rope, position};
use std::ops::Range;

variants!(unsafe { op: Rope, formats: Formats::same(DTypeSet::FLOAT), plan: plan, part: part });

fn plan(a: &Rope<'_>) -> Plan {
    Plan { units: a.q.dim(0), work: 2 * (a.q.layout().elements() + a.k.layout().elements()) }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &Rope<'_>, units: Range<usize>, _: usize) {
    with_float!(a.q.dtype(), T => {
        for t in units {
            // SAFETY: t is below the number of tokens; the cache is read only where the position is inside.
            unsafe {
                let Some(p) = position(ctx, &a.positions, &a.cos_sin_cache, t) else { continue };
                turn_token::<S, T>([&a.q, &a.k], t, &a.cos_sin_cache, p, a.is_neox);
            }
        }
    })
}

/// Every head of token `t` by the angles of row `p` of the cache.
///
/// # Safety
/// `S`'s features; token and row are inside the tensors, whose heads are of type `T`.
#[inline(always)]
pub unsafe fn turn_token<S: Isa, T: Elem>(
    both: [&ViewMut<'_>; 2],
    t: usize,
    cache: &View<'_>,
    p: usize,
    is_neox: bool,
) {
    // SAFETY: by contract.
    unsafe {
        let cos = cache.as_ptr::<f32>().add(p * cache.stride(0));
        for x in both {
            for h in 0..x.dim(1) {
                let head = x.as_mut_ptr::<T>().add(t * x.stride(0) + h * x.stride(1));
                turn::<S, T>(head, cos, cache.dim(1) / 2, is_neox);
            }
        }
    }
}

/// Turns the pairs of a head.
///
/// # Safety
/// As for [`neox`].
#[inline(always)]
pub unsafe fn turn<S: Isa, T: Elem>(head: *mut T, cos: *const f32, half: usize, is_neox: bool) {
    // SAFETY: passed on.
    unsafe {
        match is_neox {
            true => neox::<S, T>(head, cos, half),
            false => interleaved::<S, T>(head, cos, half),
        }
    }
}

/// # Safety
/// `S`'s features; `head` and `cos` (cosines, then sines) valid for `2 * half` elements.
#[inline(always)]
unsafe fn neox<S: Isa, T: Elem>(head: *mut T, cos: *const f32, half: usize) {
    // SAFETY: every offset is below 2 * half.
    unsafe {
        let mut j = 0;
        while j + S::W <= half {
            let (u, v) = (T::load::<S>(head.add(j)), T::load::<S>(head.add(half + j)));
            let (c, s) = (S::load_f32(cos.add(j)), S::load_f32(cos.add(half + j)));
            T::store::<S>(head.add(j), S::sub(S::mul(u, c), S::mul(v, s)));
            T::store::<S>(head.add(half + j), S::fma(v, c, S::mul(u, s)));
            j += S::W;
        }
        if j < half {
            let n = half - j;
            let (u, v) =
                (load_tail::<S, T>(head.add(j), n, 0.0), load_tail::<S, T>(head.add(half + j), n, 0.0));
            let (c, s) =
                (load_tail::<S, f32>(cos.add(j), n, 0.0), load_tail::<S, f32>(cos.add(half + j), n, 0.0));
            store_tail::<S, T>(head.add(j), S::sub(S::mul(u, c), S::mul(v, s)), n);
            store_tail::<S, T>(head.add(half + j), S::fma(v, c, S::mul(u, s)), n);
        }
    }
}

/// # Safety
/// As for [`neox`].
#[inline(always)]
unsafe fn interleaved<S: Isa, T: Elem>(head: *mut T, cos: *const f32, half: usize) {
    // SAFETY: every offset is below 2 * half; the array holds two of the widest vectors.
    unsafe {
        let mut j = 0;
        while j < half {
            let pairs = S::W.min(half - j);
            let (first, second) = (head.add(2 * j), head.add(2 * j + S::W));
            let mut lanes = [0f32; 32];
            let whole = pairs == S::W;
            if whole {
                S::store_f32(lanes.as_mut_ptr(), T::load::<S>(first));
                S::store_f32(lanes.as_mut_ptr().add(S::W), T::load::<S>(second));
            } else {
                for i in 0..2 * pairs {
                    lanes[i] = (*first.add(i)).to_f32();
                }
            }
            for i in 0..pairs {
                let (c, s) = (*cos.add(j + i), *cos.add(half + j + i));
                let (u, v) = (lanes[2 * i], lanes[2 * i + 1]);
                lanes[2 * i] = u * c - v * s;
                lanes[2 * i + 1] = v * c + u * s;
            }
            if whole {
                T::store::<S>(first, S::load_f32(lanes.as_ptr()));
                T::store::<S>(second, S::load_f32(lanes.as_ptr().add(S::W)));
            } else {
                for i in 0..2 * pairs {
                    first.add(i).write(T::from_f32(lanes[i]));
                }
            }
            j += pairs;
        }
    }
}
