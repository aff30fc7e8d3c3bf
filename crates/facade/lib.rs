//! LLM inference kernels that register themselves at link time, and are selected for the device in front
//! of them.
//!
//! A backend is a crate: enable its feature (`cpu`, `candle`, `cuda`, `rocm`) or link your own
//! (`use kernels_foo as _;`), and its kernels are there. One call serves every device; the fastest kernel
//! that is right runs, and the errors say why nothing can and what to do.
//!
#![doc = include_str!("../../README.md")]
#![cfg_attr(not(test), deny(unused_crate_dependencies))]

pub mod guide;

pub use kernels_core::*;
pub use kernels_ops as ops;

// Naming a backend crate is what links it: a dependency that nobody names brings nothing, silently.
#[cfg(feature = "candle")]
pub extern crate kernels_candle as candle;
#[cfg(feature = "cpu")]
pub extern crate kernels_cpu as cpu;
#[cfg(feature = "cuda")]
pub extern crate kernels_cuda as cuda;
#[cfg(feature = "rocm")]
pub extern crate kernels_rocm as rocm;

/// The `kernels` command, for a binary of your own with your own backends.
#[cfg(feature = "cli")]
pub use kernels_cli as cli;

kernels_core::features! {
    "cpu" => "kernels-cpu" serves "cpu",
    "candle" => "kernels-candle" serves "cpu",
    "cuda" => "kernels-cuda" serves "cuda",
    "rocm" => "kernels-rocm" serves "rocm",
}
