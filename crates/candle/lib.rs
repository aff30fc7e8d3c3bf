//! The ops of kernel-registry over [`candle_core::Tensor`], and candle's own operations as a backend.
//!
//! One function for each op, on the CPU, and with the feature `candle-cuda` on the GPU of candle's own device: inputs are read where they are (contiguous, or rows with a stride),
//! results are new tensors whose memory the kernels wrote. An op that works in place has two forms here:
//! `name` gives the results as new tensors, `name_inplace` writes into its arguments. What the arguments
//! mean is in the op's own page, which each function names; errors come as [`candle_core::Error`] and say the
//! op, the argument and the cure.
//!
//! candle has no i8: where an op's contract says i8, tensors are `U8` that hold the same bytes.
//!
//! These kernels have no backward pass: a tensor that candle tracks is an error, and `.detach()` the cure.

pub mod activation;
pub mod attention;
mod backend;
mod call;
#[cfg(feature = "candle-cuda")]
mod cuda;
mod dtype;
pub mod elementwise;
pub mod embeddings;
mod error;
pub mod gemm;
pub mod kvcache;
pub mod layernorm;
mod memory;
pub mod nn;
pub mod quantization;
pub mod sampling;

pub use candle_core;
pub use candle_nn;
pub use error::CandleError;

kernels_core::backend! { backends: [kernels_core::Backend::CANDLE], driver: &kernels_core::HOST }
