//! Many rows of x: 16 weight rows by 16 rows of x, a group of weights that share a scale at a time, on AMX tiles or by
//! AVX-512 VNNI. The sums of a group are integers, exactly; scales are multiplied in as they come.

use super::Output;
use super::activations::Activations;
use super::columns::{X, lay};
use super::few512::{self, FEW};
use super::formats::{self, Format, OCTET};
use super::sixteen::{Multiplier, OCTETS, Sixteen};
use super::words::Words;
use crate::gemm::output::store_turned;
use crate::isa::amx::{ROWS, TILE, Tiles};
use crate::isa::{Avx512, Elem};
use crate::pool::{Plan, split};
use crate::variants::with_float;
use kernels_core::{Backend, CpuFeatures, Ctx, DTypeSet, Formats, Requirement, Rows, RunError, kernel};
use kernels_ops::gemm::LinearGguf;
use std::arch::x86_64::*;
use std::ops::Range;

fn workspace(a: &LinearGguf<'_>, threads: usize) -> usize {
    let Some(x) = Activations::new(&a.x, std::ptr::null_mut()) else { return 0 };
    if x.rows <= FEW {
        return few512::workspace(a);
    }
    Activations::bytes(&a.x) + X::new(&x, std::ptr::null_mut()).bytes() + threads * scratch(&x)
}

fn scratch(x: &Activations) -> usize {
    Sixteen::BYTES + x.rows.div_ceil(ROWS) * TILE
}

/// A kernel whose groups of `$format` are multiplied by `$multiplier`.
macro_rules! sixteens {
    ($name:ident, $variant:literal, $enabled:literal, $features:expr, $(($format:ident, $multiplier:ty))*) => {
        mod $name {
            use super::*;

            kernel!(unsafe {
                op: LinearGguf,
                backend: Backend::SIMD,
                variant: $variant,
                formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::GGUF),
                run: run; workspace: workspace,
                requires: &[Requirement::cpu(
                    CpuFeatures::AVX512_TIER.union(CpuFeatures::AVX512VNNI).union($features),
                )],
                // Two to four times as fast as the kernels over floats.
                priority: 1,
                quantises_activations: true,
            });

            /// # Safety
            /// The features of the spec's requirement, and checked arguments on the host.
            unsafe fn run(ctx: &Ctx, a: &LinearGguf<'_>) -> Result<(), RunError> {
                let Some(rounded) = Activations::new(&a.x, ctx.workspace().0) else { return Ok(()) };
                if rounded.rows <= FEW {
                    // SAFETY: passed on; the requirement includes that kernel's.
                    return unsafe { few512::run(ctx, a) };
                }
                let x = X::new(&rounded, ctx.workspace().0.wrapping_add(Activations::bytes(&a.x)));
                let laying = Plan { units: x.tiles, work: rounded.rows * rounded.cols };
                // SAFETY: passed on; tiles are handed out once each.
                split(laying, ctx.threads, &|tiles, _| unsafe { lay(a, &x, tiles) });
                let work = rounded.rows * a.weight.layout().elements() / 32;
                split(Plan { units: a.weight.dim(0).div_ceil(ROWS), work }, ctx.threads, &|units, thread| {
                    let space = x.end().wrapping_add(thread * scratch(&rounded));
                    // SAFETY: passed on; units are handed out once each, and each thread has its own scratch.
                    unsafe { part(a, &x, units, space) }
                });
                Ok(())
            }

            /// # Safety
            /// The features of the spec's requirement, checked arguments on the host, units that nobody else works on,
            /// and scratch.
            #[target_feature(enable = $enabled)]
            unsafe fn part(a: &LinearGguf<'_>, x: &X<'_>, units: Range<usize>, space: *mut u8) {
                let Some(rows) = a.weight.rows() else { return };
                match a.weight.dtype() {
                    $( kernels_core::DType::$format => with_float!(a.x.dtype(), O => {
                        let Some(out) = Output::<O>::of(&a.out, a.bias.as_ref()) else { return };
                        let weight = a.weight.as_ptr();
                        // SAFETY: passed on.
                        unsafe { typed::<formats::$format, O, $multiplier>(weight, rows, x, units, space, out) }
                    }), )*
                    _ => {}
                }
            }
        }
    };
}
sixteens!(
    amx,
    "amx-int8",
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c",
    CpuFeatures::AMX_INT8,
    (Q4_0, Tiles<32>)(Q4_1, Tiles<32>)(Q5_0, Tiles<32>)(Q5_1, Tiles<32>)(Q8_0, Tiles<32>)(Q4K, Tiles<32>)(Q5K, Tiles<32>)(Q6K, Tiles<16>)
);
sixteens!(
    words,
    "avx512vnni-int8",
    "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c",
    CpuFeatures::AVX512VNNI,
    (Q4_0, Words)(Q4_1, Words)(Q5_0, Words)(Q5_1, Words)(Q8_0, Words)(Q4K, Words)(Q5K, Words)(Q6K, Words)
);

/// # Safety
/// The multiplier's features, checked arguments on the host, units that nobody else works on, and scratch.
#[inline(always)]
unsafe fn typed<F: Format, O: Elem, M: Multiplier<F>>(
    weight: *const u8,
    rows: Rows,
    x: &X<'_>,
    units: Range<usize>,
    space: *mut u8,
    out: Output<O>,
) {
    let sixteen = Sixteen::new(space);
    let sums = |tile: usize| space.wrapping_add(Sixteen::BYTES + tile * TILE).cast::<f32>();
    // SAFETY: by contract; every row, group and sum is inside what it belongs to.
    unsafe {
        let multiplier = M::ready();
        for n in units.map(|u| u * ROWS) {
            let mut octet = 0;
            while octet < x.groups / OCTET {
                let octets = OCTETS.min(x.groups / OCTET - octet);
                sixteen.fill::<F>(M::UNSIGNED, weight, rows, n, octet..octet + octets);
                for tile in 0..x.tiles {
                    multiplier.times(sixteen, x, tile, octet * OCTET, octets * OCTET, sums(tile));
                }
                octet += octets;
            }
            let columns = ROWS.min(rows.rows - n);
            for tile in 0..x.tiles {
                let mut v = [_mm512_setzero_ps(); ROWS];
                // Without a group nothing was summed.
                if x.groups > 0 {
                    for i in 0..ROWS {
                        v[i] = _mm512_loadu_ps(sums(tile).add(i * ROWS));
                    }
                }
                let rows = ROWS.min(x.from.rows - tile * ROWS);
                store_turned::<Avx512, O>(out, (tile * ROWS, rows), (n, columns), v);
            }
        }
    }
}
