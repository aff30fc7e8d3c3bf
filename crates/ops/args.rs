//! Checks that the contracts share; each gives an error that names the op and the argument.

use kernels_core::{CallError, DType, DTypeSet, PackedFor, Rows, View};

/// An argument under check.
#[derive(Clone, Copy)]
pub struct Arg<'v> {
    op: &'static str,
    name: &'static str,
    view: View<'v>,
    packable: bool,
}

/// Element types that index.
pub const INDEX: DTypeSet = DTypeSet::of(&[DType::I32, DType::I64, DType::U32]);

impl<'v> Arg<'v> {
    /// The argument `name` of `op`.
    pub fn new(op: &'static str, name: &'static str, view: View<'v>) -> Self {
        Arg { op, name, view, packable: false }
    }

    /// May be in one kernel's own layout.
    pub fn packable(self) -> Self {
        Arg { packable: true, ..self }
    }

    /// Of one of these types.
    pub fn dtype(self, takes: DTypeSet) -> Result<Self, CallError> {
        let have = self.view.dtype();
        if !self.packable && self.view.packed() != PackedFor::NOBODY {
            return Err(
                self.layout_error("; it is packed for one kernel, and this argument takes plain tensors")
            );
        }
        match takes.contains(have) {
            true => Ok(self),
            false => Err(CallError::DTypeUnsupported {
                op: self.op,
                tensor: self.name,
                have,
                takes: takes.to_string(),
            }),
        }
    }

    /// Of the same type as another argument.
    pub fn like(self, other: Arg<'_>) -> Result<Self, CallError> {
        let (have, takes) = (self.view.dtype(), other.view.dtype());
        match have == takes {
            true => self.dtype(DTypeSet::of(&[have])),
            false => {
                let takes = format!("{takes} as \"{}\" is", other.name);
                Err(CallError::DTypeUnsupported { op: self.op, tensor: self.name, have, takes })
            }
        }
    }

    /// Of this rank.
    pub fn rank(self, rank: usize) -> Result<Self, CallError> {
        let shape = self.view.shape();
        match shape.len() == rank {
            true => Ok(self),
            false => Err(self.shape_error(format!("{rank} dimensions expected, {shape:?} given"))),
        }
    }

    /// Of exactly this shape.
    pub fn shape(self, expected: &[usize]) -> Result<Self, CallError> {
        let shape = self.view.shape();
        match shape == expected {
            true => Ok(self),
            false => Err(self.shape_error(format!("{expected:?} expected, {shape:?} given"))),
        }
    }

    /// Of the shape of `like`, but for the last dimension.
    pub fn rows_like(self, like: &[usize], last: usize) -> Result<Self, CallError> {
        let shape = self.view.shape();
        let fits = match (shape.split_last(), like.split_last()) {
            (Some((mine, rows)), Some((_, like))) => rows == like && *mine == last,
            _ => false,
        };
        match fits {
            true => Ok(self),
            false => Err(self.shape_error(format!(
                "the shape {like:?} with {last} as its last dimension expected, {shape:?} given"
            ))),
        }
    }

    /// Rows of one stride, the last dimension dense.
    pub fn rows(self) -> Result<Rows, CallError> {
        let rows =
            self.view.rows().ok_or_else(|| self.layout_error(", and the others must collapse into rows"))?;
        self.whole_blocks(rows.cols, rows.stride)?;
        Ok(rows)
    }

    /// A dense last dimension, whatever the other strides.
    pub fn dense_last(self) -> Result<Self, CallError> {
        let last = self.view.layout().rank().checked_sub(1);
        match last.is_some_and(|i| self.view.dim(i) <= 1 || self.view.stride(i) == 1) {
            true => Ok(self),
            false => Err(self.layout_error("")),
        }
    }

    /// A dense vector of indices with `len` entries.
    pub fn indices(self, len: usize) -> Result<Self, CallError> {
        self.dtype(INDEX)?.rank(1)?.shape(&[len])?.dense_last()
    }

    /// Writable: no two indices share an element.
    pub fn output(self) -> Result<Self, CallError> {
        match self.view.layout().is_injective() {
            true => Ok(self),
            false => {
                let layout = format!("{:?}", self.view.layout());
                Err(CallError::Aliased { op: self.op, tensor: self.name, layout })
            }
        }
    }

    fn whole_blocks(self, cols: usize, stride: usize) -> Result<(), CallError> {
        let (dtype, block) = (self.view.dtype(), self.view.dtype().block_len());
        match cols.is_multiple_of(block) && stride.is_multiple_of(block) {
            true => Ok(()),
            false => Err(self.shape_error(format!("rows of {cols} are not whole {dtype} blocks of {block}"))),
        }
    }

    /// A shape error of this argument.
    pub fn shape_error(self, detail: String) -> CallError {
        CallError::ShapeMismatch { op: self.op, tensor: self.name, detail }
    }

    fn layout_error(self, detail: &'static str) -> CallError {
        let layout = format!("{:?}", self.view.layout());
        CallError::NotContiguous { op: self.op, tensor: self.name, layout, detail }
    }
}

/// A parameter within its range.
pub fn in_range(
    op: &'static str,
    what: &'static str,
    value: f64,
    ok: bool,
    range: &str,
    device: kernels_core::Device,
) -> Result<(), CallError> {
    match ok {
        true => Ok(()),
        false => {
            let (value, range) = (value.to_string(), range.to_string());
            Err(CallError::OutOfRange { op, device: device.id(), what, value, range })
        }
    }
}
