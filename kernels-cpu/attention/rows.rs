//! What decode and prefill share: a block of query rows over tokens of one sequence, with a running softmax.
//!
//! Each chunk of keys is multiplied with all rows of the block, and each chunk of values likewise, so K and V
//! are read once for a block: for GQA decode once for each key-value head. Where a block has all heads, memory is asked for
//! a chunk's values while its keys are multiplied, and then for the next chunk's keys.

use super::chunk::{CHUNK, Chunk};
use super::products::Products;
use super::scores::weigh;
use super::state::{Scratch, State, padded};
use crate::isa::{Elem, Isa, prefetch_later, store_tail};
use kernels_core::{Ctx, View};
use kernels_ops::attention::{Sequence, Spans, Tensors};
use std::ops::Range;

/// Query heads that share a key-value head.
pub fn group(q: &View<'_>, cache: &View<'_>) -> usize {
    q.dim(1) / cache.dim(2).max(1)
}

/// Rows `from..to` of a sequence with key-value heads `heads.0..heads.1`, over tokens `tokens.0..tokens.1`.
#[derive(Clone, Copy)]
pub struct Block {
    pub sequence: Sequence,
    pub from: usize,
    pub to: usize,
    pub heads: (usize, usize),
    pub tokens: (usize, usize),
}

impl Block {
    /// Over all tokens that the rows see: later rows see no earlier ones than the first.
    pub fn of(sequence: Sequence, from: usize, to: usize, heads: (usize, usize)) -> Block {
        Block { sequence, from, to, heads, tokens: (sequence.first(from), sequence.visible(to - 1)) }
    }

    /// Row `r` of the block's rows of a key-value head: its row of q and its head.
    #[inline(always)]
    pub fn row(&self, kv_head: usize, group: usize, r: usize) -> (usize, usize) {
        (self.sequence.first_row + self.from + r / group, kv_head * group + r % group)
    }

    /// Where the query of row `r` is.
    ///
    /// # Safety
    /// A block inside checked arguments on the host, of type `Q`.
    #[inline(always)]
    pub unsafe fn query<Q: Elem>(
        &self,
        t: &Tensors<'_, '_>,
        kv_head: usize,
        group: usize,
        r: usize,
    ) -> *const Q {
        let (row, head) = self.row(kv_head, group, r);
        // SAFETY: by contract.
        unsafe { t.q.as_ptr::<Q>().add(row * t.q.stride(0) + head * t.q.stride(1)) }
    }
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

/// The tokens of a chunk that are passed over together: with many heads so few that the processor sees where each of
/// them goes on.
fn pieces(tokens: usize, piece: usize) -> impl Iterator<Item = Range<usize>> {
    (0..tokens).step_by(piece).map(move |i| i..tokens.min(i + piece))
}

/// Adds the block's tokens up in the scratch's state.
///
/// # Safety
/// `S`'s features and those of the products, checked arguments on the host, a block inside them that nobody else works
/// on, and scratch and state for its rows that nobody else uses.
#[inline(always)]
pub unsafe fn attend<S: Isa, C: Elem, P: Products<S, C>>(
    products: &P,
    ctx: &Ctx,
    t: &Tensors<'_, '_>,
    block: &Block,
    scratch: &Scratch,
) {
    let &Block { sequence, from, to, heads: (first, last), tokens: (mut token, end) } = block;
    let (dim, group) = (t.q.dim(2), group(t.q, t.key_cache));
    let (pad, rows) = (padded(dim), (to - from) * group);
    let several = last - first > 1;
    let piece = if several { P::PIECE } else { CHUNK };
    let query = |head: usize| scratch.q.wrapping_add((head - first) * P::query_bytes(rows, dim));
    // SAFETY: by contract; the chunk's rows are inside the caches.
    unsafe {
        let mask = t.mask.map(|m| (m, m.base(ctx, &sequence)));
        for head in first..last {
            P::queries(t, block, head, group, query(head));
        }
        scratch.state.clear((last - first) * rows, pad);
        let (key_head, value_head) = (t.key_cache.stride(2), t.value_cache.stride(2));
        let mut current = Chunk::<C>::next(ctx, t, &sequence, &mut token, end);
        while let Some(chunk) = current {
            // The tokens past a block's end are the next unit's, most often of the same thread.
            let (more, visible) = (token < end, sequence.visible(to - 1));
            let next = Chunk::<C>::next(ctx, t, &sequence, &mut token, if more { end } else { visible });
            for some in pieces(chunk.len, piece) {
                for head in first..last {
                    if several {
                        ask::<S, C>(&chunk.values[some.clone()], head * value_head, dim);
                    }
                    let s = scratch.after((head - first) * rows, pad, query(head));
                    products.scores(t, &s, &chunk, (some.clone(), head * key_head), rows);
                }
            }
            for r in 0..(last - first) * rows {
                let row = from + r % rows / group;
                weigh::<S>(t, scratch, (&sequence, row, mask), r, chunk.tokens(), pad);
            }
            for some in pieces(chunk.len, piece) {
                for head in first..last {
                    if let Some(next) = next.as_ref().filter(|_| several) {
                        ask::<S, C>(
                            &next.keys[some.start.min(next.len)..some.end.min(next.len)],
                            head * key_head,
                            dim,
                        );
                    }
                    let s = scratch.after((head - first) * rows, pad, query(head));
                    products.accumulate(t, &s, &chunk, (some.clone(), head * value_head), rows);
                }
            }
            current = next.filter(|_| more);
        }
        P::settle(scratch, (last - first) * rows, dim);
    }
}

/// Asks for what `rows` have at `at`, where the processor does not see by itself how they go on.
#[inline(always)]
fn ask<S: Isa, C>(rows: &[*const C], at: usize, dim: usize) {
    if dim * size_of::<C>() >= S::FOLLOWED {
        return;
    }
    let bytes = dim * size_of::<C>();
    for row in rows {
        let (from, mut at) = (row.wrapping_add(at).cast::<u8>(), 0);
        // Most rows have lines by fours.
        while bytes - at >= 256 {
            for line in 0..4 {
                prefetch_later(from.wrapping_add(at + 64 * line));
            }
            at += 256;
        }
        while at < bytes {
            prefetch_later(from.wrapping_add(at));
            at += 64;
        }
    }
}

/// Divides by the totals, and writes output and LSE.
///
/// # Safety
/// As for [`attend`], with the block's sums in `state`.
#[inline(always)]
pub unsafe fn finish<S: Isa, Q: Elem>(t: &Tensors<'_, '_>, block: &Block, state: &State) {
    let (dim, group) = (t.q.dim(2), group(t.q, t.key_cache));
    let (pad, rows) = (padded(dim), (block.to - block.from) * group);
    for r in 0..(block.heads.1 - block.heads.0) * rows {
        let (row, head) = block.row(block.heads.0 + r / rows, group, r % rows);
        // SAFETY: row and head are inside the outputs.
        unsafe {
            let (max, total) = (*state.max.add(r), *state.total.add(r));
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
            let sums = state.sums.add(r * pad);
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
