//! What decode and prefill share: a block of query rows that read the same key-value head, over the tokens
//! of one sequence, with a running softmax.
//!
//! Each chunk of keys is multiplied with all rows of the block, and each chunk of values likewise, so K and V
//! are read once for a block: for GQA decode once for each key-value head.

use crate::gemm::tile::{NR, tile};
use crate::isa::{Elem, Isa, store_tail};
use crate::math::{exp, softcap};
use crate::quantization::rows::convert;
use crate::variants::with_float;
use kernels_core::{Ctx, View};
use kernels_ops::attention::{Sequence, Spans, Tensors};
use kernels_ops::element::{below, index};

/// Query rows in a block; more only where a group of heads is larger.
pub const ROWS: usize = 16;

/// Tokens in a chunk.
const CHUNK: usize = 64;

/// In place of the weight of a token that a mask hides.
const HIDDEN: f32 = -1.0;

/// Query heads that share a key-value head.
pub fn group(q: &View<'_>, cache: &View<'_>) -> usize {
    q.dim(1) / cache.dim(2).max(1)
}

/// Tokens of a sequence in one block.
pub fn tokens_in_block(group: usize) -> usize {
    (ROWS / group.max(1)).max(1)
}

/// Scratch of one thread in bytes: queries and sums of a block, scores of a chunk, four numbers a row.
pub fn scratch_bytes(q: &View<'_>, cache: &View<'_>) -> usize {
    let rows = ROWS.max(group(q, cache));
    (4 * rows * (2 * padded(q.dim(2)) + CHUNK + 4)).next_multiple_of(64)
}

fn padded(dim: usize) -> usize {
    dim.next_multiple_of(16)
}

/// Rows `from..to` of a sequence, for one key-value head.
#[derive(Clone, Copy)]
pub struct Block {
    pub sequence: Sequence,
    pub from: usize,
    pub to: usize,
    pub kv_head: usize,
}

/// Every row of the output as one that sees nothing: for row offsets that cannot be used.
///
/// # Safety
/// Checked arguments on the host.
pub unsafe fn clear<O: Elem>(t: &Tensors<'_, '_>, spans: &Spans<'_>) {
    if spans.valid() {
        return;
    }
    for row in 0..t.q.dim(0) {
        for head in 0..t.q.dim(1) {
            // SAFETY: row and head are inside the outputs.
            unsafe {
                t.out
                    .as_mut_ptr::<O>()
                    .add(row * t.out.stride(0) + head * t.out.stride(1))
                    .write_bytes(0, t.q.dim(2));
                if let Some(lse) = t.lse {
                    lse.as_mut_ptr::<f32>().add(row * lse.stride(0) + head).write(f32::NEG_INFINITY);
                }
            }
        }
    }
}

struct Scratch {
    q: *mut f32,
    sums: *mut f32,
    scores: *mut f32,
    max: *mut f32,
    total: *mut f32,
    /// The first and one past the last token of the chunk that each row sees.
    seen: *mut [u32; 2],
    /// Some tokens between those may be hidden: their weights are [`HIDDEN`].
    masked: bool,
}

/// # Safety
/// `S`'s features, checked arguments on the host, a block inside them that nobody else works on, and scratch
/// of [`scratch_bytes`] of this thread's own.
#[inline(always)]
pub unsafe fn attend<S: Isa, C: Elem>(ctx: &Ctx, t: &Tensors<'_, '_>, block: Block, scratch: *mut u8) {
    let Block { sequence, from, to, kv_head } = block;
    let (dim, group) = (t.q.dim(2), group(t.q, t.key_cache));
    let (pad, rows) = (padded(dim), (to - from) * group);
    // SAFETY: the offsets are inside the scratch's size, which counts the same rows.
    unsafe {
        let all = ROWS.max(group);
        let base = scratch.cast::<f32>();
        let s = Scratch {
            q: base,
            sums: base.add(all * pad),
            scores: base.add(2 * all * pad),
            max: base.add(all * (2 * pad + CHUNK)),
            total: base.add(all * (2 * pad + CHUNK + 1)),
            seen: base.add(all * (2 * pad + CHUNK + 2)).cast(),
            masked: t.mask.is_some(),
        };
        let mask = t.mask.map(|m| (m, m.base(ctx, &sequence)));
        with_float!(t.q.dtype(), Q => load_queries::<S, Q>(t, &block, &s, group, pad));
        for r in 0..rows {
            s.max.add(r).write(f32::NEG_INFINITY);
            s.total.add(r).write(0.0);
        }
        s.sums.write_bytes(0, rows * pad);
        let limit = sequence.visible(to - 1);
        // Later rows see no earlier tokens than the first one.
        let mut token = sequence.first(from);
        while token < limit {
            let mut keys = [std::ptr::null::<C>(); CHUNK];
            let mut values = [std::ptr::null::<C>(); CHUNK];
            let mut tokens = [0usize; CHUNK];
            let mut n = 0;
            while token < limit && n < CHUNK {
                if let Some((key, value)) = locate::<C>(ctx, t, &sequence, token, kv_head) {
                    (keys[n], values[n], tokens[n]) = (key, value, token);
                    prefetch(key, dim);
                    prefetch(value, dim);
                    n += 1;
                }
                token += 1;
            }
            if n == 0 {
                continue;
            }
            scores::<S, C>(&s, &keys, n, rows, dim, pad);
            for r in 0..rows {
                let i = from + r / group;
                // Tokens ascend, so a row sees a part of the chunk.
                let (mut first, mut end) = (0, n);
                while end > 0 && tokens[end - 1] >= sequence.visible(i) {
                    end -= 1;
                }
                while first < end && tokens[first] < sequence.first(i) {
                    first += 1;
                }
                s.seen.add(r).write([first as u32, end as u32]);
                let row = s.scores.add(r * CHUNK);
                if t.logit_cap > 0.0 {
                    let mut c = 0;
                    while c < n {
                        S::store_f32(
                            row.add(c),
                            softcap::<S>(S::load_f32(row.add(c)), S::splat(t.logit_cap)),
                        );
                        c += S::W;
                    }
                }
                let mut hidden = 0u64;
                if let Some((mask, base)) = mask {
                    for c in first..end {
                        if !base.is_some_and(|b| mask.sees(b, &sequence, i, tokens[c])) {
                            hidden |= 1 << c;
                            row.add(c).write(f32::NEG_INFINITY);
                        }
                    }
                }
                soften::<S>(&s, r, (first, end), n, pad);
                for c in first..end {
                    if hidden >> c & 1 != 0 {
                        row.add(c).write(HIDDEN);
                    }
                }
            }
            accumulate::<S, C>(&s, &values, rows, dim, pad);
        }
        with_float!(t.q.dtype(), Q => finish::<S, Q>(t, &block, &s, group, pad));
    }
}

/// Asks for a row before it is used: rows of one head are far apart, which the hardware does not foresee.
#[inline(always)]
fn prefetch<C>(row: *const C, dim: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..(dim * size_of::<C>()).div_ceil(64) {
        // SAFETY: a prefetch touches nothing, wherever it points.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                row.cast::<i8>().wrapping_add(64 * line),
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (row, dim);
}

/// Key and value of a token; a block outside the cache is reported, and its tokens are skipped.
///
/// # Safety
/// Checked arguments on the host; the token is inside the block table's row.
#[inline(always)]
unsafe fn locate<C: Elem>(
    ctx: &Ctx,
    t: &Tensors<'_, '_>,
    s: &Sequence,
    token: usize,
    kv_head: usize,
) -> Option<(*const C, *const C)> {
    let block_size = t.key_cache.dim(1);
    // SAFETY: by contract; block and row are inside the cache.
    unsafe {
        let entry = index(t.block_table, s.index * t.block_table.stride(0) + token / block_size);
        let Some(b) = below(entry, t.key_cache.dim(0)) else {
            ctx.out_of_range(entry, t.key_cache.dim(0));
            return None;
        };
        let row = token % block_size;
        let at = |c: &View<'_>| b * c.stride(0) + row * c.stride(1) + kv_head * c.stride(2);
        Some((
            t.key_cache.as_ptr::<C>().add(at(t.key_cache)),
            t.value_cache.as_ptr::<C>().add(at(t.value_cache)),
        ))
    }
}

/// The block's queries as f32 rows, times the scale of the scores and of the keys.
///
/// # Safety
/// As for [`attend`].
#[inline(always)]
unsafe fn load_queries<S: Isa, Q: Elem>(
    t: &Tensors<'_, '_>,
    block: &Block,
    s: &Scratch,
    group: usize,
    pad: usize,
) {
    let dim = t.q.dim(2);
    for i in block.from..block.to {
        for g in 0..group {
            // SAFETY: row and head are inside q; the target is inside the scratch.
            unsafe {
                let (row, head) = (block.sequence.first_row + i, block.kv_head * group + g);
                let source = t.q.as_ptr::<Q>().add(row * t.q.stride(0) + head * t.q.stride(1));
                let target = s.q.add(((i - block.from) * group + g) * pad);
                convert::<S, Q, f32>(source, target, dim);
                for k in 0..dim {
                    *target.add(k) *= t.sm_scale * t.k_scale;
                }
            }
        }
    }
}

/// Scores of a chunk: `rows × n` into rows of `CHUNK`.
///
/// # Safety
/// As for [`attend`].
#[inline(always)]
unsafe fn scores<S: Isa, C: Elem>(
    s: &Scratch,
    keys: &[*const C; CHUNK],
    n: usize,
    rows: usize,
    dim: usize,
    pad: usize,
) {
    // SAFETY: r is below the rows, the keys beyond n repeat the last, and their scores are never used.
    unsafe {
        let mut c = 0;
        while c < n {
            let mut k = [keys[c]; NR];
            for j in 1..NR {
                k[j] = keys[(c + j).min(n - 1)];
            }
            let mut r = 0;
            while r + 4 <= rows {
                some_scores::<S, C, 4>(s, k, r, c, dim, pad);
                r += 4;
            }
            while r < rows {
                some_scores::<S, C, 1>(s, k, r, c, dim, pad);
                r += 1;
            }
            c += NR;
        }
    }
}

/// # Safety
/// As for [`attend`], for rows `r..r + MR`.
#[inline(always)]
unsafe fn some_scores<S: Isa, C: Elem, const MR: usize>(
    s: &Scratch,
    k: [*const C; NR],
    r: usize,
    c: usize,
    dim: usize,
    pad: usize,
) {
    // SAFETY: passed on.
    unsafe {
        let mut q = [s.q.cast_const(); MR];
        for i in 0..MR {
            q[i] = s.q.add((r + i) * pad);
        }
        let dots = tile::<S, C, MR>(q, k, dim);
        for i in 0..MR {
            s.scores.add((r + i) * CHUNK + c).cast::<[f32; NR]>().write_unaligned(dots[i]);
        }
    }
}

/// Scores of a row to weights e^(score − max), zero outside `first..end`; the row's sums so far are scaled to the
/// new maximum. A row without a finite score stays as it is.
///
/// # Safety
/// As for [`attend`].
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
        let (before, chunk_max) = (*s.max.add(r), S::largest(largest));
        let max = if chunk_max > before { chunk_max } else { before };
        if max == f32::NEG_INFINITY {
            // NaN scores come here too, and must not vanish.
            let mut nan = false;
            for c in first..end {
                nan |= (*row.add(c)).is_nan();
            }
            for c in 0..n {
                row.add(c).write(0.0);
            }
            if nan {
                s.total.add(r).write(f32::NAN);
            }
            return;
        }
        let m = S::splat(max);
        let mut sum = S::splat(0.0);
        c = 0;
        while c < n {
            let e = exp::<S>(S::sub(S::load_f32(row.add(c)), m));
            S::store_f32(row.add(c), e);
            sum = S::add(sum, e);
            c += S::W;
        }
        let shrink = if before == max { 1.0 } else { (before - max).exp() };
        *s.total.add(r) = *s.total.add(r) * shrink + S::sum(sum);
        s.max.add(r).write(max);
        if shrink != 1.0 {
            let (f, sums) = (S::splat(shrink), s.sums.add(r * pad));
            c = 0;
            while c < pad {
                S::store_f32(sums.add(c), S::mul(S::load_f32(sums.add(c)), f));
                c += S::W;
            }
        }
    }
}

/// Adds the chunk's weighted values to the sums of all rows. A value that a row does not see is not even
/// multiplied by zero: it may be NaN.
///
/// # Safety
/// As for [`attend`].
#[inline(always)]
unsafe fn accumulate<S: Isa, C: Elem>(
    s: &Scratch,
    values: &[*const C; CHUNK],
    rows: usize,
    dim: usize,
    pad: usize,
) {
    // SAFETY: rows are inside the scratch.
    unsafe {
        let seen = |r: usize| (*s.seen.add(r)).map(|t| t as usize);
        if s.masked {
            for r in 0..rows {
                let [mut c, end] = seen(r);
                while c < end {
                    let start = c;
                    while c < end && *s.scores.add(r * CHUNK + c) != HIDDEN {
                        c += 1;
                    }
                    all_columns::<S, C, 1>(s, values, (start, c), r, dim, pad);
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
                    all_columns::<S, C, 1>(s, values, (f, e), k, dim, pad);
                }
                r += 4;
                continue;
            }
            all_columns::<S, C, 4>(s, values, (first, end), r, dim, pad);
            for k in r..r + 4 {
                let [f, e] = seen(k);
                if f < first {
                    all_columns::<S, C, 1>(s, values, (f, first), k, dim, pad);
                }
                if e > end {
                    all_columns::<S, C, 1>(s, values, (end, e), k, dim, pad);
                }
            }
            r += 4;
        }
        while r < rows {
            let [f, e] = seen(r);
            all_columns::<S, C, 1>(s, values, (f, e), r, dim, pad);
            r += 1;
        }
    }
}

/// The weighted values of tokens `from..to` to the sums of rows `r..r + MR`.
///
/// # Safety
/// As for [`attend`].
#[inline(always)]
unsafe fn all_columns<S: Isa, C: Elem, const MR: usize>(
    s: &Scratch,
    values: &[*const C; CHUNK],
    (from, to): (usize, usize),
    r: usize,
    dim: usize,
    pad: usize,
) {
    // SAFETY: columns below dim are inside the values and the sums.
    unsafe {
        let mut i = 0;
        while i + 4 * S::W <= dim {
            weighted::<S, C, MR, 4>(s, values, (from, to), r, i, pad);
            i += 4 * S::W;
        }
        while i + S::W <= dim {
            weighted::<S, C, MR, 1>(s, values, (from, to), r, i, pad);
            i += S::W;
        }
        for k in r..r + MR {
            for j in i..dim {
                let sum = s.sums.add(k * pad + j);
                for c in from..to {
                    *sum += *s.scores.add(k * CHUNK + c) * (*values[c].add(j)).to_f32();
                }
            }
        }
    }
}

/// Columns `i..i + NV * W` of the sums of rows `r..r + MR`.
///
/// # Safety
/// As for [`attend`].
#[inline(always)]
unsafe fn weighted<S: Isa, C: Elem, const MR: usize, const NV: usize>(
    s: &Scratch,
    values: &[*const C; CHUNK],
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
                acc[k][v] = S::load_f32(s.sums.add((r + k) * pad + i + v * S::W));
            }
        }
        for c in from..to {
            let mut value = [S::splat(0.0); NV];
            for v in 0..NV {
                value[v] = C::load::<S>(values[c].add(i + v * S::W));
            }
            for k in 0..MR {
                let weight = S::splat(*s.scores.add((r + k) * CHUNK + c));
                for v in 0..NV {
                    acc[k][v] = S::fma(weight, value[v], acc[k][v]);
                }
            }
        }
        for k in 0..MR {
            for v in 0..NV {
                S::store_f32(s.sums.add((r + k) * pad + i + v * S::W), acc[k][v]);
            }
        }
    }
}

/// Divides by the totals, and writes output and LSE.
///
/// # Safety
/// As for [`attend`].
#[inline(always)]
unsafe fn finish<S: Isa, Q: Elem>(t: &Tensors<'_, '_>, block: &Block, s: &Scratch, group: usize, pad: usize) {
    let dim = t.q.dim(2);
    for i in block.from..block.to {
        for g in 0..group {
            let r = (i - block.from) * group + g;
            // SAFETY: row and head are inside the outputs.
            unsafe {
                let (row, head) = (block.sequence.first_row + i, block.kv_head * group + g);
                let (max, total) = (*s.max.add(r), *s.total.add(r));
                let sink = t.sinks.map_or(f32::NEG_INFINITY, |s| *s.as_ptr::<f32>().add(head));
                // With a sink the sums so far are scaled to the new maximum, and it has its share.
                let (max, shrink, total) = match sink == f32::NEG_INFINITY {
                    true => (max, 1.0, total),
                    false => {
                        let top = if sink > max || sink.is_nan() { sink } else { max };
                        let shrink = if max == f32::NEG_INFINITY { 1.0 } else { (max - top).exp() };
                        (top, shrink, total * shrink + (sink - top).exp())
                    }
                };
                let factor = S::splat(if total == 0.0 { 0.0 } else { t.v_scale * shrink / total });
                let out = t.out.as_mut_ptr::<Q>().add(row * t.out.stride(0) + head * t.out.stride(1));
                let sums = s.sums.add(r * pad);
                let mut k = 0;
                while k < dim {
                    let v = S::mul(S::load_f32(sums.add(k)), factor);
                    match k + S::W <= dim {
                        true => Q::store::<S>(out.add(k), v),
                        false => store_tail::<S, Q>(out.add(k), v, dim - k),
                    }
                    k += S::W;
                }
                if let Some(lse) = t.lse {
                    let value = if total == 0.0 { f32::NEG_INFINITY } else { max + total.ln() };
                    lse.as_mut_ptr::<f32>().add(row * lse.stride(0) + head).write(value);
                }
            }
        }
    }
}
