//! `elementwise.*` on GPUs.

#[allow(clippy::module_inception)]
pub mod elementwise;
mod walk;
