//! Every op on NVRTC, and what one generation of GPUs alone can do.

use kernels_core::{Backend, Requirement, kernel};
use kernels_gpu::gemm::wgmma;
use kernels_gpu::ready;
use kernels_ops::gemm::Linear;

kernels_gpu::register!(crate::Nvrtc);

kernel!(unsafe {
    op: Linear,
    backend: Backend::NVRTC,
    variant: "sm90a",
    formats: Formats::same(DTypeSet::of(&[DType::F16, DType::BF16])),
    run: wgmma::linear::<crate::Nvrtc>,
    gate: Some(wgmma::gate),
    ready: Some(|platform| ready::<crate::Nvrtc>(platform, wgmma::SOURCES)),
    requires: &[Requirement::cuda_exact(&[90])],
    // It ran in the emulation alone, which plays the descriptors by PTX's description of them. `kernels check` on
    // a GPU of this kind decides.
    experimental: true,
});
