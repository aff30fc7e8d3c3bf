//! What can be wrong with candle tensors, besides what the ops themselves check.

use kernels_core::{CallError, Error};

/// What can be wrong with a call on candle tensors. It comes inside a [`candle_core::Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CandleError {
    /// A transposed or broadcast tensor.
    #[error(
        "{op}: \"{tensor}\" has {layout}, which the op does not take\n  fix: call `.contiguous()` on it first"
    )]
    NotContiguous {
        /// The op.
        op: &'static str,
        /// The argument.
        tensor: &'static str,
        /// Shape and strides.
        layout: String,
    },
    /// A tensor that candle keeps for the backward pass.
    #[error(
        "{op}: \"{tensor}\" is a variable, or computed from one, and this op has no backward pass\n  fix: call \
         `.detach()` on it, or use candle's own operations where gradients are needed"
    )]
    Tracked {
        /// The op.
        op: &'static str,
        /// The argument.
        tensor: &'static str,
    },
    /// A tensor on a GPU.
    #[error(
        "{op}: \"{tensor}\" is on {location}, and this binary was built for candle's tensors on {}\n  fix: move it with \
         `.to_device(..)`{}; nothing is moved implicitly",
        if cfg!(feature = "candle-cuda") { "CPU and CUDA" } else { "the CPU" },
        if cfg!(feature = "candle-cuda") { "" } else { ", or enable the cargo feature \"candle-cuda\" for CUDA" }
    )]
    Location {
        /// The op.
        op: &'static str,
        /// The argument.
        tensor: &'static str,
        /// Where it is.
        location: String,
    },
    /// An element type that no op takes.
    #[error("{op}: \"{tensor}\" is {dtype}, which no kernel takes\n  fix: call `.to_dtype(..)` on it")]
    Type {
        /// The op.
        op: &'static str,
        /// The argument.
        tensor: &'static str,
        /// candle's name of it.
        dtype: String,
    },
    /// A tensor to be written shares its memory with another one.
    #[error(
        "{op}: \"{tensor}\" would be written in place, and shares its memory with \"{other}\"\n  fix: use the form \
         without `_inplace`, or `.copy()` one of them"
    )]
    Shared {
        /// The op.
        op: &'static str,
        /// The argument that is written.
        tensor: &'static str,
        /// The other argument.
        other: &'static str,
    },
    /// No memory for a result.
    #[error("{op}: no memory for a result of {bytes} bytes")]
    Memory {
        /// The op.
        op: &'static str,
        /// How much.
        bytes: usize,
    },
    /// What the op itself says.
    #[error(transparent)]
    Kernel(Error),
}

/// An op's error at candle's edge.
pub(crate) fn at_edge(error: Error) -> candle_core::Error {
    candle_core::Error::wrap(match error {
        Error::Call(CallError::NotContiguous { op, tensor, layout, .. }) => {
            CandleError::NotContiguous { op, tensor, layout }
        }
        other => CandleError::Kernel(other),
    })
}
