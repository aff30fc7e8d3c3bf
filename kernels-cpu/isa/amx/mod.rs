//! AMX: registers of 16 rows of 64 bytes, and products of two of them.
//!
//! The compiler knows nothing of what is in them, so a product from its first load to its last store is one block of
//! instructions. `tdpbf16ps` and `tdpbssd` take rows of weights as they lie in memory, but x by columns, in words of
//! 4 bytes (Intel SDM, volume 2).

mod four;
mod product;

pub use four::four;
pub use product::{Ahead, Block, Floats, Integers, Product};

use super::{Avx2, Square};
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
