//! `sampling.*` on GPUs.

pub mod apply_mask;
pub mod penalties;
pub mod renorm;
pub mod sample;
pub mod softmax;
