//! `embeddings.embedding`. A row is read once and written once.

use crate::isa::Isa;
use crate::pool::Plan;
use crate::quantization::rows::{expand, row_bytes};
use crate::variants::{variants, with_float};
use kernels_core::Ctx;
use kernels_ops::element::{below, index};
use kernels_ops::embeddings::Embedding;
use std::ops::Range;

variants!(unsafe {
    op: Embedding,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT.union(DTypeSet::GGUF)),
    plan: plan,
    part: part,
});

fn plan(a: &Embedding<'_>) -> Plan {
    Plan { units: a.ids.dim(0), work: a.out.layout().elements() }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &Embedding<'_>, units: Range<usize>, _: usize) {
    let (Some(t), Some(o)) = (a.table.rows(), a.out.rows()) else { return };
    let bytes = row_bytes(a.table.dtype(), t.stride);
    with_float!(a.out.dtype(), T => {
        for r in units {
            // SAFETY: there is an id for each row; the table's row is read only where the id is inside.
            unsafe {
                let (id, out) = (index(&a.ids, r), a.out.as_mut_ptr::<T>().add(r * o.stride));
                match below(id, t.rows) {
                    Some(row) => expand::<S, T>(a.table.dtype(), a.table.as_ptr::<u8>().add(row * bytes), t.cols, out),
                    None => {
                        ctx.out_of_range(id, t.rows);
                        out.write_bytes(0, t.cols);
                    }
                }
            }
        }
    })
}
