//! NVIDIA GPUs: the driver over cudarc, every op's kernel, compiled by NVRTC for the device in
//! front of it, and cuBLASLt's products where that library is.
//!
//! The libraries are loaded when somebody asks for a device, so a binary with this crate builds without a CUDA
//! toolkit, starts on a machine without a GPU, and says there which library it looked for and where.

mod context;
mod cublaslt;
mod driver;
mod graph;
mod kernels;
mod library;
mod nvrtc;
mod platform;
mod runtime;
mod staging;
mod words;

pub use driver::{CUDA, Cuda};
pub use graph::{Graph, capture};
pub use kernels_gpu::warm_up;
pub use runtime::{Nvrtc, Resources, resources};

kernels_core::backend! { backends: [kernels_core::Backend::NVRTC, kernels_core::Backend::CUBLASLT], driver: &CUDA }
