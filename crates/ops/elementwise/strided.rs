//! What the elementwise ops share: tensors of one shape and any strides.

use crate::args::Arg;
use crate::data::{normal, unwritten};
use crate::{Case, Tolerance};
use kernels_core::{CallError, DType, DTypeSet, Key, Layout, Tensor, Valid, View, ViewMut};

/// Element types that an f32 holds exactly.
pub(super) const VALUES: DTypeSet = DTypeSet::FLOAT.union(DTypeSet::EIGHT_BIT);

/// Checks inputs of one shape and type, and the output.
pub(super) fn check(
    op: &'static str,
    takes: DTypeSet,
    inputs: &[(&'static str, View<'_>)],
    out: View<'_>,
) -> Result<Valid, CallError> {
    let (name, first) = inputs[0];
    let first_arg = Arg::new(op, name, first).dtype(takes)?;
    for (name, view) in &inputs[1..] {
        Arg::new(op, name, *view).like(first_arg)?.shape(first.shape())?;
    }
    Arg::new(op, "out", out).like(first_arg)?.shape(first.shape())?.output()?;
    Ok(Valid { key: Key::of(first.dtype()), empty: first.layout().elements() == 0 })
}

/// How a case lays a tensor out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Strides {
    /// Row-major.
    Dense,
    /// The first two dimensions exchanged in memory.
    Transposed,
    /// Every second element of the last dimension, in rows with gaps.
    Gaps,
    /// One row for all: a stride of 0. Only for inputs.
    Broadcast,
}

/// The tensor behind a view of `shape`.
pub(super) fn memory(seed: u64, dtype: DType, shape: &[usize], strides: Strides, scale: f32) -> Tensor {
    normal(seed, dtype, &behind(shape, strides), scale)
}

/// The same for an output.
pub(super) fn blank(dtype: DType, shape: &[usize], strides: Strides) -> Tensor {
    unwritten(dtype, &behind(shape, strides))
}

fn behind(shape: &[usize], strides: Strides) -> Vec<usize> {
    let mut shape = shape.to_vec();
    match strides {
        Strides::Dense => {}
        Strides::Transposed => shape.swap(0, 1),
        Strides::Gaps => *shape.last_mut().unwrap_or(&mut 0) = 2 * shape.last().copied().unwrap_or(0) + 3,
        Strides::Broadcast => shape[0] = 1,
    }
    shape
}

fn layout(shape: &[usize], strides: Strides) -> Option<Layout> {
    let memory = Layout::contiguous(&behind(shape, strides))?;
    let mut steps = memory.strides().to_vec();
    match strides {
        Strides::Dense => {}
        Strides::Transposed => steps.swap(0, 1),
        Strides::Gaps => *steps.last_mut()? = 2,
        Strides::Broadcast => steps[0] = 0,
    }
    Layout::strided(shape, &steps)
}

/// A view of `shape` into the memory made for it.
pub(super) fn view<'a>(tensor: &'a Tensor, shape: &[usize], strides: Strides) -> Option<View<'a>> {
    let view = tensor.view();
    if view.shape() != behind(shape, strides) {
        return None;
    }
    // SAFETY: memory of this shape holds the layout, and is borrowed for the view.
    Some(unsafe { View::from_raw(view.as_ptr(), view.dtype(), layout(shape, strides)?, view.device()) })
}

/// The same to write.
pub(super) fn view_mut<'a>(tensor: &'a mut Tensor, shape: &[usize], strides: Strides) -> Option<ViewMut<'a>> {
    let view = tensor.view_mut();
    let (ptr, dtype, device) = (view.as_mut_ptr(), view.dtype(), view.device());
    if view.shape() != behind(shape, strides) {
        return None;
    }
    // SAFETY: as in `view`, borrowed mutably; these layouts are injective for outputs.
    Some(unsafe { ViewMut::from_raw(ptr, dtype, layout(shape, strides)?, device) })
}

/// A shape, and how inputs and output lie.
pub type Shaped = (Vec<usize>, Strides, Strides);

/// Shapes and strides that every elementwise kernel must get right.
pub(super) fn shapes() -> Vec<Shaped> {
    use Strides::{Broadcast, Dense, Gaps, Transposed};
    vec![
        (vec![1, 1], Dense, Dense),
        (vec![3, 17], Dense, Dense),
        (vec![2, 5000], Dense, Dense),
        (vec![0, 8], Dense, Dense),
        (vec![33, 40], Transposed, Dense),
        (vec![33, 40], Dense, Transposed),
        (vec![4, 7, 19], Transposed, Transposed),
        (vec![2, 3, 4, 5, 6], Dense, Gaps),
        (vec![5, 70], Gaps, Gaps),
        (vec![6, 50], Broadcast, Dense),
    ]
}

/// A case of `inputs` tensors of one type, and an output.
pub(super) fn case(from: DType, to: DType, shaped: Shaped, inputs: u64) -> Case<Shaped> {
    let (shape, lie, out) = &shaped;
    let scale = if from == DType::I8 { 40.0 } else { 2.0 };
    let mut tensors: Vec<_> = (1..=inputs).map(|i| memory(i, from, shape, *lie, scale)).collect();
    tensors.push(blank(to, shape, *out));
    Case { name: format!("{from} to {to} {shape:?}, {lie:?} to {out:?}"), tensors, params: shaped }
}

/// Large dense tensors.
pub(super) fn bench_cases(from: DType, to: DType, inputs: u64) -> Vec<Case<Shaped>> {
    use Strides::{Dense, Transposed};
    [(vec![1, 4096], Dense, Dense), (vec![512, 4096], Dense, Dense), (vec![512, 8, 128], Transposed, Dense)]
        .map(|shaped| case(from, to, shaped, inputs))
        .into()
}

/// One operation of f32, rounded once.
pub(super) fn tolerance(key: Key) -> Tolerance {
    Tolerance { abs: 0.0, ..Tolerance::rounded(key, 1.01, 0.0) }.at_least_subnormal(key)
}
