//! The inner loop of elementwise arithmetic.

use super::walk::Run;
use crate::isa::{Elem, Isa, load_tail, store_tail};

/// A function of two vectors, and of two numbers. One that needs one of them ignores the other.
pub trait Function {
    /// # Safety
    /// As for [`Isa`].
    unsafe fn of<S: Isa>(&self, a: S::V, b: S::V) -> S::V;
    fn scalar(&self, a: f32, b: f32) -> f32;
}

/// `f` along a run of two inputs and an output.
///
/// # Safety
/// `S`'s features; the run is inside the tensors, which begin at the pointers.
#[inline(always)]
pub unsafe fn apply<S: Isa, T: Elem, F: Function>(
    a: *const T,
    b: *const T,
    out: *mut T,
    run: &Run<3>,
    f: &F,
) {
    let ([sa, sb, so], n) = (run.step, run.len);
    // SAFETY: every offset is below n along the run.
    unsafe {
        let (a, b, out) = (a.add(run.start[0]), b.add(run.start[1]), out.add(run.start[2]));
        let mut i = 0;
        if sa <= 1 && sb <= 1 && (so == 1 || n == 1) {
            // A step of 0 repeats one element.
            let (first_a, first_b) = (S::splat((*a).to_f32()), S::splat((*b).to_f32()));
            while i + S::W <= n {
                let x = if sa == 1 { T::load::<S>(a.add(i)) } else { first_a };
                let y = if sb == 1 { T::load::<S>(b.add(i)) } else { first_b };
                T::store::<S>(out.add(i), f.of::<S>(x, y));
                i += S::W;
            }
            if i < n {
                let x = if sa == 1 { load_tail::<S, T>(a.add(i), n - i, 0.0) } else { first_a };
                let y = if sb == 1 { load_tail::<S, T>(b.add(i), n - i, 0.0) } else { first_b };
                store_tail::<S, T>(out.add(i), f.of::<S>(x, y), n - i);
            }
            return;
        }
        while i < n {
            let (x, y) = ((*a.add(i * sa)).to_f32(), (*b.add(i * sb)).to_f32());
            out.add(i * so).write(T::from_f32(f.scalar(x, y)));
            i += 1;
        }
    }
}

/// Registers an op of two inputs `a` and `b`.
macro_rules! binary {
    ($op:ident, $function:expr) => {
        $crate::variants::variants!(unsafe {
            op: $op,
            formats: Formats::same(DTypeSet::FLOAT),
            plan: plan,
            part: part,
        });

        fn walk(a: &$op<'_>) -> $crate::elementwise::walk::Walk<3> {
            $crate::elementwise::walk::Walk::new([a.a.layout(), a.b.layout(), a.out.layout()])
        }

        fn plan(a: &$op<'_>) -> $crate::pool::Plan {
            walk(a).plan()
        }

        /// # Safety
        /// Checked arguments on the host, `S`'s features, and units that nobody else works on.
        #[inline(always)]
        unsafe fn part<S: $crate::isa::Isa>(
            _: &::kernels_core::Ctx,
            a: &$op<'_>,
            units: std::ops::Range<usize>,
            _: usize,
        ) {
            let walk = walk(a);
            $crate::variants::with_float!(a.a.dtype(), T => {
                for u in units {
                    let (x, y, out) = (a.a.as_ptr::<T>(), a.b.as_ptr::<T>(), a.out.as_mut_ptr::<T>());
                    // SAFETY: the run is inside all three.
                    unsafe { $crate::elementwise::apply::apply::<S, T, _>(x, y, out, &walk.run(u), &$function) };
                }
            })
        }
    };
}
pub(super) use binary;
