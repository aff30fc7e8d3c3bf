//! `elementwise.*`: arithmetic and copies over any strides.

pub mod add;
mod binary;
pub mod cast;
pub mod copy;
pub mod mul;
pub mod scale;
mod strided;

pub use add::{Add, add, add_into};
pub use cast::{Cast, cast, cast_into};
pub use copy::{Copy, copy, copy_into};
pub use mul::{Mul, mul, mul_into};
pub use scale::{Scale, scale, scale_into};
