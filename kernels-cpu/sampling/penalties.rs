//! `sampling.penalties`. Only listed tokens are touched: counts in scratch are cleared, counted and applied in
//! three passes over the lists.

use crate::isa::{Elem, Isa};
use crate::pool::Plan;
use crate::scratch::{self, row_bytes};
use crate::variants::{variants, with_float};
use kernels_core::{Ctx, View};
use kernels_ops::element::{below, index};
use kernels_ops::sampling::Penalties;
use std::ops::Range;

variants!(unsafe {
    op: Penalties,
    formats: Formats::same(DTypeSet::FLOAT),
    plan: plan,
    part: part,
    workspace: workspace,
});

/// A unit is a row.
fn plan(a: &Penalties<'_>) -> Plan {
    let tokens = |t: &View<'_>| t.layout().elements();
    let work = 8 * (tokens(&a.output_tokens) + a.prompt_tokens.as_ref().map_or(0, tokens));
    Plan { units: a.logits.dim(0), work }
}

/// For each thread a count of each token.
fn workspace(a: &Penalties<'_>, threads: usize) -> usize {
    threads * row_bytes(a.logits.dim(1))
}

/// A token that is done with.
const DONE: u32 = u32::MAX;

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &Penalties<'_>, units: Range<usize>, thread: usize) {
    let Some(x) = a.logits.rows() else { return };
    // SAFETY: the workspace has counts for each thread.
    let counts = unsafe { scratch::row::<u32>(ctx, x.cols, thread) };
    with_float!(a.logits.dtype(), T => {
        for r in units {
            // SAFETY: row r is inside the tensors, and counts are touched only for ids below the columns.
            unsafe {
                let row = a.logits.as_mut_ptr::<T>().add(r * x.stride);
                for tokens in [a.prompt_tokens.as_ref(), Some(&a.output_tokens)].into_iter().flatten() {
                    for i in 0..tokens.dim(1) {
                        let token = index(tokens, r * tokens.stride(0) + i);
                        match below(token, x.cols) {
                            Some(id) => counts.add(id).write(0),
                            None if token >= 0 => ctx.out_of_range(token, x.cols),
                            None => {}
                        }
                    }
                }
                for i in 0..a.output_tokens.dim(1) {
                    if let Some(id) = below(index(&a.output_tokens, r * a.output_tokens.stride(0) + i), x.cols) {
                        *counts.add(id) += 1;
                    }
                }
                let value = |v: &View<'_>| *v.as_ptr::<f32>().add(r);
                let each = (value(&a.repetition), value(&a.frequency), value(&a.presence));
                for tokens in [a.prompt_tokens.as_ref(), Some(&a.output_tokens)].into_iter().flatten() {
                    for i in 0..tokens.dim(1) {
                        if let Some(id) = below(index(tokens, r * tokens.stride(0) + i), x.cols)
                            && *counts.add(id) != DONE
                        {
                            let logit = row.add(id);
                            logit.write(T::from_f32(lowered((*logit).to_f32(), *counts.add(id), each)));
                            counts.add(id).write(DONE);
                        }
                    }
                }
            }
        }
    })
}

fn lowered(logit: f32, count: u32, (repetition, frequency, presence): (f32, f32, f32)) -> f32 {
    let scaled = if logit > 0.0 { logit / repetition } else { logit * repetition };
    scaled - (count as f32 * frequency + if count > 0 { presence } else { 0.0 })
}
