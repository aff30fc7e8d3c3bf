//! The guide: what the parts are, how to use them, how to add to them, and each error.

#[doc = include_str!("../../docs/concepts.md")]
pub mod concepts {}

#[doc = include_str!("../../docs/engine.md")]
pub mod engine {}

#[doc = include_str!("../../docs/backend.md")]
pub mod backend {}

#[doc = include_str!("../../docs/op.md")]
pub mod op {}

#[doc = include_str!("../../docs/operators.md")]
pub mod operators {}

#[doc = include_str!("../../docs/errors.md")]
pub mod errors {}

#[doc = include_str!("../../docs/comparison.md")]
pub mod comparison {}

#[doc = include_str!("../../docs/stability.md")]
pub mod stability {}
