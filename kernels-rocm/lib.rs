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
pub use vendor::{HipError, Rocm};

use kernels_core::Backend;

kernels_gpu::vendor! { pub static ROCM: Rocm }

kernels_core::backend! { backends: [Backend::HIPRTC, Backend::HIPBLASLT], driver: &ROCM }
