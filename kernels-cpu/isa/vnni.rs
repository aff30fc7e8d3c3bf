//! Products of the blocks that tiles take ([`super::amx`]), by AVX-512 VNNI, whose instruction takes unsigned bytes with
//! signed ones: x is moved up by 128, and 128 times the sum of the weights taken off.

use super::amx::{Ahead, Block, Product, ROWS, STEP, STEPS, TILE};
use super::{Avx512, prefetch};
use std::arch::x86_64::*;

/// i8, summed in i32.
#[derive(Clone, Copy)]
pub struct Bytes512;

/// Weight rows whose sums are in registers, two vectors each.
const HERE: usize = 8;

impl Product for Bytes512 {
    const NUMBERS: usize = 64;
    type Ready = ();
    type Store = Avx512;

    #[inline(always)]
    unsafe fn ready() {}

    #[inline(always)]
    unsafe fn two((): &(), block: Block) {
        // SAFETY: passed on.
        unsafe { multiply::<2>(block) }
    }

    #[inline(always)]
    unsafe fn two_ahead((): &(), block: Block, ahead: Ahead) {
        ask(block.steps, ahead);
        // SAFETY: passed on.
        unsafe { multiply::<2>(block) }
    }

    #[inline(always)]
    unsafe fn one_ahead((): &(), block: Block, ahead: Ahead) {
        ask(block.steps, ahead);
        // SAFETY: passed on.
        unsafe { multiply::<1>(block) }
    }

    #[inline(always)]
    unsafe fn sums(p: *const u8) -> __m512 {
        // SAFETY: by contract.
        unsafe { _mm512_cvtepi32_ps(_mm512_loadu_si512(p.cast())) }
    }
}

#[inline(always)]
fn ask(steps: usize, ahead: Ahead) {
    for row in 0..2 * steps {
        for line in 0..STEPS {
            prefetch(ahead.row.wrapping_add(row * ahead.stride + line * STEP));
        }
    }
}

/// The first `X` tiles of x.
///
/// # Safety
/// AVX-512 F, BW and VNNI, and [`Product`]'s contract.
#[inline(always)]
unsafe fn multiply<const X: usize>(block: Block) {
    let Block { weights, x, steps, sums, add } = block;
    // SAFETY: every offset is inside its tile.
    unsafe {
        let up = _mm512_set1_epi8(-128);
        for first in (0..2 * ROWS).step_by(HERE) {
            let (tile, row) = (first / ROWS, first % ROWS);
            let weights = weights.add(tile * STEPS * TILE + row * STEP);
            let sums = sums.add(2 * tile * TILE + row * 64);
            let mut acc = [[_mm512_setzero_si512(); X]; HERE];
            for i in 0..HERE {
                let mut moved = _mm512_setzero_si512();
                for step in 0..steps {
                    let w = _mm512_loadu_si512(weights.add(step * TILE + i * STEP).cast());
                    moved = _mm512_dpbusd_epi32(moved, up, w);
                }
                let moved = _mm512_set1_epi32(_mm512_reduce_add_epi32(moved));
                for j in 0..X {
                    let before = match add {
                        true => _mm512_loadu_si512(sums.add(j * TILE + i * 64).cast()),
                        false => _mm512_setzero_si512(),
                    };
                    acc[i][j] = _mm512_sub_epi32(before, moved);
                }
            }
            for word in 0..steps * ROWS {
                let mut columns = [up; X];
                for j in 0..X {
                    let at = x.add(j * STEPS * TILE + word * STEP);
                    columns[j] = _mm512_xor_si512(_mm512_loadu_si512(at.cast()), up);
                }
                let weights = weights.add(word / ROWS * TILE + word % ROWS * 4);
                for i in 0..HERE {
                    let four = _mm512_set1_epi32(weights.add(i * STEP).cast::<i32>().read_unaligned());
                    for j in 0..X {
                        acc[i][j] = _mm512_dpbusd_epi32(acc[i][j], columns[j], four);
                    }
                }
            }
            for i in 0..HERE {
                for j in 0..X {
                    _mm512_storeu_si512(sums.add(j * TILE + i * 64).cast(), acc[i][j]);
                }
            }
        }
    }
}
