//! Sixteen weight rows by sixteen rows of x by AVX-512 VNNI: a lane is a row of x, and four weights of a row are in all
//! lanes.

use super::columns::{GROUP, X};
use super::formats::Format;
use super::sixteen::{Multiplier, Sixteen};
use crate::isa::amx::ROWS;
use std::arch::x86_64::*;

/// Weight rows whose sums are in registers, as integers of a group and as floats of all.
const HERE: usize = 8;

/// Words of a group.
const WORDS: usize = 8;

pub struct Words;

impl<F: Format> Multiplier<F> for Words {
    const UNSIGNED: bool = true;

    #[inline(always)]
    unsafe fn ready() -> Self {
        Words
    }

    #[inline(always)]
    unsafe fn times(
        &self,
        weights: Sixteen,
        x: &X<'_>,
        tile: usize,
        first: usize,
        groups: usize,
        sums: *mut f32,
    ) {
        let parts = if F::HALVES { 2 } else { 1 };
        // SAFETY: by contract.
        unsafe {
            for from in (0..ROWS).step_by(HERE) {
                let mut acc = [_mm512_setzero_ps(); HERE];
                if first > 0 {
                    for i in 0..HERE {
                        acc[i] = _mm512_loadu_ps(sums.add((from + i) * ROWS));
                    }
                }
                for group in 0..groups {
                    let q = weights.q.add(group * GROUP + 32 * from);
                    let columns = x.q(tile, first + group);
                    let [dx, sx] = x.scales(tile, first + group).map(|p| _mm512_loadu_ps(p));
                    for part in 0..parts {
                        // Signed weights were moved up by 128: so often the sum of x is too much.
                        let (mut sum, mut much) = ([_mm512_setzero_si512(); HERE], _mm512_setzero_si512());
                        for word in part * WORDS / parts..(part + 1) * WORDS / parts {
                            let column = _mm512_loadu_si512(columns.add(64 * word).cast());
                            if F::SIGNED {
                                much = _mm512_dpbusd_epi32(much, _mm512_set1_epi8(-128), column);
                            }
                            for i in 0..HERE {
                                let four = q.add(32 * i + 4 * word).cast::<i32>().read_unaligned();
                                sum[i] = _mm512_dpbusd_epi32(sum[i], _mm512_set1_epi32(four), column);
                            }
                        }
                        let d = weights.d.add((parts * group + part) * ROWS + from);
                        for i in 0..HERE {
                            let sum = if F::SIGNED { _mm512_sub_epi32(sum[i], much) } else { sum[i] };
                            let scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(*d.add(i)));
                            acc[i] = _mm512_fmadd_ps(scaled, dx, acc[i]);
                        }
                    }
                    if !F::SIGNED {
                        let m = weights.m.add(group * ROWS + from);
                        for i in 0..HERE {
                            acc[i] = _mm512_fmadd_ps(_mm512_set1_ps(*m.add(i)), sx, acc[i]);
                        }
                    }
                }
                for i in 0..HERE {
                    _mm512_storeu_ps(sums.add((from + i) * ROWS), acc[i]);
                }
            }
        }
    }
}
