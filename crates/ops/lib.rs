//! The op contracts of kernel-registry: one file an op, folders are groups. Each file holds the op's
//! arguments and checks, its typed functions, its `reference` kernel (slow, obvious, f64), and its parity
//! cases, tolerance and cost.

pub mod activation;
pub mod args;
pub mod attention;
mod contract;
pub mod data;
pub mod element;
pub mod elementwise;
pub mod embeddings;
mod erased;
pub mod gemm;
mod hostile;
pub mod kvcache;
pub mod layernorm;
pub mod quantization;
pub mod sampling;
mod self_test;

pub use contract::{
    AnyCase, AnyContract, Case, Contract, ContractEntry, Cost, Outcome, Prepared, Tolerance, contracts,
};
pub use erased::Erased;
#[doc(hidden)]
pub use inventory;
pub use kernels_core as core;
pub use self_test::{Judgement, judge, self_test};

kernels_core::backend! { backends: [kernels_core::Backend::REFERENCE], driver: &kernels_core::HOST }

/// The three float types.
pub(crate) const FLOATS: [kernels_core::DType; 3] =
    [kernels_core::DType::F32, kernels_core::DType::F16, kernels_core::DType::BF16];

pub(crate) use kernels_core::{Backend, DTypeSet, Formats};
