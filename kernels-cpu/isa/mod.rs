//! The vector instructions that kernels are written over.
//!
//! Every method is `#[inline(always)]` and so is every generic kernel part: they are compiled inside a
//! function with the right `#[target_feature]` (see `variants!`), never on their own. Closures do not
//! inherit those features, so generic parts use plain loops.

#[cfg(target_arch = "x86_64")]
pub mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512bf16;
#[cfg(target_arch = "x86_64")]
mod bytes;
mod element;
mod portable;
#[cfg(target_arch = "x86_64")]
pub mod vnni;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
#[cfg(target_arch = "x86_64")]
pub use avx512bf16::Avx512Bf16;
#[cfg(target_arch = "x86_64")]
pub use bytes::{Bytes, Pairs, Vnni};
pub use element::{Elem, load_tail, store_tail};
pub use portable::Portable;

/// Eight lanes that can be turned.
pub trait Square: Isa {
    /// Eight vectors, with rows and columns exchanged.
    ///
    /// # Safety
    /// As for all of [`Isa`].
    unsafe fn transposed(rows: [Self::V; 8]) -> [Self::V; 8];
}

/// How far ahead of the arithmetic memory is asked for, in bytes, where more streams by than caches hold: the
/// processor's own prefetching ends with each page.
pub const AHEAD: usize = 2048;

/// Asks for the line of an address, which may point anywhere.
#[inline(always)]
pub fn prefetch<T>(at: *const T) {
    // SAFETY: a prefetch touches nothing.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Vectors of f32, with loads from and stores to 16-bit floats.
///
/// # Safety of all methods
/// The processor has the implementation's features. Pointers are valid for `W` elements, unaligned.
#[allow(clippy::missing_safety_doc)]
pub trait Isa: Copy + 'static {
    /// `W` lanes of f32.
    type V: Copy;
    /// `W` lanes of i32.
    type I: Copy;
    /// `2 W` lanes of i16.
    type H: Copy;
    /// Eight lanes, where rows and columns are exchanged.
    type Eight: Square;
    /// Lanes.
    const W: usize;
    /// Rows of two vectors each that fit into the registers, with room for what is multiplied.
    const TILE: usize;

    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load_f32(p: *const f32) -> Self::V;
    unsafe fn store_f32(p: *mut f32, v: Self::V);
    unsafe fn load_f16(p: *const u16) -> Self::V;
    /// Rounds to nearest even.
    unsafe fn store_f16(p: *mut u16, v: Self::V);
    unsafe fn load_bf16(p: *const u16) -> Self::V;
    /// Rounds to nearest even; NaN stays NaN.
    unsafe fn store_bf16(p: *mut u16, v: Self::V);
    unsafe fn load_i8(p: *const i8) -> Self::V;
    /// Rounds to nearest even and saturates; NaN becomes 0.
    unsafe fn store_i8(p: *mut i8, v: Self::V);
    /// f8_e4m3.
    unsafe fn load_f8(p: *const u8) -> Self::V;
    /// f8_e4m3: rounds to nearest even and saturates; NaN stays NaN.
    unsafe fn store_f8(p: *mut u8, v: Self::V);
    /// `2 W` i8 as i16.
    unsafe fn widen_i8(p: *const i8) -> Self::H;
    unsafe fn zeros_i32() -> Self::I;
    /// `acc` plus, in each lane, the products of two pairs.
    unsafe fn dot_i16(acc: Self::I, a: Self::H, b: Self::H) -> Self::I;
    unsafe fn sum_i32(v: Self::I) -> i32;
    /// Bytes as numbers 0 to 255.
    unsafe fn load_u8(p: *const u8) -> Self::V;
    /// Low and high nibbles of bytes as numbers 0 to 15.
    unsafe fn nibbles(p: *const u8) -> (Self::V, Self::V);
    /// `v` plus `amount` in the lanes whose bits are set.
    unsafe fn add_where(v: Self::V, bits: u32, amount: f32) -> Self::V;
    /// One f16 by its bits.
    unsafe fn half(bits: u16) -> f32;
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, fused where the processor can.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The larger; `b` where either is NaN.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// The smaller; `b` where either is NaN.
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    /// `x` in lanes where `a < b`, else (NaN too) `y`.
    unsafe fn select_lt(a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V;
    /// 1 / a within 3e-7 of itself; 0 for an infinity.
    unsafe fn reciprocal(a: Self::V) -> Self::V;
    /// 1 / (1 + e⁻ˣ) within 2⁻¹³ of itself, for results that are rounded to 16 bits.
    #[inline(always)]
    unsafe fn coarse_sigmoid(x: Self::V) -> Self::V {
        // SAFETY: passed on.
        unsafe { crate::math::sigmoid::<Self>(x) }
    }
    /// To the nearest integer, ties to even.
    unsafe fn round(a: Self::V) -> Self::V;
    /// `a · 2ⁿ` for integral `n` in -127..=128: 0 at the lower end; at the upper infinity, or the product where it fits.
    unsafe fn scale_by_power(a: Self::V, n: Self::V) -> Self::V;
    unsafe fn sum(v: Self::V) -> f32;
    /// The sums of four vectors, cheaper together.
    unsafe fn sum4(v: [Self::V; 4]) -> [f32; 4];
    unsafe fn largest(v: Self::V) -> f32;
}
