//! AMX: registers of 16 rows of 64 bytes, and products of two of them.
//!
//! The compiler knows nothing of what is in them, so a product from its first load to its last store is one block of
//! instructions. `tdpbf16ps` and `tdpbssd` take rows of weights as they lie in memory, but x by columns, in words of
//! 4 bytes (Intel SDM, volume 2).

use super::{Avx2, Avx512Bf16, Isa, Square};
use std::arch::asm;
use std::arch::x86_64::*;

/// Rows of a tile.
pub const ROWS: usize = 16;

/// Bytes of a row of a tile: so many are multiplied in one step.
pub const STEP: usize = 64;

/// Bytes of a tile.
pub const TILE: usize = ROWS * STEP;

/// Steps that lie next to each other: the weights of a block of two tiles' rows stay in L1.
pub const STEPS: usize = 16;

/// Bytes of `STEPS` steps of two tiles.
pub const BLOCK: usize = 2 * STEPS * TILE;

/// Bytes of the sums of a block: two tiles by two.
pub const SUMS: usize = 4 * TILE;

#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Tiles 0 to 3 for sums, 4 and 5 for rows of `step` bytes of weights, 6 and 7 for as much of x.
const fn config(step: u16) -> Config {
    let x = (step / 4) as u8;
    Config {
        palette: 1,
        start_row: 0,
        reserved: [0; 14],
        row_bytes: [64, 64, 64, 64, step, step, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
        rows: [16, 16, 16, 16, 16, 16, x, x, 0, 0, 0, 0, 0, 0, 0, 0],
    }
}

/// This thread's tiles, for steps of `BYTES` bytes, ready for use until they are dropped.
pub struct Tiles<const BYTES: u16 = 64>(std::marker::PhantomData<*const ()>);

impl<const BYTES: u16> Tiles<BYTES> {
    const CONFIG: &'static Config = &config(BYTES);

    /// # Safety
    /// The processor has AMX, the system allows it, and this thread has no other `Tiles`.
    pub unsafe fn configured() -> Self {
        // SAFETY: by contract; the configuration is 64 bytes.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const *Self::CONFIG, options(nostack, preserves_flags))
        };
        Tiles(std::marker::PhantomData)
    }
}

impl<const BYTES: u16> Drop for Tiles<BYTES> {
    fn drop(&mut self) {
        // SAFETY: there are tiles, or this value would not be.
        unsafe { asm!("tilerelease", options(nostack, preserves_flags)) };
    }
}

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
/// valid for [`BLOCK`] bytes and `sums` for [`SUMS`].
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
                concat!($instruction, " tmm2, tmm5, tmm6"),
                $($ask),*
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

/// i8, summed in i32.
#[derive(Clone, Copy)]
pub struct Integers;

product!(Floats, 32, "tdpbf16ps", |p| _mm512_loadu_ps(p.cast()));
product!(Integers, 64, "tdpbssd", |p| _mm512_cvtepi32_ps(_mm512_loadu_si512(p.cast())));

/// Sixteen vectors with rows and columns exchanged.
///
/// # Safety
/// AVX-512 F and DQ, AVX2.
#[inline(always)]
pub unsafe fn turned(rows: [__m512; ROWS]) -> [__m512; ROWS] {
    // SAFETY: by contract.
    unsafe {
        let mut out = rows;
        for half in 0..2 {
            let mut quarters = [[_mm256_setzero_ps(); 8]; 2];
            for side in 0..2 {
                for i in 0..8 {
                    let row = rows[8 * side + i];
                    quarters[side][i] = if half == 0 {
                        _mm512_castps512_ps256(row)
                    } else {
                        _mm512_extractf32x8_ps::<1>(row)
                    };
                }
                quarters[side] = Avx2::transposed(quarters[side]);
            }
            for i in 0..8 {
                let low = _mm512_castps256_ps512(quarters[0][i]);
                out[8 * half + i] = _mm512_insertf32x8::<1>(low, quarters[1][i]);
            }
        }
        out
    }
}

/// Four tiles of weights times four of x, apart: `[16 weight rows, 16 rows of x]` in i32, four times.
///
/// With steps of 32 bytes, weights of 16 rows of 32 bytes follow each other; with steps of 16 two of them are the
/// halves of such rows.
///
/// # Safety
/// AMX-INT8; `tiles` are configured on this thread. `weights` and `x` are valid for four steps, `sums` for [`SUMS`].
#[inline(always)]
pub unsafe fn four<const BYTES: u16>(_: &Tiles<BYTES>, weights: *const u8, x: *const u8, sums: *mut u8) {
    macro_rules! four {
        ($w0:literal, $w1:literal, $w2:literal, $w3:literal, $x:literal) => {
            asm!(
                concat!("tileloadd tmm4, [{w} + {row} + ", $w0, "]"),
                "tileloadd tmm6, [{x} + {stride}]",
                "tilezero tmm0",
                "tdpbssd tmm0, tmm4, tmm6",
                concat!("tileloadd tmm5, [{w} + {row} + ", $w1, "]"),
                concat!("tileloadd tmm7, [{x} + {stride} + ", $x, "]"),
                "tilezero tmm1",
                "tdpbssd tmm1, tmm5, tmm7",
                concat!("tileloadd tmm4, [{w} + {row} + ", $w2, "]"),
                concat!("tileloadd tmm6, [{x} + {stride} + 2*", $x, "]"),
                "tilezero tmm2",
                "tdpbssd tmm2, tmm4, tmm6",
                concat!("tileloadd tmm5, [{w} + {row} + ", $w3, "]"),
                concat!("tileloadd tmm7, [{x} + {stride} + 3*", $x, "]"),
                "tilezero tmm3",
                "tdpbssd tmm3, tmm5, tmm7",
                "tilestored [{sums} + {stride}], tmm0",
                "tilestored [{sums} + {stride} + {TILE}], tmm1",
                "tilestored [{sums} + {stride} + 2*{TILE}], tmm2",
                "tilestored [{sums} + {stride} + 3*{TILE}], tmm3",
                w = in(reg) weights,
                row = in(reg) 32_usize,
                x = in(reg) x,
                stride = in(reg) STEP,
                sums = in(reg) sums,
                TILE = const TILE,
                options(nostack, preserves_flags),
            )
        };
    }
    // SAFETY: by contract. Nothing but this block uses tiles between a load and a store.
    unsafe {
        match BYTES {
            32 => four!(0, 512, 1024, 1536, 512),
            _ => four!(0, 16, 512, 528, 256),
        }
    }
}
