//! Weighted values of a chunk of tokens, added to the sums of a block's rows.

use super::chunk::{CHUNK, Chunk, HIDDEN};
use super::products::{Piece, Vectors};
use super::state::{Scratch, padded};
use crate::isa::{Elem, Isa};

/// How columns of values are loaded.
pub trait Columns<S: Isa, C: Elem> {
    /// Vectors at least.
    const LEAST: usize;

    /// `NV` vectors of columns, a multiple of the least.
    ///
    /// # Safety
    /// `S`'s features; so many columns are there.
    unsafe fn load<const NV: usize>(at: *const C) -> [S::V; NV];
}

impl<S: Isa, C: Elem> Columns<S, C> for Vectors {
    const LEAST: usize = 1;

    #[inline(always)]
    unsafe fn load<const NV: usize>(at: *const C) -> [S::V; NV] {
        // SAFETY: by contract.
        unsafe {
            let mut columns = [S::splat(0.0); NV];
            for v in 0..NV {
                columns[v] = C::load::<S>(at.add(v * S::W));
            }
            columns
        }
    }
}

/// Adds the weighted values of some tokens of a chunk to the sums of all rows. A value that a row does not see is not even
/// multiplied by zero: it may be NaN.
///
/// # Safety
/// As for [`super::rows::attend`].
#[inline(always)]
pub unsafe fn accumulate<S: Isa, C: Elem, L: Columns<S, C>>(
    s: &Scratch,
    chunk: &Chunk<C>,
    (some, at): Piece,
    rows: usize,
    dim: usize,
) {
    let pad = padded(dim);
    // SAFETY: rows are inside the scratch.
    unsafe {
        let seen = |r: usize| (*s.seen.add(r)).map(|t| (t as usize).clamp(some.start, some.end));
        if s.masked {
            for r in 0..rows {
                let [mut c, end] = seen(r);
                while c < end {
                    let start = c;
                    while c < end && *s.scores.add(r * CHUNK + c) != HIDDEN {
                        c += 1;
                    }
                    all_columns::<S, C, L, 1>(s, (chunk, at), (start, c), r, dim, pad);
                    c += 1;
                }
            }
            return;
        }
        let mut r = 0;
        while r + 4 <= rows {
            let (mut first, mut end) = (0, CHUNK);
            for k in r..r + 4 {
                let [f, e] = seen(k);
                (first, end) = (first.max(f), end.min(e));
            }
            if first >= end {
                for k in r..r + 4 {
                    let [f, e] = seen(k);
                    all_columns::<S, C, L, 1>(s, (chunk, at), (f, e), k, dim, pad);
                }
                r += 4;
                continue;
            }
            all_columns::<S, C, L, 4>(s, (chunk, at), (first, end), r, dim, pad);
            for k in r..r + 4 {
                let [f, e] = seen(k);
                if f < first {
                    all_columns::<S, C, L, 1>(s, (chunk, at), (f, first), k, dim, pad);
                }
                if e > end {
                    all_columns::<S, C, L, 1>(s, (chunk, at), (end, e), k, dim, pad);
                }
            }
            r += 4;
        }
        while r < rows {
            let [f, e] = seen(r);
            all_columns::<S, C, L, 1>(s, (chunk, at), (f, e), r, dim, pad);
            r += 1;
        }
    }
}

/// The weighted values of tokens `from..to` to the sums of rows `r..r + MR`.
///
/// # Safety
/// As for [`super::rows::attend`].
#[inline(always)]
unsafe fn all_columns<S: Isa, C: Elem, L: Columns<S, C>, const MR: usize>(
    s: &Scratch,
    (chunk, at): (&Chunk<C>, usize),
    (from, to): (usize, usize),
    r: usize,
    dim: usize,
    pad: usize,
) {
    // SAFETY: columns below dim are inside the values and the sums.
    unsafe {
        let mut i = 0;
        while i + 4 * S::W <= dim {
            weighted::<S, C, L, MR, 4>(s, (chunk, at), (from, to), r, i, pad);
            i += 4 * S::W;
        }
        while i + L::LEAST * S::W <= dim {
            match L::LEAST {
                2 => weighted::<S, C, L, MR, 2>(s, (chunk, at), (from, to), r, i, pad),
                _ => weighted::<S, C, L, MR, 1>(s, (chunk, at), (from, to), r, i, pad),
            }
            i += L::LEAST * S::W;
        }
        for k in r..r + MR {
            for j in i..dim {
                let sum = s.state.sums.add(k * pad + j);
                for c in from..to {
                    *sum += *s.scores.add(k * CHUNK + c) * (*chunk.values[c].add(at + j)).to_f32();
                }
            }
        }
    }
}

/// Columns `i..i + NV * W` of the sums of rows `r..r + MR`.
///
/// # Safety
/// As for [`super::rows::attend`].
#[inline(always)]
unsafe fn weighted<S: Isa, C: Elem, L: Columns<S, C>, const MR: usize, const NV: usize>(
    s: &Scratch,
    (chunk, at): (&Chunk<C>, usize),
    (from, to): (usize, usize),
    r: usize,
    i: usize,
    pad: usize,
) {
    // SAFETY: passed on.
    unsafe {
        let mut acc = [[S::splat(0.0); NV]; MR];
        for k in 0..MR {
            for v in 0..NV {
                acc[k][v] = S::load_f32(s.state.sums.add((r + k) * pad + i + v * S::W));
            }
        }
        for c in from..to {
            let value = L::load::<NV>(chunk.values[c].add(at + i));
            for k in 0..MR {
                let weight = S::splat(*s.scores.add((r + k) * CHUNK + c));
                for v in 0..NV {
                    acc[k][v] = S::fma(weight, value[v], acc[k][v]);
                }
            }
        }
        for k in 0..MR {
            for v in 0..NV {
                S::store_f32(s.state.sums.add((r + k) * pad + i + v * S::W), acc[k][v]);
            }
        }
    }
}
