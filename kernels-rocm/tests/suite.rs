//! What every GPU backend must pass (see tests/suite), for ROCm. The grid of all kernels on all architectures:
//! `KERNELS_TEST_ARCHS=gfx90a,gfx942,gfx950,gfx1030,gfx1100,gfx1201`.

mod mine;

kernels_gpu_suite::suite!(crate::mine::Rocm);
