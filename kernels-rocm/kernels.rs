//! Every op on hipRTC.

kernels_gpu::register!(crate::Hiprtc);
