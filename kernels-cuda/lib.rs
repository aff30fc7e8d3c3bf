//! NVIDIA GPUs: the driver over cudarc, and every op's kernel, compiled by NVRTC for the device in front of it.
//!
//! libcuda and NVRTC are loaded when somebody asks for a device, so a binary with this crate builds without a CUDA
//! toolkit, starts on a machine without a GPU, and says there which library it looked for and where.

mod context;
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

kernels_core::backend! { backends: [kernels_core::Backend::NVRTC], driver: &CUDA }
