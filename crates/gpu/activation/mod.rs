//! `activation.*` on GPUs.

pub mod gated;
pub mod silu_and_mul_quant;
pub mod unary;
