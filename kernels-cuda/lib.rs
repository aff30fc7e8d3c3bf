//! NVIDIA GPUs: so far the driver, which finds the devices and moves memory. libcuda is loaded when
//! somebody asks for a device, so a binary with this crate starts on a machine without it.

mod driver;

pub use driver::{CUDA, Cuda};

// No kernels yet: an empty list promises none.
kernels_core::backend! { backends: [], driver: &CUDA }
