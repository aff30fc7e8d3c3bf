//! `attention.decode`. A unit is one sequence and one key-value head; its query heads are one block of rows.

use super::rows::{Block, attend, group, scratch_bytes};
use crate::isa::Isa;
use crate::pool::Plan;
use crate::variants::{variants, with_cache};
use kernels_core::Ctx;
use kernels_ops::attention::{Decode, decode_spans};
use std::ops::Range;

variants!(unsafe {
    op: Decode,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT.union(DTypeSet::EIGHT_BIT)),
    plan: plan,
    part: part,
    workspace: workspace,
});

fn plan(a: &Decode<'_>) -> Plan {
    // The lengths are data; what the tables have room for bounds them.
    let room = a.tensors().room().min(1 << 20);
    let room = if a.window > 0 { room.min(a.window) } else { room };
    let elements = a.q.layout().elements();
    Plan { units: a.q.dim(0) * a.key_cache.dim(2), work: elements.saturating_mul(room.max(1)) / 4 }
}

fn workspace(a: &Decode<'_>, threads: usize) -> usize {
    threads * scratch_bytes(&a.q, &a.key_cache)
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &Decode<'_>, units: Range<usize>, thread: usize) {
    let t = a.tensors();
    if group(&a.q, &a.key_cache) == 0 {
        return;
    }
    let spans = decode_spans(&t, a.seq_lens);
    let kv_heads = a.key_cache.dim(2);
    with_cache!(a.key_cache.dtype(), C => {
        for u in units {
            // SAFETY: a unit is a sequence and a head of the call; each thread has its scratch.
            unsafe {
                let scratch = ctx.workspace().0.add(thread * scratch_bytes(&a.q, &a.key_cache));
                let sequence = spans.sequence(ctx, u / kv_heads);
                attend::<S, C>(ctx, &t, Block { sequence, from: 0, to: 1, kv_head: u % kv_heads }, scratch);
            }
        }
    })
}
