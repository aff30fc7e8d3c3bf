//! Scores of a chunk of tokens for the rows of a block, and their weights.

use super::chunk::{CHUNK, Chunk, HIDDEN};
use super::products::Piece;
use super::state::Scratch;
use crate::gemm::tile::{NR, tile};
use crate::gemm::times::Times;
use crate::isa::{Elem, Isa};
use crate::math::softcap;
use kernels_ops::attention::{Mask, Sequence, Tensors};

/// Scores of some tokens of a chunk: `rows × tokens` into rows of `CHUNK`, times `scale`. A query and a key are `steps`
/// elements `W`, queries `padded` numbers apart.
///
/// # Safety
/// As for [`super::rows::attend`]; a key of so many `C` is as many `W`.
#[inline(always)]
pub unsafe fn scores<S: Isa, C: Elem, W: Elem, T: Times>(
    s: &Scratch,
    chunk: &Chunk<C>,
    (some, at): Piece,
    rows: usize,
    (steps, padded): (usize, usize),
    scale: f32,
) {
    // SAFETY: r is below the rows, the keys beyond the last repeat it, and their scores are never used.
    unsafe {
        let mut c = some.start;
        while c < some.end {
            let mut k = [chunk.keys[c].add(at).cast::<W>(); NR];
            for j in 1..NR {
                k[j] = chunk.keys[(c + j).min(some.end - 1)].add(at).cast();
            }
            let mut r = 0;
            macro_rules! some {
                ($rows:literal) => {{
                    let mut q = [s.q.cast::<f32>().cast_const(); $rows];
                    for i in 0..$rows {
                        q[i] = q[i].add((r + i) * padded);
                    }
                    let dots = tile::<S, W, T, $rows>(q, k, steps);
                    for i in 0..$rows {
                        let to = s.scores.add((r + i) * CHUNK + c).cast::<[f32; NR]>();
                        to.write_unaligned(dots[i].map(|dot| dot * scale));
                    }
                    r += $rows;
                }};
            }
            while r + 4 <= rows {
                some!(4);
            }
            while r < rows {
                some!(1);
            }
            c += NR;
        }
    }
}

/// Scores of row `r`, row `i` of its sequence, to weights: capped, and only of the tokens that it sees.
///
/// # Safety
/// As for [`super::rows::attend`], with the chunk's scores in the scratch.
#[inline(always)]
pub(super) unsafe fn weigh<S: Isa>(
    t: &Tensors<'_, '_>,
    s: &Scratch,
    (sequence, i, mask): (&Sequence, usize, Option<(Mask<'_, '_>, Option<usize>)>),
    r: usize,
    tokens: &[usize],
    pad: usize,
) {
    let n = tokens.len();
    // Tokens ascend, so a row sees a part of the chunk.
    let (mut first, mut end) = (0, n);
    while end > 0 && tokens[end - 1] >= sequence.visible(i) {
        end -= 1;
    }
    while first < end && tokens[first] < sequence.first(i) {
        first += 1;
    }
    // SAFETY: the row has CHUNK scores, more than there are tokens by less than a vector.
    unsafe {
        s.seen.add(r).write([first as u32, end as u32]);
        let row = s.scores.add(r * CHUNK);
        if t.logit_cap > 0.0 {
            let (cap, mut c) = (S::splat(t.logit_cap), 0);
            // What a vector reads past the last token is written first.
            (n..n.next_multiple_of(S::W)).for_each(|c| row.add(c).write(0.0));
            while c < n {
                S::store_f32(row.add(c), softcap::<S>(S::load_f32(row.add(c)), cap));
                c += S::W;
            }
        }
        let mut hidden = 0u64;
        if let Some((mask, base)) = mask {
            for c in first..end {
                if !base.is_some_and(|b| mask.sees(b, sequence, i, tokens[c])) {
                    hidden |= 1 << c;
                    row.add(c).write(f32::NEG_INFINITY);
                }
            }
        }
        soften::<S>(s, r, (first, end), n, pad);
        for c in first..end {
            if hidden >> c & 1 != 0 {
                row.add(c).write(HIDDEN);
            }
        }
    }
}

/// Scores of a row to weights e^(score − max), zero outside `first..end` up to the next 16; the row's sums so far are scaled to the
/// new maximum. A row without a finite score stays as it is.
///
/// # Safety
/// As for [`super::rows::attend`].
#[inline(always)]
unsafe fn soften<S: Isa>(s: &Scratch, r: usize, (first, end): (usize, usize), n: usize, pad: usize) {
    // SAFETY: the row has CHUNK scores; its sums have pad elements, a multiple of the widest vector.
    unsafe {
        let row = s.scores.add(r * CHUNK);
        for c in 0..first {
            row.add(c).write(f32::NEG_INFINITY);
        }
        for c in end..n.next_multiple_of(16) {
            row.add(c).write(f32::NEG_INFINITY);
        }
        let mut largest = S::splat(f32::NEG_INFINITY);
        let mut c = 0;
        while c < n {
            largest = S::max(S::load_f32(row.add(c)), largest);
            c += S::W;
        }
        let (before, chunk_max) = (*s.state.max.add(r), S::largest(largest));
        let max = if chunk_max > before { chunk_max } else { before };
        if max == f32::NEG_INFINITY {
            // NaN scores come here too, and must not vanish.
            let mut nan = false;
            for c in first..end {
                nan |= (*row.add(c)).is_nan();
            }
            for c in 0..n.next_multiple_of(16) {
                row.add(c).write(0.0);
            }
            if nan {
                s.state.total.add(r).write(f32::NAN);
            }
            return;
        }
        let m = S::splat(max);
        let mut sum = S::splat(0.0);
        c = 0;
        while c < n {
            let e = S::exp(S::sub(S::load_f32(row.add(c)), m));
            S::store_f32(row.add(c), e);
            sum = S::add(sum, e);
            c += S::W;
        }
        // Before the first score the sums are zero.
        let shrink = if before == max || before == f32::NEG_INFINITY { 1.0 } else { (before - max).exp() };
        *s.state.total.add(r) = *s.state.total.add(r) * shrink + S::sum(sum);
        s.state.max.add(r).write(max);
        if shrink != 1.0 {
            let (f, sums) = (S::splat(shrink), s.state.sums.add(r * pad));
            c = 0;
            while c < pad {
                S::store_f32(sums.add(c), S::mul(S::load_f32(sums.add(c)), f));
                c += S::W;
            }
        }
    }
}
