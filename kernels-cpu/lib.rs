//! SIMD kernels for CPUs: one file an op, the algorithm written once over `isa::Isa` and compiled for
//! AVX-512, AVX2 with FMA, and the target's baseline. Requirements choose between them at run time.

mod activation;
mod attention;
mod elementwise;
mod embeddings;
mod gemm;
mod handover;
mod isa;
mod kvcache;
mod layernorm;
mod math;
mod normal;
mod pool;
mod quantization;
mod sampling;
mod scratch;
mod variants;

pub use handover::{Handover, handover};

use kernels_core::Device;

kernels_core::backend! { backends: [kernels_core::Backend::SIMD], driver: &kernels_core::HOST }

/// How many threads the CPU kernels use; at first as many as there are cores.
pub fn threads() -> usize {
    Device::cpu().threads()
}

/// Sets how many threads the CPU kernels use, at least 1. More than there are cores slow everything down.
pub fn set_threads(threads: usize) {
    Device::cpu().set_threads(threads);
}
