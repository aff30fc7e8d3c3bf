//! AMD GPUs: the driver over HIP, and every op's kernel, compiled by hipRTC for the device in front of
//! it, and hipBLASLt's products where that library is.
//!
//! The libraries are loaded when somebody asks for a device, so a binary with this crate builds without ROCm, starts on a
//! machine without a GPU, and says there which library it looked for and where.

mod hip;
mod hipblaslt;
mod hiprtc;
mod kernels;
mod platform;
mod vendor;

pub use hiprtc::Hiprtc;
pub use kernels_gpu::warm_up;
pub use vendor::{HipError, Rocm};

use kernels_core::{Backend, Device, Error};
use kernels_gpu::host::{self, GpuDriver};

/// The driver, for manifests.
pub static ROCM: GpuDriver<Rocm> = GpuDriver::new();

/// Recorded work: a HIP graph.
pub type Graph = host::Graph<Rocm>;

/// Records what `calls` queue on `device` as a graph, instead of running it; see [`host::capture`].
///
/// # Errors
/// What `calls` say, or the driver, where something inside cannot be recorded.
pub fn capture(device: Device, calls: impl FnOnce() -> Result<(), Error>) -> Result<Graph, Error> {
    host::capture(device, calls)
}

kernels_core::backend! { backends: [Backend::HIPRTC, Backend::HIPBLASLT], driver: &ROCM }
