//! AMD GPUs: so far the driver, which finds the devices and moves memory. libamdhip64 is loaded when
//! somebody asks for a device, so a binary with this crate starts on a machine without it.

mod driver;
mod hip;

pub use driver::{ROCM, Rocm};

// No kernels yet: an empty list promises none.
kernels_core::backend! { backends: [], driver: &ROCM }
