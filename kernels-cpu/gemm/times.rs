//! What an element of an operand is: a number, or a pair of bf16 that stands where an f32 would.

use crate::isa::Isa;

/// How elements are multiplied.
pub trait Times {
    /// `acc` plus, in each lane, x times w.
    ///
    /// # Safety
    /// `S`'s features.
    unsafe fn times<S: Isa>(acc: S::V, x: S::V, w: S::V) -> S::V;
}

/// Numbers.
pub struct Numbers;

impl Times for Numbers {
    #[inline(always)]
    unsafe fn times<S: Isa>(acc: S::V, x: S::V, w: S::V) -> S::V {
        // SAFETY: passed on.
        unsafe { S::fma(x, w, acc) }
    }
}

/// Pairs of bf16.
pub struct Pairs;

impl Times for Pairs {
    #[inline(always)]
    unsafe fn times<S: Isa>(acc: S::V, x: S::V, w: S::V) -> S::V {
        // SAFETY: passed on.
        unsafe { S::dot_bf16(acc, x, w) }
    }
}
