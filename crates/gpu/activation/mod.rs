//! `activation.*` on GPUs.

pub mod gated;
pub mod unary;
