//! `attention.prefill`. A unit is some tokens of one sequence and one key-value head. Units of a head follow each other, so
//! that a thread's share is whole heads and weighs as much as another's; later tokens see more, and the last come first.

use super::pairs::{Pairs, by_pairs};
use super::panels::Panels;
use super::products::Products;
use super::rows::{Block, attend, clear, finish, group};
use super::state::{Scratch, Sizes, State, padded};
use crate::isa::{Elem, Isa, Portable};
use crate::pool::Plan;
use crate::variants::{variants, with_cache, with_float};
use kernels_core::{Ctx, bf16};
use kernels_ops::attention::{Prefill, Sequence, Spans, prefill_spans};
use std::ops::Range;

variants!(unsafe {
    op: Prefill,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT.union(DTypeSet::EIGHT_BIT)),
    plan: plan,
    part: part,
    prepare: (once, prepare),
    workspace: workspace,
});

/// # Safety
/// Checked arguments on the host.
unsafe fn spans<'a>(ctx: &Ctx, a: &Prefill<'a>) -> Spans<'a> {
    // SAFETY: passed on.
    unsafe { prefill_spans(ctx, &a.tensors(), a.seq_lens, a.qo_indptr, a.is_causal) }
}

fn plan(a: &Prefill<'_>) -> Plan {
    plan_for::<Portable, f32, Panels>(a)
}

pub fn workspace(a: &Prefill<'_>, threads: usize) -> usize {
    bytes::<Portable, f32, Panels>(a, threads)
}

/// Tokens of a sequence in one block.
fn in_block<S: Isa, C: Elem, P: Products<S, C>>(a: &Prefill<'_>) -> usize {
    (P::ROWS / group(&a.q, &a.key_cache).max(1)).max(1)
}

/// The offsets are data, so units are counted for the worst case: a started block for each sequence.
pub fn plan_for<S: Isa, C: Elem, P: Products<S, C>>(a: &Prefill<'_>) -> Plan {
    let blocks = a.q.dim(0) / in_block::<S, C, P>(a) + a.seq_lens.dim(0);
    let room = a.tensors().room().min(1 << 20);
    Plan { units: blocks * a.key_cache.dim(2), work: a.q.layout().elements().saturating_mul(room.max(1)) / 8 }
}

fn sizes<S: Isa, C: Elem, P: Products<S, C>>(a: &Prefill<'_>) -> Sizes {
    let group = group(&a.q, &a.key_cache);
    Sizes { heads: 1, rows: in_block::<S, C, P>(a) * group, dim: a.q.dim(2) }
}

fn state_bytes(sizes: Sizes) -> usize {
    State::bytes(sizes.rows, padded(sizes.dim))
}

/// Bytes of workspace: state and scratch of each thread.
pub fn bytes<S: Isa, C: Elem, P: Products<S, C>>(a: &Prefill<'_>, threads: usize) -> usize {
    let sizes = sizes::<S, C, P>(a);
    threads * (state_bytes(sizes) + Scratch::bytes::<S, C, P>(sizes))
}

/// How [`prepare`] is split: not at all.
pub fn once(_: &Prefill<'_>) -> Plan {
    Plan { units: 1, work: 1 }
}

/// # Safety
/// Checked arguments on the host, `S`'s features.
#[inline(always)]
pub unsafe fn prepare<S: Isa>(ctx: &Ctx, a: &Prefill<'_>, _: Range<usize>, _: usize) {
    // SAFETY: passed on.
    with_float!(a.q.dtype(), Q => unsafe { clear::<Q>(&a.tensors(), &spans(ctx, a)) })
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &Prefill<'_>, units: Range<usize>, thread: usize) {
    // SAFETY: passed on.
    unsafe {
        match by_pairs::<S>(&a.q, &a.key_cache) {
            true => blocks::<S, bf16, Pairs<Panels>>(&Pairs(Panels), ctx, a, units, thread),
            false => {
                with_cache!(a.key_cache.dtype(), C => blocks::<S, C, Panels>(&Panels, ctx, a, units, thread))
            }
        }
    }
}

/// Blocks `units` of the call.
///
/// # Safety
/// Checked arguments on the host, the features of `S` and the products, a workspace of [`bytes`] for them, and units
/// that nobody else works on.
#[inline(always)]
pub unsafe fn blocks<S: Isa, C: Elem, P: Products<S, C>>(
    products: &P,
    ctx: &Ctx,
    a: &Prefill<'_>,
    units: Range<usize>,
    thread: usize,
) {
    let (t, kv_heads, sizes) = (a.tensors(), a.key_cache.dim(2), sizes::<S, C, P>(a));
    if sizes.rows == 0 {
        return;
    }
    let (in_block, all) = (in_block::<S, C, P>(a), plan_for::<S, C, P>(a).units / kv_heads);
    let base = ctx.workspace().0.wrapping_add(bytes::<S, C, P>(a, thread));
    let state = State::at(base, sizes.rows, padded(sizes.dim));
    let base = base.wrapping_add(state_bytes(sizes));
    let scratch = Scratch::at::<S, C, P>(base, sizes, state, t.mask.is_some());
    // SAFETY: blocks partition the rows of the call; each thread has its scratch.
    unsafe {
        let spans = spans(ctx, a);
        for u in units {
            let Some((sequence, from)) = find(ctx, &spans, all - 1 - u % all, in_block) else {
                continue;
            };
            let (to, head) = (sequence.rows.min(from + in_block), u / all);
            let block = Block::of(sequence, from, to, (head, head + 1));
            attend::<S, C, P>(products, ctx, &t, &block, &scratch);
            with_float!(a.q.dtype(), Q => finish::<S, Q>(&t, &block, &state));
        }
    }
}

/// Block `at` of the call: its sequence and first row; `None` past the last.
///
/// # Safety
/// Checked arguments on the host.
unsafe fn find(ctx: &Ctx, spans: &Spans<'_>, at: usize, in_block: usize) -> Option<(Sequence, usize)> {
    let mut before = 0;
    for i in 0..spans.len() {
        // SAFETY: i is below the number of sequences.
        let sequence = unsafe { spans.sequence(ctx, i) };
        let blocks = sequence.rows.div_ceil(in_block);
        if at < before + blocks {
            return Some((sequence, (at - before) * in_block));
        }
        before += blocks;
    }
    None
}
