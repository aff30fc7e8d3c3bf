//! What an element of an operand is: a number, or a pair of bf16 that stands where an f32 would.

use crate::isa::Isa;

/// How elements are multiplied.
pub trait Times {
    /// Vectors of x for one of w.
    const PARTS: usize = 1;

    /// What the first and what the second vector of x is multiplied with.
    ///
    /// # Safety
    /// `S`'s features.
    #[inline(always)]
    unsafe fn parts<S: Isa>(w: S::V) -> [S::V; 2] {
        [w, w]
    }

    /// `acc` plus, in each lane, x times w.
    ///
    /// # Safety
    /// `S`'s features.
    #[inline(always)]
    unsafe fn times<S: Isa>(acc: S::V, x: S::V, w: S::V) -> S::V {
        // SAFETY: passed on.
        unsafe { S::fma(x, w, acc) }
    }
}

/// Numbers.
pub struct Numbers;

impl Times for Numbers {}

/// Pairs of bf16.
pub struct Pairs;

impl Times for Pairs {
    #[inline(always)]
    unsafe fn times<S: Isa>(acc: S::V, x: S::V, w: S::V) -> S::V {
        // SAFETY: passed on.
        unsafe { S::dot_bf16(acc, x, w) }
    }
}

/// x is numbers, the even ones of a vector of w before its odd ones; w is pairs of bf16.
pub struct Halves;

impl Times for Halves {
    const PARTS: usize = 2;

    #[inline(always)]
    unsafe fn parts<S: Isa>(w: S::V) -> [S::V; 2] {
        // SAFETY: passed on.
        unsafe { S::even_odd_bf16(w) }
    }
}
