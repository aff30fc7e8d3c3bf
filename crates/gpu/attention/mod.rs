//! `attention.*` on GPUs.

pub mod merge_state;
pub mod paged;
