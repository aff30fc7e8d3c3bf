//! `activation.*`

mod gelu_and_mul;
mod gelu_quick;
mod gelu_tanh_and_mul;
mod map;
mod relu2;
mod silu_and_mul;
mod silu_and_mul_quant;
mod softcap;
