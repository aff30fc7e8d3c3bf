//! What GPU backends share: kernel sources that NVRTC, hipRTC and a host C++ compiler take alike, their compilation at
//! run time with a cache on disk, and how each op is cut into blocks.
//!
//! A backend crate brings a driver's table of calls ([`host::Vendor`]) and a compiler ([`Runtime`]), and registers every
//! op with [`register!`]. An op is one `.cu` file and the Rust file beside it, which turns checked arguments into a launch.

pub mod activation;
pub mod attention;
pub mod blaslt;
pub mod cache;
pub mod elementwise;
pub mod embeddings;
pub mod gemm;
pub mod host;
mod jit;
pub mod kvcache;
mod launch;
pub mod layernorm;
mod op;
mod program;
pub mod quantization;
mod register;
mod report;
mod runtime;
pub mod sampling;
mod shape;
mod warm;

pub use jit::Jit;
pub use launch::{Gpu, Grid, Param, Params};
pub use program::{HEADERS, Options, Program, Source};
pub use report::{Report, op_number, op_of};
pub use runtime::{Resources, Runtime, ready};
pub use warm::{Wanted, load, wanted, warm_up};

#[doc(hidden)]
pub use {kernels_core, kernels_ops};
