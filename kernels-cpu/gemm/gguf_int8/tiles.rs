//! Many rows of x on AMX tiles: 16 weight rows by 16 rows of x, a group of weights that share a scale at a time.
//! The sums of a group are integers, exactly; scales are multiplied in as they come.

use super::activations::Activations;
use super::formats::{Format, OCTET, Scales};
use super::octets::Rest;
use super::vnni;
use super::{FEW, Output};
use crate::isa::amx::{ROWS, SUMS, TILE, Tiles, four, turned};
use crate::isa::{Avx2, Avx512, Elem, Isa, Square, prefetch};
use crate::pool::{Plan, split};
use crate::quantization::rows::row_bytes;
use crate::variants::with_float;
use kernels_core::{Backend, CpuFeatures, Ctx, DTypeSet, Formats, Requirement, Rows, RunError, kernel};
use kernels_ops::gemm::LinearGguf;
use std::arch::x86_64::*;
use std::ops::Range;

kernel!(unsafe {
    op: LinearGguf,
    backend: Backend::SIMD,
    variant: "amx-int8",
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::GGUF),
    run: run; workspace: workspace,
    requires: &[Requirement::cpu(
        CpuFeatures::AVX512_TIER.union(CpuFeatures::AVX512VNNI).union(CpuFeatures::AMX_INT8),
    )],
    priority: 1,
    quantises_activations: true,
});

/// Octets of weights that are unpacked together: with their scales they stay in L1.
const OCTETS: usize = 4;

/// Bytes of a group of 32 numbers of 16 rows.
const GROUP: usize = 32 * ROWS;

/// Scratch of a thread before the sums: of groups the bytes, scales (two for each group) and minima, and products twice.
const FIXED: usize = OCTETS * OCTET * (GROUP + 3 * 64) + 2 * SUMS;

fn workspace(a: &LinearGguf<'_>, threads: usize) -> usize {
    let Some(x) = Activations::new(&a.x, std::ptr::null_mut()) else { return 0 };
    if x.rows <= FEW {
        return super::workspace(a, threads);
    }
    Activations::bytes(&a.x) + X::new(&x, std::ptr::null_mut()).bytes() + threads * scratch(&x)
}

fn scratch(x: &Activations) -> usize {
    FIXED + x.rows.div_ceil(ROWS) * TILE
}

/// # Safety
/// The features of the spec's requirement, and checked arguments on the host.
unsafe fn run(ctx: &Ctx, a: &LinearGguf<'_>) -> Result<(), RunError> {
    let Some(rounded) = Activations::new(&a.x, ctx.workspace().0) else { return Ok(()) };
    if rounded.rows <= FEW {
        // SAFETY: passed on; the requirement includes that kernel's.
        return unsafe { vnni::run(ctx, a) };
    }
    let x = X::new(&rounded, ctx.workspace().0.wrapping_add(Activations::bytes(&a.x)));
    let laying = Plan { units: x.tiles, work: rounded.rows * rounded.cols };
    // SAFETY: passed on; tiles are handed out once each.
    split(laying, ctx.threads, &|tiles, _| unsafe { lay(a, &x, tiles) });
    let work = rounded.rows * a.weight.layout().elements() / 32;
    split(Plan { units: a.weight.dim(0).div_ceil(ROWS), work }, ctx.threads, &|units, thread| {
        let space = x.ptr.wrapping_add(x.bytes() + thread * scratch(&rounded));
        // SAFETY: passed on; units are handed out once each, and each thread has its own scratch.
        unsafe { part(a, &x, units, space) }
    });
    Ok(())
}

/// Rounded rows of x by columns, in tiles of 16 rows: for each group its bytes in words of 4, scales, and sums times
/// scales.
#[derive(Clone, Copy)]
struct X<'x> {
    from: &'x Activations,
    tiles: usize,
    groups: usize,
    ptr: *mut u8,
}

// SAFETY: the call's own scratch, of which each thread writes its part.
unsafe impl Sync for X<'_> {}

impl X<'_> {
    fn new(from: &Activations, ptr: *mut u8) -> X<'_> {
        X { from, tiles: from.rows.div_ceil(ROWS), groups: (from.cols / 32).next_multiple_of(OCTET), ptr }
    }

    fn bytes(&self) -> usize {
        self.tiles * self.groups * (GROUP + 2 * 64)
    }

    fn q(&self, tile: usize, group: usize) -> *mut u8 {
        self.ptr.wrapping_add((tile * self.groups + group) * GROUP)
    }

    /// Scales of a group, and sums times them.
    fn scales(&self, tile: usize, group: usize) -> [*mut f32; 2] {
        let at = self.ptr.wrapping_add(self.tiles * self.groups * GROUP).cast::<f32>();
        [0, 1].map(|i| at.wrapping_add(((i * self.tiles + tile) * self.groups + group) * ROWS))
    }
}

/// Rounds and lays tiles; rows past the last are zeros.
///
/// # Safety
/// The features of the spec's requirement, checked arguments on the host, tiles that nobody else works on.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn lay(a: &LinearGguf<'_>, x: &X<'_>, tiles: Range<usize>) {
    // SAFETY: passed on; every row is inside x, and has its place in the scratch.
    unsafe {
        for tile in tiles {
            let rows = tile * ROWS..x.from.rows.min((tile + 1) * ROWS);
            x.from.round(&a.x, rows.clone());
            for pair in 0..x.groups / 2 {
                let mut words = [_mm512_setzero_ps(); ROWS];
                for m in rows.clone() {
                    words[m - rows.start] = _mm512_loadu_ps(x.from.q(m).add(64 * pair).cast());
                }
                let words = turned(words);
                for i in 0..ROWS {
                    _mm512_storeu_ps(x.q(tile, 2 * pair).add(64 * i).cast(), words[i]);
                }
            }
            for group in 0..x.groups {
                let to = x.scales(tile, group);
                for i in 0..ROWS {
                    let m = rows.start + i;
                    let (d, s) = match m < rows.end {
                        true => (*x.from.d(m).add(group), *x.from.s(m).add(group)),
                        false => (0.0, 0.0),
                    };
                    to[0].add(i).write(d);
                    to[1].add(i).write(s);
                }
            }
        }
    }
}

/// # Safety
/// The features of the spec's requirement, checked arguments on the host, units that nobody else works on, and
/// scratch.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn part(a: &LinearGguf<'_>, x: &X<'_>, units: Range<usize>, space: *mut u8) {
    let Some(rows) = a.weight.rows() else { return };
    macro_rules! formats {
        ($(($format:ident, $bytes:literal))*) => {
            match a.weight.dtype() {
                $( kernels_core::DType::$format => with_float!(a.x.dtype(), O => {
                    let Some(out) = Output::<O>::of(&a.out, a.bias.as_ref()) else { return };
                    // SAFETY: passed on.
                    unsafe { typed::<super::formats::$format, O, $bytes>(a.weight.as_ptr(), rows, x, units, space, out) }
                }), )*
                _ => {}
            }
        };
    }
    formats!((Q4_0, 32)(Q4_1, 32)(Q5_0, 32)(Q5_1, 32)(Q8_0, 32)(Q4K, 32)(Q5K, 32)(Q6K, 16));
}

/// # Safety
/// As for [`part`].
#[inline(always)]
unsafe fn typed<F: Format, O: Elem, const BYTES: u16>(
    weight: *const u8,
    rows: Rows,
    x: &X<'_>,
    units: Range<usize>,
    space: *mut u8,
    out: Output<O>,
) {
    let panel = Panel::new(space);
    let sums = |tile: usize| space.wrapping_add(FIXED + tile * TILE).cast::<f32>();
    // SAFETY: by contract; every row, group and sum is inside what it belongs to.
    unsafe {
        let tiles = Tiles::<BYTES>::configured();
        for n in units.map(|u| u * ROWS) {
            let mut octet = 0;
            while octet < x.groups / OCTET {
                let octets = OCTETS.min(x.groups / OCTET - octet);
                panel.fill::<F>(weight, rows, n, octet..octet + octets);
                for tile in 0..x.tiles {
                    panel.times::<F, BYTES>(&tiles, x, tile, octet * OCTET, octets * OCTET, sums(tile));
                }
                octet += octets;
            }
            let columns = ROWS.min(rows.rows - n);
            for tile in 0..x.tiles {
                let mut v = [_mm512_setzero_ps(); ROWS];
                for i in 0..ROWS {
                    v[i] = _mm512_loadu_ps(sums(tile).add(i * ROWS));
                }
                let v = turned(v);
                for i in 0..ROWS.min(x.from.rows - tile * ROWS) {
                    let dots = if x.groups == 0 { _mm512_setzero_ps() } else { v[i] };
                    out.store::<Avx512>(tile * ROWS + i, n, columns, dots);
                }
            }
        }
    }
}

/// Groups of 16 weight rows: bytes row by row, and for each group (or half) 16 scales, and 16 minima.
#[derive(Clone, Copy)]
struct Panel {
    q: *mut u8,
    d: *mut f32,
    m: *mut f32,
    products: *mut u8,
}

impl Panel {
    fn new(space: *mut u8) -> Panel {
        let groups = OCTETS * OCTET;
        let d = space.wrapping_add(groups * GROUP);
        let m = d.wrapping_add(groups * 2 * 64);
        Panel { q: space, d: d.cast(), m: m.cast(), products: m.wrapping_add(groups * 64) }
    }

    /// Unpacks octets of weight rows from `n` on; past the last the last again.
    ///
    /// # Safety
    /// As for [`part`].
    #[inline(always)]
    unsafe fn fill<F: Format>(self, weight: *const u8, rows: Rows, n: usize, octets: Range<usize>) {
        // SAFETY: every octet is inside its row, or a copy of the row's rest.
        unsafe {
            for octet in octets.clone() {
                let group = (octet - octets.start) * OCTET;
                let (mut scales, mut rest) = ([[_mm256_setzero_ps(); ROWS]; 2], [_mm256_setzero_ps(); ROWS]);
                for r in 0..ROWS {
                    let row = weight.add((n + r).min(rows.rows - 1) * row_bytes(F::DTYPE, rows.stride));
                    let copy;
                    let at = if (octet + 1) * 256 <= rows.cols {
                        row.add(octet * F::BYTES)
                    } else {
                        copy = Rest::of::<F>(row, rows.cols);
                        copy.as_ptr()
                    };
                    let Scales { d, m } = F::scales(at);
                    (scales[0][r], scales[1][r], rest[r]) = (d[0], d[1], m);
                    for g in 0..OCTET {
                        let to = self.q.add((group + g) * GROUP + 32 * r);
                        _mm256_storeu_si256(to.cast(), F::bytes(at, g));
                    }
                }
                let halves = if F::HALVES { 2 } else { 1 };
                for h in 0..halves {
                    store(self.d.add((group * halves + h * OCTET) * ROWS), scales[h]);
                }
                if !F::SIGNED {
                    store(self.m.add(group * ROWS), rest);
                }
            }
        }
    }

    /// Adds the products of `groups` groups with a tile of x to `sums`, or begins them.
    ///
    /// # Safety
    /// As for [`part`].
    #[inline(always)]
    unsafe fn times<F: Format, const BYTES: u16>(
        self,
        tiles: &Tiles<BYTES>,
        x: &X<'_>,
        tile: usize,
        first: usize,
        groups: usize,
        sums: *mut f32,
    ) {
        let each = BYTES as usize;
        // SAFETY: by contract.
        unsafe {
            let mut acc = [_mm512_setzero_ps(); ROWS];
            if first > 0 {
                for i in 0..ROWS {
                    acc[i] = _mm512_loadu_ps(sums.add(i * ROWS));
                }
            }
            let multiply = |step: usize| {
                let to = self.products.wrapping_add(step / (4 * each) % 2 * SUMS);
                let group = step / 32;
                four(tiles, self.q.add(group * GROUP), x.q(tile, first + group), to);
                to.cast_const()
            };
            let mut products = multiply(0);
            for step in (0..groups * 32).step_by(4 * each) {
                // What tiles store can be loaded only some time after it.
                let next = step + 4 * each;
                let ready = if next < groups * 32 { multiply(next) } else { products };
                let here = std::mem::replace(&mut products, ready);
                let soon = x.q(tile, first + (step + 2 * 4 * each) / 32);
                for line in 0..each {
                    prefetch(soon.wrapping_add(64 * line));
                }
                for i in 0..4 {
                    let group = (step + i * each) / 32;
                    let [dx, sx] = x.scales(tile, first + group).map(|p| _mm512_loadu_ps(p));
                    let d = self.d.add((step / each + i) * ROWS);
                    for r in 0..ROWS {
                        let product = _mm512_loadu_si512(here.add(i * TILE + r * 64).cast());
                        let scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(product), _mm512_set1_ps(*d.add(r)));
                        acc[r] = _mm512_fmadd_ps(scaled, dx, acc[r]);
                    }
                    if !F::SIGNED {
                        let m = self.m.add(group * ROWS);
                        for r in 0..ROWS {
                            acc[r] = _mm512_fmadd_ps(_mm512_set1_ps(*m.add(r)), sx, acc[r]);
                        }
                    }
                }
            }
            for i in 0..ROWS {
                _mm512_storeu_ps(sums.add(i * ROWS), acc[i]);
            }
        }
    }
}

/// Eight scales of each of 16 rows as, for each scale, those of the rows.
///
/// # Safety
/// AVX2; `out` valid for 128 numbers.
#[inline(always)]
unsafe fn store(out: *mut f32, rows: [__m256; ROWS]) {
    // SAFETY: by contract.
    unsafe {
        for half in 0..2 {
            let mut eight = [_mm256_setzero_ps(); 8];
            eight.copy_from_slice(&rows[8 * half..8 * half + 8]);
            let turned = Avx2::transposed(eight);
            for i in 0..8 {
                Avx2::store_f32(out.add(i * ROWS + 8 * half), turned[i]);
            }
        }
    }
}
