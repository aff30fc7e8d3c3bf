//! The same on a real GPU: `cargo test -p kernels-rocm --features gpu-tests`.

mod mine;

kernels_gpu_suite::suite!(@gpu crate::mine::Rocm);
