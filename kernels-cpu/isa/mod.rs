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
pub mod bytes;
mod element;
mod portable;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
#[cfg(target_arch = "x86_64")]
pub use avx512bf16::Avx512Bf16;
pub use element::{Elem, load_some, load_tail, store_tail};
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

/// The same where a thread reads nothing else from memory, from one end to the other: of 2, 4, 8 and 16 KiB the fastest
/// for products of weights of every type.
pub const FAR_AHEAD: usize = 8192;

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

/// Asks for the line of an address, which may point anywhere, for later: it comes as far as L2.
#[inline(always)]
pub fn prefetch_later<T>(at: *const T) {
    // SAFETY: a prefetch touches nothing.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// A mask of the lowest `count` lanes, or of all.
#[cfg(target_arch = "x86_64")]
pub fn lowest(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
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
    /// Whether [`Isa::dot_bf16`] is an instruction.
    const PAIRS: bool = false;
    /// Whether pairs of bf16 are taken apart, but not multiplied, by instructions.
    const HALVES: bool = false;
    /// Bytes of pieces, apart from each other in memory, from which on the processors of this set see by themselves how
    /// each goes on, and asking for its lines costs more than it saves.
    const FOLLOWED: usize = usize::MAX;

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
    /// [`Isa::store_i8`] of numbers that round to i8, none of them NaN.
    #[inline(always)]
    unsafe fn store_small_i8(p: *mut i8, v: Self::V) {
        // SAFETY: passed on.
        unsafe { Self::store_i8(p, v) }
    }
    /// f8_e4m3.
    unsafe fn load_f8(p: *const u8) -> Self::V;
    /// f8_e4m3: rounds to nearest even and saturates; NaN stays NaN.
    unsafe fn store_f8(p: *mut u8, v: Self::V);
    /// `2 W` i8 as i16.
    unsafe fn widen_i8(p: *const i8) -> Self::H;
    unsafe fn zeros_i32() -> Self::I;
    /// Lanes of two bf16 each: the ones at even places, and the ones at odd places.
    #[inline(always)]
    unsafe fn even_odd_bf16(pairs: Self::V) -> [Self::V; 2] {
        let (mut lanes, mut odd) = ([0u32; 16], [0u32; 16]);
        // SAFETY: W is 16 at most.
        unsafe {
            Self::store_f32(lanes.as_mut_ptr().cast(), pairs);
            for i in 0..Self::W {
                (lanes[i], odd[i]) = (lanes[i] << 16, lanes[i] & 0xFFFF_0000);
            }
            [Self::load_f32(lanes.as_ptr().cast()), Self::load_f32(odd.as_ptr().cast())]
        }
    }
    /// Lanes for the even places, and lanes for the odd places, in their order.
    #[inline(always)]
    unsafe fn interleave(halves: [Self::V; 2]) -> [Self::V; 2] {
        let (mut lanes, mut all) = ([[0f32; 16]; 2], [0f32; 32]);
        // SAFETY: W is 16 at most.
        unsafe {
            for half in 0..2 {
                Self::store_f32(lanes[half].as_mut_ptr(), halves[half]);
                for i in 0..Self::W {
                    all[2 * i + half] = lanes[half][i];
                }
            }
            [Self::load_f32(all.as_ptr()), Self::load_f32(all[Self::W..].as_ptr())]
        }
    }
    /// `acc` plus, in each lane, the products of two pairs of bf16. Subnormal ones may count as 0.
    #[inline(always)]
    unsafe fn dot_bf16(acc: Self::V, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: passed on.
        unsafe {
            let ([a, c], [b, d]) = (Self::even_odd_bf16(a), Self::even_odd_bf16(b));
            Self::fma(a, b, Self::fma(c, d, acc))
        }
    }
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
    /// 1 / (1 + e⁻ˣ) within 5e-7 of itself from -16 on, and within 2e-6 below, where it is normal.
    #[inline(always)]
    unsafe fn sigmoid(x: Self::V) -> Self::V {
        // SAFETY: passed on.
        unsafe { crate::math::sigmoid_by_exp::<Self>(x) }
    }
    /// 1 / (1 + e⁻ˣ) within 2⁻¹³ of itself, for results that are rounded to 16 bits.
    #[inline(always)]
    unsafe fn coarse_sigmoid(x: Self::V) -> Self::V {
        // SAFETY: passed on.
        unsafe { Self::sigmoid(x) }
    }
    /// eˣ: below 2 ulp where the result is normal, 0 below -87.7, infinity from 88.73 on, NaN to NaN.
    #[inline(always)]
    unsafe fn exp(x: Self::V) -> Self::V {
        // SAFETY: passed on.
        unsafe { crate::math::exp_by_rounding::<Self>(x) }
    }
    /// To the nearest integer, ties to even.
    unsafe fn round(a: Self::V) -> Self::V;
    /// `a · 2ⁿ` for integral `n` in -127..=128: 0 at the lower end; at the upper infinity, or the product where it fits.
    unsafe fn scale_by_power(a: Self::V, n: Self::V) -> Self::V;
    unsafe fn sum(v: Self::V) -> f32;
    /// The sum of four vectors, which is one number: what a loop adds up in four, to hide the latency of an addition.
    #[inline(always)]
    unsafe fn sum_of_four([a, b, c, d]: [Self::V; 4]) -> f32 {
        // SAFETY: passed on.
        unsafe { Self::sum(Self::add(Self::add(a, b), Self::add(c, d))) }
    }
    /// The sums of four vectors, cheaper together.
    unsafe fn sum4(v: [Self::V; 4]) -> [f32; 4];
    unsafe fn largest(v: Self::V) -> f32;
    /// A bit for each lane above `than`.
    unsafe fn lanes_above(v: Self::V, than: f32) -> u32;
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels_core::bf16;

    const NUMBERS: usize = 32;

    /// Even places, odd places, 0.5 plus products of pairs, and both halves put together again, of as many as a vector
    /// has.
    ///
    /// # Safety
    /// `S`'s features.
    #[inline(always)]
    unsafe fn pairs<S: Isa>(a: &[bf16; NUMBERS], b: &[bf16; NUMBERS]) -> [[f32; NUMBERS / 2]; 5] {
        let mut out = [[0f32; NUMBERS / 2]; 5];
        // SAFETY: a vector has no more numbers.
        unsafe {
            let (a, b) = (S::load_f32(a.as_ptr().cast()), S::load_f32(b.as_ptr().cast()));
            let [even, odd] = S::even_odd_bf16(a);
            let [first, second] = S::interleave([even, odd]);
            for (to, v) in out.iter_mut().zip([even, odd, S::dot_bf16(S::splat(0.5), a, b), first, second]) {
                S::store_f32(to.as_mut_ptr(), v);
            }
        }
        out
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    fn pairs_by_instructions(a: &[bf16; NUMBERS], b: &[bf16; NUMBERS]) -> [[f32; NUMBERS / 2]; 5] {
        // SAFETY: the features are there.
        unsafe { pairs::<Avx512Bf16>(a, b) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    fn pairs_by_halves(a: &[bf16; NUMBERS], b: &[bf16; NUMBERS]) -> [[f32; NUMBERS / 2]; 5] {
        // SAFETY: the features are there.
        unsafe { pairs::<Avx512>(a, b) }
    }

    #[test]
    fn pairs_of_bf16_are_multiplied_and_taken_apart() {
        let numbers = |by: usize| -> [bf16; NUMBERS] {
            std::array::from_fn(|i| bf16::from_f32((i * by % 29) as f32 / 8.0 - 1.5))
        };
        let (a, b) = (numbers(11), numbers(17));
        let right = |got: [[f32; NUMBERS / 2]; 5], lanes: usize| {
            for i in 0..lanes {
                let [p, q, r, s] = [a[2 * i], a[2 * i + 1], b[2 * i], b[2 * i + 1]].map(f32::from);
                let together = [a[i], a[lanes + i]].map(f32::from);
                let expected = [p, q, 0.5 + p * r + q * s, together[0], together[1]];
                assert_eq!(got.map(|of| of[i]), expected, "lane {i}");
            }
        };
        // SAFETY: the portable set needs no features.
        right(unsafe { pairs::<Portable>(&a, &b) }, Portable::W);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: processors with these have the others too.
            right(unsafe { pairs_by_halves(&a, &b) }, Avx512::W);
        }
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512bf16") {
            // SAFETY: processors with this have the others too.
            right(unsafe { pairs_by_instructions(&a, &b) }, Avx512Bf16::W);
        }
    }

    /// Every upper half of an f32 with lower halves around a tie, as `S` rounds them to bf16.
    ///
    /// # Safety
    /// `S`'s features.
    #[inline(always)]
    unsafe fn round_to_bf16<S: Isa>() {
        for upper in (0..1u32 << 16).step_by(S::W) {
            for lower in [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF] {
                let (mut from, mut to) = ([0f32; 16], [0u16; 16]);
                for i in 0..S::W {
                    from[i] = f32::from_bits((upper + i as u32) << 16 | lower);
                }
                // SAFETY: by contract; both are as long as the widest vector.
                unsafe { S::store_bf16(to.as_mut_ptr(), S::load_f32(from.as_ptr())) };
                for i in 0..S::W {
                    assert_eq!(to[i], bf16::from_f32(from[i]).to_bits(), "{:#x}", from[i].to_bits());
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    fn round_by_avx512() {
        // SAFETY: the features are there.
        unsafe { round_to_bf16::<Avx512>() }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn round_by_avx2() {
        // SAFETY: the features are there.
        unsafe { round_to_bf16::<Avx2>() }
    }

    #[test]
    fn every_set_rounds_to_bf16_as_the_type_does() {
        // SAFETY: the portable set needs no features.
        unsafe { round_to_bf16::<Portable>() }
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
            {
                // SAFETY: the features are there.
                unsafe { round_by_avx2() }
            }
            if crate::math::has_avx512() {
                // SAFETY: the features are there.
                unsafe { round_by_avx512() }
            }
        }
    }
}
