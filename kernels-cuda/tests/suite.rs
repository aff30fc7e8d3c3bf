//! What every GPU backend must pass (see tests/suite), for CUDA. The grid of all kernels on all architectures:
//! `KERNELS_TEST_ARCHS=sm_75,sm_80,sm_86,sm_89,sm_90,sm_90a,sm_100,sm_120`.

mod mine;

kernels_gpu_suite::suite!(crate::mine::Cuda);
