//! `attention.decode`: flash decoding (Dao et al. 2023). A sequence's tokens are cut into spans by their number alone,
//! so that results do not depend on threads or on other sequences; a unit is a span with all heads, whose tokens
//! lie one after the other in memory; then the spans of each sequence are put together.

use super::chunk::CHUNK;
use super::halves::{Halves, by_halves};
use super::pairs::{Pairs, by_pairs};
use super::products::{Products, Vectors};
use super::rows::{Block, attend, finish, group};
use super::state::{Scratch, Sizes, State, padded};
use crate::isa::{Elem, Isa, Portable};
use crate::pool::Plan;
use crate::variants::{variants, with_cache, with_float};
use kernels_core::{Ctx, bf16};
use kernels_ops::attention::{Decode, Sequence, decode_spans};
use std::ops::Range;

variants!(unsafe {
    op: Decode,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT.union(DTypeSet::EIGHT_BIT)),
    plan: plan,
    part: part,
    prepare: (first, prepare),
    workspace: workspace,
});

/// Spans of a sequence at most.
const SPANS: usize = 16;

/// Span `i` of a sequence, if it has so many.
fn span(s: &Sequence, i: usize) -> Option<(usize, usize)> {
    let (from, to) = (s.first(0), s.visible(0));
    // At least two chunks: what a span costs by itself is a tenth of one.
    let tokens = to.saturating_sub(from).div_ceil(SPANS).next_multiple_of(2 * CHUNK);
    let start = from + i * tokens;
    (start < to).then(|| (start, to.min(start + tokens)))
}

/// How the spans are split.
pub fn first(a: &Decode<'_>) -> Plan {
    // The lengths are data; what the tables have room for bounds them.
    let room = a.tensors().room().min(1 << 20);
    let room = if a.window > 0 { room.min(a.window) } else { room };
    let elements = a.q.layout().elements();
    Plan { units: a.q.dim(0) * SPANS, work: elements.saturating_mul(room.max(1)) / 4 }
}

/// How putting them together is split.
pub fn plan(a: &Decode<'_>) -> Plan {
    Plan { units: a.q.dim(0), work: 4 * a.q.layout().elements() }
}

fn sizes(a: &Decode<'_>) -> Sizes {
    Sizes { heads: a.key_cache.dim(2), rows: group(&a.q, &a.key_cache), dim: a.q.dim(2) }
}

fn state_bytes(a: &Decode<'_>) -> usize {
    State::bytes(a.q.dim(1), padded(a.q.dim(2)))
}

pub fn workspace(a: &Decode<'_>, threads: usize) -> usize {
    bytes::<Portable, f32, Vectors>(a, threads)
}

/// Bytes of workspace: the states of all spans, and a scratch for each thread.
pub fn bytes<S: Isa, C: Elem, P: Products<S, C>>(a: &Decode<'_>, threads: usize) -> usize {
    a.q.dim(0) * SPANS * state_bytes(a) + threads * Scratch::bytes::<S, C, P>(sizes(a))
}

/// What span `i` of a sequence of the batch adds up to.
fn state(ctx: &Ctx, a: &Decode<'_>, sequence: usize, i: usize) -> State {
    let at = ctx.workspace().0.wrapping_add((sequence * SPANS + i) * state_bytes(a));
    State::at(at, a.q.dim(1), padded(a.q.dim(2)))
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn prepare<S: Isa>(ctx: &Ctx, a: &Decode<'_>, units: Range<usize>, thread: usize) {
    // SAFETY: passed on.
    unsafe {
        match (by_pairs::<S>(&a.q, &a.key_cache), by_halves::<S>(&a.q, &a.key_cache)) {
            (true, _) => add_up::<S, bf16, Pairs<Vectors>>(&Pairs(Vectors), ctx, a, units, thread),
            (_, true) => add_up::<S, bf16, Halves>(&Halves, ctx, a, units, thread),
            _ => {
                with_cache!(a.key_cache.dtype(), C => add_up::<S, C, Vectors>(&Vectors, ctx, a, units, thread))
            }
        }
    }
}

/// Spans `units` of the call.
///
/// # Safety
/// Checked arguments on the host, the features of `S` and the products, a workspace of [`bytes`] for them, and units
/// that nobody else works on.
#[inline(always)]
pub unsafe fn add_up<S: Isa, C: Elem, P: Products<S, C>>(
    products: &P,
    ctx: &Ctx,
    a: &Decode<'_>,
    units: Range<usize>,
    thread: usize,
) {
    let (t, sizes) = (a.tensors(), sizes(a));
    if sizes.rows == 0 {
        return;
    }
    let spans = decode_spans(&t, a.seq_lens);
    let base = ctx.workspace().0.wrapping_add(bytes::<S, C, P>(a, thread));
    for u in units {
        // SAFETY: a unit is a span of a sequence of the call; each has its state, each thread its scratch.
        unsafe {
            let sequence = spans.sequence(ctx, u / SPANS);
            let Some(tokens) = span(&sequence, u % SPANS) else { continue };
            let scratch = Scratch::at::<S, C, P>(base, sizes, state(ctx, a, u / SPANS, u % SPANS), false);
            let block = Block { sequence, from: 0, to: 1, heads: (0, sizes.heads), tokens };
            attend::<S, C, P>(products, ctx, &t, &block, &scratch);
        }
    }
}

/// # Safety
/// As for [`prepare`], which is done.
#[inline(always)]
pub unsafe fn part<S: Isa>(ctx: &Ctx, a: &Decode<'_>, units: Range<usize>, _: usize) {
    let t = a.tensors();
    let (heads, pad) = (a.q.dim(1), padded(a.q.dim(2)));
    if group(&a.q, &a.key_cache) == 0 {
        return;
    }
    let spans = decode_spans(&t, a.seq_lens);
    for u in units {
        // SAFETY: a unit is a sequence of the call, whose spans' states are there.
        unsafe {
            let sequence = spans.sequence(ctx, u);
            let all = state(ctx, a, u, 0);
            if span(&sequence, 0).is_none() {
                all.clear(heads, pad);
            }
            let mut i = 1;
            while i < SPANS && span(&sequence, i).is_some() {
                all.add::<S>(&state(ctx, a, u, i), heads, pad);
                i += 1;
            }
            let block = Block::of(sequence, 0, 1, (0, a.key_cache.dim(2)));
            with_float!(a.q.dtype(), Q => finish::<S, Q>(&t, &block, &all));
        }
    }
}
