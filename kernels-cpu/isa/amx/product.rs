//! Products of blocks: two tiles of weights by two of x over many steps, a block of instructions each.

use super::{STEP, STEPS, TILE, Tiles};
use crate::isa::{Avx512Bf16, Isa};
use std::arch::asm;
use std::arch::x86_64::*;

/// Memory that is asked for while tiles are multiplied: two rows for each step, 1 KiB of each.
#[derive(Clone, Copy)]
pub struct Ahead {
    pub row: *const u8,
    pub stride: usize,
}

/// What is multiplied: two tiles of weights and two of x, over 1 to [`STEPS`] steps, added to `sums` or written there:
/// `[16 weight rows, 16 rows of x]` four times, x's second tile after its first.
#[derive(Clone, Copy)]
pub struct Block {
    pub weights: *const u8,
    pub x: *const u8,
    pub steps: usize,
    pub sums: *mut u8,
    pub add: bool,
}

/// Products of blocks of numbers of one type, in sums of 4 bytes.
///
/// # Safety of all methods
/// The processor has the implementation's features, with AVX-512 F, BW, DQ and VL. In a [`Block`], `weights` and `x` are
/// valid for [`super::BLOCK`] bytes and `sums` for [`super::SUMS`].
#[allow(clippy::missing_safety_doc)]
pub trait Product: Copy + 'static {
    /// Numbers of a step.
    const NUMBERS: usize;
    /// What a thread has ready for products.
    type Ready;
    /// What results are stored with.
    type Store: Isa<V = __m512>;

    /// # Safety
    /// The system allows it, and this thread has no other.
    unsafe fn ready() -> Self::Ready;
    unsafe fn two(ready: &Self::Ready, block: Block);
    /// The same, asking for memory at any addresses.
    unsafe fn two_ahead(ready: &Self::Ready, block: Block, ahead: Ahead);
    /// Asking for memory, and without x's second tile, whose sums stay what they are.
    unsafe fn one_ahead(ready: &Self::Ready, block: Block, ahead: Ahead);
    /// 16 sums as floats.
    unsafe fn sums(p: *const u8) -> __m512;
}

/// Sums from memory or zeros, steps, sums to memory.
macro_rules! multiply {
    (
        ($block:ident $(, $ahead:ident)?),
        from [$($from:expr),*], zero [$($zero:expr),*], step [$($step:expr),*], to [$($to:expr),*]
    ) => {
        // SAFETY: by contract. Nothing but this block uses tiles between a load and a store.
        unsafe {
            asm!(
                "test {add:e}, {add:e}",
                "jz 2f",
                $($from,)*
                "jmp 3f",
                "2:",
                $($zero,)*
                "3:",
                $($step,)*
                "add {w}, {TILE}",
                "add {x}, {TILE}",
                "dec {steps}",
                "jnz 3b",
                $($to,)*
                add = in(reg) u32::from($block.add),
                sums = in(reg) $block.sums,
                stride = in(reg) STEP,
                w = inout(reg) $block.weights => _,
                x = inout(reg) $block.x => _,
                steps = inout(reg) $block.steps => _,
                $( ahead = inout(reg) $ahead.row => _, ahead_stride = in(reg) $ahead.stride, )?
                TILE = const TILE,
                STEPS = const STEPS,
                options(nostack),
            );
        }
    };
}

/// A row of 1 KiB.
macro_rules! ask {
    () => {
        concat!(
            "prefetcht1 [{ahead}]\n prefetcht1 [{ahead} + 64]\n prefetcht1 [{ahead} + 128]\n prefetcht1 [{ahead} + 192]\n",
            "prefetcht1 [{ahead} + 256]\n prefetcht1 [{ahead} + 320]\n prefetcht1 [{ahead} + 384]\n prefetcht1 [{ahead} + 448]\n",
            "prefetcht1 [{ahead} + 512]\n prefetcht1 [{ahead} + 576]\n prefetcht1 [{ahead} + 640]\n prefetcht1 [{ahead} + 704]\n",
            "prefetcht1 [{ahead} + 768]\n prefetcht1 [{ahead} + 832]\n prefetcht1 [{ahead} + 896]\n prefetcht1 [{ahead} + 960]\n",
            "add {ahead}, {ahead_stride}"
        )
    };
}

macro_rules! two {
    (($($args:ident),*), $instruction:literal, [$($ask:expr),*]) => {
        multiply!(
            ($($args),*),
            from [
                "tileloadd tmm0, [{sums} + {stride}]",
                "tileloadd tmm1, [{sums} + {stride} + {TILE}]",
                "tileloadd tmm2, [{sums} + {stride} + 2*{TILE}]",
                "tileloadd tmm3, [{sums} + {stride} + 3*{TILE}]"
            ],
            zero ["tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3"],
            step [
                "tileloadd tmm4, [{w} + {stride}]",
                "tileloadd tmm6, [{x} + {stride}]",
                "tileloadd tmm5, [{w} + {stride} + {STEPS}*{TILE}]",
                "tileloadd tmm7, [{x} + {stride} + {STEPS}*{TILE}]",
                concat!($instruction, " tmm0, tmm4, tmm6"),
                $($ask,)*
                concat!($instruction, " tmm1, tmm4, tmm7"),
                concat!($instruction, " tmm2, tmm5, tmm6"),
                $($ask,)*
                concat!($instruction, " tmm3, tmm5, tmm7")
            ],
            to [
                "tilestored [{sums} + {stride}], tmm0",
                "tilestored [{sums} + {stride} + {TILE}], tmm1",
                "tilestored [{sums} + {stride} + 2*{TILE}], tmm2",
                "tilestored [{sums} + {stride} + 3*{TILE}], tmm3"
            ]
        )
    };
}

macro_rules! one {
    (($($args:ident),*), $instruction:literal, [$($ask:expr),*]) => {
        multiply!(
            ($($args),*),
            from ["tileloadd tmm0, [{sums} + {stride}]", "tileloadd tmm2, [{sums} + {stride} + 2*{TILE}]"],
            zero ["tilezero tmm0", "tilezero tmm2"],
            step [
                "tileloadd tmm4, [{w} + {stride}]",
                "tileloadd tmm6, [{x} + {stride}]",
                "tileloadd tmm5, [{w} + {stride} + {STEPS}*{TILE}]",
                concat!($instruction, " tmm0, tmm4, tmm6"),
                $($ask,)*
                $($ask,)*
                concat!($instruction, " tmm2, tmm5, tmm6")
            ],
            to ["tilestored [{sums} + {stride}], tmm0", "tilestored [{sums} + {stride} + 2*{TILE}], tmm2"]
        )
    };
}

macro_rules! product {
    ($name:ident, $numbers:literal, $instruction:literal, |$p:ident| $sums:expr) => {
        impl Product for $name {
            const NUMBERS: usize = $numbers;
            type Ready = Tiles;
            type Store = Avx512Bf16;

            #[inline(always)]
            unsafe fn ready() -> Tiles {
                // SAFETY: passed on.
                unsafe { Tiles::configured() }
            }
            #[inline(always)]
            unsafe fn two(_: &Tiles, block: Block) {
                two!((block), $instruction, [])
            }
            #[inline(always)]
            unsafe fn two_ahead(_: &Tiles, block: Block, ahead: Ahead) {
                two!((block, ahead), $instruction, [ask!()])
            }
            #[inline(always)]
            unsafe fn one_ahead(_: &Tiles, block: Block, ahead: Ahead) {
                one!((block, ahead), $instruction, [ask!()])
            }
            #[inline(always)]
            unsafe fn sums($p: *const u8) -> __m512 {
                // SAFETY: by contract.
                unsafe { $sums }
            }
        }
    };
}

/// bf16, summed in f32.
#[derive(Clone, Copy)]
pub struct Floats;

impl Floats {
    /// [`Product::two`] without x's second tile, whose sums stay what they are.
    ///
    /// # Safety
    /// As for [`Product::two`].
    #[inline(always)]
    pub unsafe fn one(_: &Tiles, block: Block) {
        one!((block), "tdpbf16ps", [])
    }
}

/// i8, summed in i32.
#[derive(Clone, Copy)]
pub struct Integers;

product!(Floats, 32, "tdpbf16ps", |p| _mm512_loadu_ps(p.cast()));
product!(Integers, 64, "tdpbssd", |p| _mm512_cvtepi32_ps(_mm512_loadu_si512(p.cast())));
