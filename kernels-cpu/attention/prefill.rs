//! `attention.prefill`. A unit is some tokens of one sequence and one key-value head; later tokens see more,
//! so units are handed out from the last, the heaviest first.

use super::rows::{Block, attend, clear, group, scratch_bytes, tokens_in_block};
use crate::isa::Isa;
use crate::pool::Plan;
use crate::variants::{variants, with_cache, with_float};
use kernels_core::Ctx;
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

/// The offsets are data, so units are counted for the worst case: a started block for each sequence.
fn plan(a: &Prefill<'_>) -> Plan {
    let in_block = tokens_in_block(group(&a.q, &a.key_cache));
    let blocks = a.q.dim(0) / in_block + a.seq_lens.dim(0);
    let room = a.tensors().room().min(1 << 20);
    Plan { units: blocks * a.key_cache.dim(2), work: a.q.layout().elements().saturating_mul(room.max(1)) / 8 }
}

fn workspace(a: &Prefill<'_>, threads: usize) -> usize {
    threads * scratch_bytes(&a.q, &a.key_cache)
}

fn once(_: &Prefill<'_>) -> Plan {
    Plan { units: 1, work: 1 }
}

/// # Safety
/// Checked arguments on the host, `S`'s features.
#[inline(always)]
unsafe fn prepare<S: Isa>(ctx: &Ctx, a: &Prefill<'_>, _: Range<usize>) {
    // SAFETY: passed on.
    with_float!(a.q.dtype(), Q => unsafe { clear::<Q>(&a.tensors(), &spans(ctx, a)) })
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &Prefill<'_>, units: Range<usize>, thread: usize) {
    let (t, kv_heads) = (a.tensors(), a.key_cache.dim(2));
    let group = group(&a.q, &a.key_cache);
    if group == 0 {
        return;
    }
    let in_block = tokens_in_block(group);
    let all = plan(a).units / kv_heads;
    with_cache!(a.key_cache.dtype(), C => {
        // SAFETY: blocks partition the rows of the call; each thread has its scratch.
        unsafe {
            let spans = spans(ctx, a);
            let scratch = ctx.workspace().0.add(thread * scratch_bytes(&a.q, &a.key_cache));
            for u in units {
                let Some((sequence, from)) = find(ctx, &spans, all - 1 - u / kv_heads, in_block) else { continue };
                let to = sequence.rows.min(from + in_block);
                attend::<S, C>(ctx, &t, Block { sequence, from, to, kv_head: u % kv_heads }, scratch);
            }
        }
    })
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
