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

pub use kernels_gpu::warm_up;
pub use runtime::Nvrtc;
pub use vendor::{Cuda, CudaError};

use kernels_core::{Backend, Device, Error};
use kernels_gpu::host::{self, GpuDriver};

/// The driver, for manifests.
pub static CUDA: GpuDriver<Cuda> = GpuDriver::new();

/// Recorded work: a CUDA graph.
pub type Graph = host::Graph<Cuda>;

/// Records what `calls` queue on `device` as a graph, instead of running it; see [`host::capture`].
///
/// # Errors
/// What `calls` say, or the driver, where something inside cannot be recorded.
pub fn capture(device: Device, calls: impl FnOnce() -> Result<(), Error>) -> Result<Graph, Error> {
    host::capture(device, calls)
}

kernels_core::backend! { backends: [Backend::NVRTC, Backend::CUBLASLT], driver: &CUDA }
