//! NVIDIA GPUs: the driver over cudarc, every op's kernel, compiled by NVRTC for the device in
//! front of it, and cuBLASLt's products where that library is.
//!
//! The libraries are loaded when somebody asks for a device, so a binary with this crate builds without a CUDA
//! toolkit, starts on a machine without a GPU, and says there which library it looked for and where.

mod cublaslt;
mod kernels;
mod nvrtc;
mod platform;
mod runtime;
mod vendor;

pub use runtime::Nvrtc;
pub use vendor::{Cuda, CudaError};

use kernels_core::Backend;

kernels_gpu::vendor! { pub static CUDA: Cuda }

kernels_core::backend! { backends: [Backend::NVRTC, Backend::CUBLASLT], driver: &CUDA }
