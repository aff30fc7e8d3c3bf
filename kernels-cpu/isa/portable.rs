//! The target's baseline: plain arrays, which the compiler turns into whatever vectors it may use.

use super::{Isa, Square};
use kernels_core::{F8E4M3, bf16, f16};

/// 8 lanes.
#[derive(Clone, Copy)]
pub struct Portable;

type V = [f32; 8];

/// The value of each code.
static F8: [f32; 256] = {
    let (mut table, mut i) = ([0.0; 256], 0);
    while i < 256 {
        table[i] = F8E4M3::from_bits(i as u8).to_f32();
        i += 1;
    }
    table
};

macro_rules! lanes {
    (|$i:ident| $e:expr) => {{
        let mut out = [0f32; 8];
        for $i in 0..8 {
            out[$i] = $e;
        }
        out
    }};
}

// Safe arithmetic throughout; pointers are valid for 8 elements by the trait's contract.
impl Isa for Portable {
    type V = V;
    type I = [i32; 8];
    type H = [i16; 16];
    type Eight = Portable;
    const W: usize = 8;
    const TILE: usize = 2;

    #[inline(always)]
    unsafe fn splat(x: f32) -> V {
        [x; 8]
    }
    #[inline(always)]
    unsafe fn load_f32(p: *const f32) -> V {
        // SAFETY: see above the impl.
        unsafe { p.cast::<V>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store_f32(p: *mut f32, v: V) {
        // SAFETY: see above the impl.
        unsafe { p.cast::<V>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> V {
        // SAFETY: see above the impl.
        let bits = unsafe { p.cast::<[u16; 8]>().read_unaligned() };
        lanes!(|i| f16::from_bits(bits[i]).to_f32())
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, v: V) {
        // SAFETY: see above the impl.
        unsafe { p.cast::<[u16; 8]>().write_unaligned(v.map(|x| f16::from_f32(x).to_bits())) }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> V {
        // SAFETY: see above the impl.
        let bits = unsafe { p.cast::<[u16; 8]>().read_unaligned() };
        lanes!(|i| f32::from_bits(u32::from(bits[i]) << 16))
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut u16, v: V) {
        // SAFETY: see above the impl.
        unsafe { p.cast::<[u16; 8]>().write_unaligned(v.map(|x| bf16::from_f32(x).to_bits())) }
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const i8) -> V {
        // SAFETY: see above the impl.
        unsafe { p.cast::<[i8; 8]>().read() }.map(f32::from)
    }
    #[inline(always)]
    unsafe fn store_i8(p: *mut i8, v: V) {
        // SAFETY: see above the impl.
        unsafe { p.cast::<[i8; 8]>().write(v.map(|x| x.round_ties_even() as i8)) }
    }
    #[inline(always)]
    unsafe fn load_f8(p: *const u8) -> V {
        // SAFETY: see above the impl.
        unsafe { p.cast::<[u8; 8]>().read() }.map(|b| F8[b as usize])
    }
    #[inline(always)]
    unsafe fn store_f8(p: *mut u8, v: V) {
        // SAFETY: see above the impl.
        unsafe { p.cast::<[u8; 8]>().write(v.map(|x| F8E4M3::from_f32(x).to_bits())) }
    }
    #[inline(always)]
    unsafe fn widen_i8(p: *const i8) -> [i16; 16] {
        // SAFETY: see above the impl; this one reads 16.
        unsafe { p.cast::<[i8; 16]>().read() }.map(i16::from)
    }
    #[inline(always)]
    unsafe fn zeros_i32() -> [i32; 8] {
        [0; 8]
    }
    #[inline(always)]
    unsafe fn dot_i16(mut acc: [i32; 8], a: [i16; 16], b: [i16; 16]) -> [i32; 8] {
        for i in 0..8 {
            let pair = |k: usize| i32::from(a[k]) * i32::from(b[k]);
            acc[i] += pair(2 * i) + pair(2 * i + 1);
        }
        acc
    }
    #[inline(always)]
    unsafe fn sum_i32(v: [i32; 8]) -> i32 {
        v.iter().sum()
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> V {
        // SAFETY: see above the impl.
        unsafe { p.cast::<[u8; 8]>().read() }.map(f32::from)
    }
    #[inline(always)]
    unsafe fn nibbles(p: *const u8) -> (V, V) {
        // SAFETY: see above the impl.
        let bytes = unsafe { p.cast::<[u8; 8]>().read() };
        (bytes.map(|b| f32::from(b & 15)), bytes.map(|b| f32::from(b >> 4)))
    }
    #[inline(always)]
    unsafe fn add_where(v: V, bits: u32, amount: f32) -> V {
        lanes!(|i| if bits >> i & 1 == 1 { v[i] + amount } else { v[i] })
    }
    #[inline(always)]
    unsafe fn half(bits: u16) -> f32 {
        f16::from_bits(bits).to_f32()
    }
    #[inline(always)]
    unsafe fn add(a: V, b: V) -> V {
        lanes!(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: V, b: V) -> V {
        lanes!(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: V, b: V) -> V {
        lanes!(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn div(a: V, b: V) -> V {
        lanes!(|i| a[i] / b[i])
    }
    #[inline(always)]
    unsafe fn select_lt(a: V, b: V, x: V, y: V) -> V {
        lanes!(|i| if a[i] < b[i] { x[i] } else { y[i] })
    }
    #[inline(always)]
    unsafe fn fma(a: V, b: V, c: V) -> V {
        // `mul_add` without FMA calls libm for each lane, 85 times slower.
        lanes!(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn lanes_above(v: V, than: f32) -> u32 {
        (0..Self::W).map(|i| u32::from(v[i] > than) << i).sum()
    }
    #[inline(always)]
    unsafe fn max(a: V, b: V) -> V {
        lanes!(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn min(a: V, b: V) -> V {
        lanes!(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn reciprocal(a: V) -> V {
        lanes!(|i| 1.0 / a[i])
    }
    #[inline(always)]
    unsafe fn round(a: V) -> V {
        // Adding 1.5 · 2²³ leaves no room for a fraction; right for |a| < 2²², which is all `exp` asks.
        const MAGIC: f32 = 12_582_912.0;
        lanes!(|i| (a[i] + MAGIC) - MAGIC)
    }
    #[inline(always)]
    unsafe fn scale_by_power(a: V, n: V) -> V {
        lanes!(|i| a[i] * f32::from_bits(((n[i] as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    unsafe fn sum(v: V) -> f32 {
        ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
    }
    #[inline(always)]
    unsafe fn sum4(v: [V; 4]) -> [f32; 4] {
        // SAFETY: plain arithmetic.
        v.map(|v| unsafe { Self::sum(v) })
    }
    #[inline(always)]
    unsafe fn largest(v: V) -> f32 {
        v.into_iter().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a })
    }
}

impl Square for Portable {
    #[inline(always)]
    unsafe fn transposed(rows: [V; 8]) -> [V; 8] {
        let mut out = rows;
        for i in 0..8 {
            for j in 0..8 {
                out[j][i] = rows[i][j];
            }
        }
        out
    }
}
