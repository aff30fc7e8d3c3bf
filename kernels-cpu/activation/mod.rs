//! `activation.*`

mod silu_and_mul;
