//! What decode and prefill share: a block of query rows that read the same key-value head, over the tokens
//! of one sequence, with a running softmax.
//!
//! Each chunk of keys is multiplied with all rows of the block, and each chunk of values likewise, so K and V
//! are read once for a block: for GQA decode once for each key-value head.

use super::scores::{scores, weigh};
use super::values::accumulate;
use crate::isa::{Elem, Isa, prefetch, store_tail};
use crate::quantization::rows::convert;
use crate::variants::with_float;
use kernels_core::{Ctx, View};
use kernels_ops::attention::{Sequence, Spans, Tensors};
use kernels_ops::element::{below, index};

/// Query rows in a block; more only where a group of heads is larger.
pub const ROWS: usize = 16;

/// Tokens in a chunk.
pub(super) const CHUNK: usize = 64;

/// In place of the weight of a token that a mask hides.
pub(super) const HIDDEN: f32 = -1.0;

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

/// The parts of a thread's scratch, and what holds for all rows of a block.
pub(super) struct Scratch {
    pub q: *mut f32,
    pub sums: *mut f32,
    pub scores: *mut f32,
    pub max: *mut f32,
    pub total: *mut f32,
    /// The first and one past the last token of the chunk that each row sees.
    pub seen: *mut [u32; 2],
    /// Some tokens between those may be hidden: their weights are [`HIDDEN`].
    pub masked: bool,
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
                    prefetch_row(key, dim);
                    prefetch_row(value, dim);
                    n += 1;
                }
                token += 1;
            }
            if n == 0 {
                continue;
            }
            scores::<S, C>(&s, &keys, n, rows, dim, pad);
            for r in 0..rows {
                weigh::<S>(t, &s, (&sequence, from + r / group, mask), r, &tokens[..n], pad);
            }
            accumulate::<S, C>(&s, &values, rows, dim, pad);
        }
        with_float!(t.q.dtype(), Q => finish::<S, Q>(t, &block, &s, group, pad));
    }
}

/// Asks for a row before it is used: rows of one head are far apart, which the hardware does not foresee.
#[inline(always)]
fn prefetch_row<C>(row: *const C, dim: usize) {
    for line in 0..(dim * size_of::<C>()).div_ceil(64) {
        prefetch(row.cast::<u8>().wrapping_add(64 * line));
    }
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
