//! Every op on NVRTC.

kernels_gpu::register!(crate::Nvrtc);
