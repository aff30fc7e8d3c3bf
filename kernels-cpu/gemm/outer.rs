//! Outer products: a tile of rows times panels of two vectors' columns. Each step along k loads two vectors and a few
//! single numbers for up to 12 multiply-adds of each. A step is a number of each column, a pair of
//! bf16, or four of i8.

use super::input::DEPTH;
use super::times::Times;
use crate::isa::{Elem, FAR_AHEAD, Isa, prefetch};

/// Panels of `2 W` columns, in each of which a step along k is `stride` numbers after the one before.
#[derive(Clone, Copy)]
pub struct Panels<E> {
    pub first: *const E,
    pub count: usize,
    /// Numbers from one panel to the next.
    pub apart: usize,
    pub stride: usize,
}

/// How a step is multiplied.
pub trait Multiply<S: Isa> {
    /// Numbers of x in a step.
    const NUMBERS: usize;

    /// Step `k` of rows of x, times that of two vectors' columns at `at`, to the sums.
    ///
    /// # Safety
    /// `S`'s features; rows and columns have the step.
    unsafe fn step<E: Elem, const ROWS: usize>(
        sums: &mut [[S::V; 2]; ROWS],
        rows: [*const f32; ROWS],
        k: usize,
        at: *const E,
    );

    /// Sums of some steps plus those of others. All bits zero is no sum.
    ///
    /// # Safety
    /// `S`'s features.
    #[inline(always)]
    unsafe fn add(a: S::V, b: S::V) -> S::V {
        // SAFETY: passed on.
        unsafe { S::add(a, b) }
    }
}

impl<S: Isa, T: Times> Multiply<S> for T {
    const NUMBERS: usize = {
        assert!(T::PARTS == 1);
        1
    };

    #[inline(always)]
    unsafe fn step<E: Elem, const ROWS: usize>(
        sums: &mut [[S::V; 2]; ROWS],
        rows: [*const f32; ROWS],
        k: usize,
        at: *const E,
    ) {
        // SAFETY: by contract.
        unsafe {
            let (a, b) = (E::load::<S>(at), E::load::<S>(at.add(S::W)));
            for i in 0..ROWS {
                let v = S::splat(*rows[i].add(k));
                sums[i] = [T::times::<S>(sums[i][0], v, a), T::times::<S>(sums[i][1], v, b)];
            }
        }
    }
}

/// x is numbers, columns are pairs.
pub struct NumbersByPairs;

impl<S: Isa> Multiply<S> for NumbersByPairs {
    const NUMBERS: usize = 2;

    #[inline(always)]
    unsafe fn step<E: Elem, const ROWS: usize>(
        sums: &mut [[S::V; 2]; ROWS],
        rows: [*const f32; ROWS],
        k: usize,
        at: *const E,
    ) {
        // SAFETY: by contract; an `E` is as large as a pair.
        unsafe {
            let a = S::even_odd_bf16(S::load_f32(at.cast()));
            let b = S::even_odd_bf16(S::load_f32(at.add(S::W).cast()));
            for half in 0..2 {
                for i in 0..ROWS {
                    let v = S::splat(*rows[i].add(2 * k + half));
                    sums[i][0] = S::fma(v, a[half], sums[i][0]);
                    sums[i][1] = S::fma(v, b[half], sums[i][1]);
                }
            }
        }
    }
}

/// Rows of x and where their sums go, with how far apart they are, and what x is multiplied with in `depth` steps.
#[derive(Clone, Copy)]
pub struct Outer<E> {
    pub x: (*const f32, usize),
    pub panels: Panels<E>,
    pub depth: usize,
    pub sums: (*mut f32, usize),
    /// To what the sums are already.
    pub add: bool,
    /// The panels come from memory now: what comes next of them is asked for.
    pub streamed: bool,
}

/// `rows` rows of x times all panels. The larger tiles are compiled for rows that are `APART` apart, too, unless that is 0:
/// those need one pointer for all of them, where others need more than there are registers.
///
/// # Safety
/// `S`'s features; rows, steps and columns are inside x, the panels and the sums.
#[inline(always)]
pub unsafe fn outer<S: Isa, E: Elem, M: Multiply<S>, const APART: usize>(o: Outer<E>, rows: usize) {
    let mut m = 0;
    macro_rules! tiles {
        ($rows:literal) => {
            tiles!($rows, 0)
        };
        ($rows:literal, $apart:expr) => {{
            for p in 0..o.panels.count {
                // SAFETY: by contract.
                unsafe {
                    match (o.streamed && m == 0, $apart != 0 && o.x.1 == $apart) {
                        (true, true) => tile::<S, E, M, $rows, $apart, true>(o, m, p),
                        (false, true) => tile::<S, E, M, $rows, $apart, false>(o, m, p),
                        (true, false) => tile::<S, E, M, $rows, 0, true>(o, m, p),
                        (false, false) => tile::<S, E, M, $rows, 0, false>(o, m, p),
                    }
                }
            }
            m += $rows;
        }};
    }
    while m < rows {
        match rows - m {
            12.. if S::TILE >= 12 => tiles!(12, APART),
            6.. if S::TILE >= 6 => tiles!(6, APART),
            4.. if S::TILE >= 6 => tiles!(4),
            2.. => tiles!(2),
            _ => tiles!(1),
        }
    }
}

/// Rows `m..m + ROWS` times panel `p`. A line of the rows that come next is asked for each eight steps.
///
/// # Safety
/// As for [`outer`].
#[inline(always)]
unsafe fn tile<
    S: Isa,
    E: Elem,
    M: Multiply<S>,
    const ROWS: usize,
    const APART: usize,
    const STREAMED: bool,
>(
    o: Outer<E>,
    m: usize,
    p: usize,
) {
    // SAFETY: every offset is below `depth` and inside its row.
    unsafe {
        let (mut acc, mut rows) = ([[S::splat(0.0); 2]; ROWS], [o.x.0; ROWS]);
        let apart = if APART == 0 { o.x.1 } else { APART };
        for i in 0..ROWS {
            rows[i] = o.x.0.add(m * apart).add(i * apart);
        }
        // Each panel asks for a part.
        let ahead = rows[0].wrapping_add(ROWS * apart + 2 * DEPTH * p);
        let panel = o.panels.first.add(p * o.panels.apart);
        let mut k = 0;
        macro_rules! steps {
            ($steps:literal) => {
                while o.depth - k >= $steps {
                    if k % 8 == 0 {
                        prefetch(ahead.wrapping_add(2 * k));
                    }
                    for next in 0..$steps {
                        let at = panel.add((k + next) * o.panels.stride);
                        if STREAMED {
                            prefetch(at.cast::<u8>().wrapping_add(FAR_AHEAD));
                            prefetch(at.add(S::W).cast::<u8>().wrapping_add(FAR_AHEAD));
                        }
                        M::step::<E, ROWS>(&mut acc, rows, k + next, at);
                    }
                    k += $steps;
                }
            };
        }
        if APART != 0 {
            steps!(4);
        }
        steps!(1);
        for i in 0..ROWS {
            for j in 0..2 {
                let at = o.sums.0.add((m + i) * o.sums.1 + p * 2 * S::W + j * S::W);
                let before = if o.add { S::load_f32(at) } else { S::splat(0.0) };
                S::store_f32(at, M::add(before, acc[i][j]));
            }
        }
    }
}
