//! `gemm.linear`. A weight may be packed ahead of the calls: then nothing of it is turned in them. Where the processor
//! multiplies bf16 in pairs, they are, by weights of the same type; packed ones lie in pairs.

use super::blocked::blocked;
use super::input::{Input, can_pair, paired};
use super::outer::NumbersByPairs;
use super::output::Output;
use super::product::{self, Weight, is_cut, product};
use super::times::{Numbers, Pairs};
use super::turn::pack;
use crate::isa::{Elem, Isa};
use crate::pool::Plan;
use crate::variants::{variants, with_float};
use kernels_core::{Ctx, DType, Error, PackedFor, Rows, Tensor, View, bf16};
use kernels_ops::gemm::Linear;
use std::ops::Range;

variants!(unsafe {
    op: Linear,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT),
    plan: plan,
    part: part,
    prepare: (first, prepare),
    workspace: workspace,
    prepack: prepack,
});

fn is_packed(a: &Linear<'_>) -> bool {
    a.weight.packed() != PackedFor::NOBODY
}

/// Whether the packed form of a weight is pairs.
fn packs_pairs<S: Isa>(weight: &View<'_>) -> bool {
    S::PAIRS && weight.dtype() == DType::BF16 && weight.dim(1).is_multiple_of(2)
}

/// Whether pairs are multiplied with pairs.
fn in_pairs<S: Isa>(a: &Linear<'_>) -> bool {
    let weight = if is_packed(a) { packs_pairs::<S>(&a.weight) } else { can_pair(&a.weight) };
    S::PAIRS && weight && can_pair(&a.x)
}

fn cut(a: &Linear<'_>) -> bool {
    is_cut(&a.x, is_packed(a))
}

/// # Safety
/// A float weight on the host.
unsafe fn prepack<S: Isa>(weight: &View<'_>) -> Result<Tensor, Error> {
    let together = if packs_pairs::<S>(weight) { 2 } else { 1 };
    // SAFETY: passed on.
    with_float!(weight.dtype(), W => unsafe { pack::<S, W>(weight, together) })
}

fn plan(a: &Linear<'_>) -> Plan {
    product::plan(&a.x, cut(a), a.weight.dim(0), a.weight.layout().elements())
}

fn first(a: &Linear<'_>) -> Plan {
    Input::plan(&a.x, cut(a))
}

pub fn workspace(a: &Linear<'_>, threads: usize) -> usize {
    product::bytes(&a.x, cut(a), threads)
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and rows that nobody else works on.
#[inline(always)]
unsafe fn prepare<S: Isa>(ctx: &Ctx, a: &Linear<'_>, rows: Range<usize>, _: usize) {
    let scratch = ctx.workspace().0;
    // SAFETY: the workspace begins with this size, of which pairs need half.
    unsafe {
        match in_pairs::<S>(a) {
            true => Input::prepare_pairs::<S>(&a.x, cut(a), rows, scratch),
            false => Input::prepare::<S>(&a.x, cut(a), rows, scratch),
        }
    }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &Linear<'_>, units: Range<usize>, thread: usize) {
    let (scratch, space, rows) =
        (ctx.workspace().0, product::space(ctx, &a.x, cut(a), thread), a.weight.rows());
    let x = match in_pairs::<S>(a) {
        true => Input::of_pairs(&a.x, cut(a), scratch),
        false => Input::of(&a.x, cut(a), scratch),
    };
    // SAFETY: x is prepared; the workspace has a space for each thread. Where pairs are read, they are there.
    unsafe {
        if in_pairs::<S>(a) {
            let Some((x, weight, out)) = operands::<f32, bf16>(a, x, rows.map(paired)) else { return };
            product::<S, f32, bf16, Pairs>(x, weight, units, out, space);
        } else if is_packed(a) && packs_pairs::<S>(&a.weight) {
            with_float!(a.x.dtype(), O => {
                let Some((x, weight, out)) = operands::<f32, O>(a, x, rows.map(paired)) else { return };
                blocked::<S, f32, NumbersByPairs>(x, weight, units, out, space);
            });
        } else {
            with_float!(a.weight.dtype(), W => with_float!(a.x.dtype(), O => {
                let Some((x, weight, out)) = operands::<W, O>(a, x, rows) else { return };
                product::<S, W, O, Numbers>(x, weight, units, out, space);
            }));
        }
    }
}

/// With the weight in so many rows of `W`.
fn operands<W, O: Elem>(
    a: &Linear<'_>,
    x: Option<Input>,
    rows: Option<Rows>,
) -> Option<(Input, Weight<W>, Output<O>)> {
    let weight = Weight { ptr: a.weight.as_ptr(), rows: rows?, packed: is_packed(a) };
    Some((x?, weight, Output::of(&a.out, a.bias.as_ref())?))
}
