//! The `cublaslt` backend: `gemm.linear` by NVIDIA's library, loaded at run time.

mod api;
mod linear;
mod plan;
