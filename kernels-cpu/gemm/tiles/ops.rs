//! The ops that are products of blocks.

use super::x::X;
use super::{Output, UNIT, product, scratch};
use crate::isa::amx::{Floats, Integers};
use crate::pool::{Plan, split};
use crate::variants::with_float;
use kernels_core::{
    Backend, CpuFeatures, Ctx, DType, DTypeSet, F8E4M3, Formats, Requirement, RunError, bf16, kernel,
};
use kernels_ops::gemm::{Fp8ScaledMm, Int8ScaledMm, Linear};
use std::ops::Range;

/// Up to so many rows of x a product waits for the weights' memory, which vectors read as it comes.
const FEW_ROWS: usize = 6;

/// A kernel of the op, whose `x` and `weight` are `$number`s that blocks take as `$product`s; `$few` and `$scratch` are
/// the kernel for a few rows and its workspace.
macro_rules! tiled {
    ($name:ident, $variant:literal, $op:ident, $product:ident, $number:ident, $x:ident, $weight:ident, $formats:expr, ($enabled:literal, $features:expr), ($few:path, $scratch:expr), |$a:ident, $out:ident| $scaled:expr) => {
        mod $name {
            use super::*;

            fn plan(a: &$op<'_>, x: &X) -> Plan {
                // A tile's product is about so many operations of a vector's.
                Plan { units: a.$weight.dim(0).div_ceil(UNIT), work: x.rows.max(16) * a.$weight.layout().elements() / 16 }
            }

            fn workspace(a: &$op<'_>, threads: usize) -> usize {
                let x = X::new::<$product>(&a.$x, std::ptr::null_mut());
                let few = $scratch;
                x.map_or(0, |x| if x.rows <= FEW_ROWS { few(a, threads) } else { x.bytes() + threads * scratch(&x) })
            }

            /// # Safety
            /// The features of the spec's requirement, and [`X::lay`]'s contract.
            #[target_feature(enable = $enabled)]
            unsafe fn lay(a: &$op<'_>, x: &X, tiles: Range<usize>) {
                let Some(rows) = a.$x.rows() else { return };
                // SAFETY: passed on.
                unsafe { x.lay::<$product, $number>((a.$x.as_ptr(), rows), tiles) }
            }

            /// # Safety
            /// The features of the spec's requirement, and [`product`]'s contract.
            #[target_feature(enable = $enabled)]
            unsafe fn part($a: &$op<'_>, x: &X, units: Range<usize>, space: *mut u8) {
                let Some(rows) = $a.$weight.rows() else { return };
                with_float!($a.out.dtype(), O => {
                    let Some($out) = Output::<O>::of(&$a.out, $a.bias.as_ref()) else { return };
                    // SAFETY: passed on.
                    unsafe { product::<$product, $number, O>(x, ($a.$weight.as_ptr(), rows), units, $scaled, space) }
                })
            }

            /// # Safety
            /// The features of the spec's requirement, and checked arguments on the host.
            unsafe fn run(ctx: &Ctx, a: &$op<'_>) -> Result<(), RunError> {
                let Some(x) = X::new::<$product>(&a.$x, ctx.workspace().0) else { return Ok(()) };
                if x.rows <= FEW_ROWS {
                    // SAFETY: passed on; the requirement includes that kernel's.
                    return unsafe { $few(ctx, a) };
                }
                // SAFETY: passed on; tiles are handed out once each.
                split(x.plan(), ctx.threads, &|tiles, _| unsafe { lay(a, &x, tiles) });
                split(plan(a, &x), ctx.threads, &|units, thread| {
                    let space = x.block(0, 0).wrapping_add(x.bytes() + thread * scratch(&x));
                    // SAFETY: passed on; units are handed out once each, and each thread has its own scratch.
                    unsafe { part(a, &x, units, space) }
                });
                Ok(())
            }

            kernel!(unsafe {
                op: $op,
                backend: Backend::SIMD,
                variant: $variant,
                formats: $formats,
                run: run; workspace: workspace,
                requires: &[Requirement::cpu(CpuFeatures::AVX512_TIER.union($features))],
                // Several times as fast as the kernels of vectors, however much those require.
                priority: 1,
            });
        }
    };
}

const INT8: Formats = Formats::mixed(DTypeSet::FLOAT, DTypeSet::of(&[DType::I8]));

tiled!(
    linear,
    "amx",
    Linear,
    Floats,
    bf16,
    x,
    weight,
    Formats::mixed(DTypeSet::of(&[DType::BF16]), DTypeSet::of(&[DType::BF16])),
    (
        "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c",
        CpuFeatures::AVX512BF16.union(CpuFeatures::AMX_BF16)
    ),
    (crate::gemm::linear::avx512bf16::run, crate::gemm::linear::workspace),
    |a, out| out
);
tiled!(
    fp8_scaled_mm,
    "amx",
    Fp8ScaledMm,
    Floats,
    F8E4M3,
    a,
    b,
    Formats::mixed(DTypeSet::FLOAT, DTypeSet::of(&[DType::F8E4M3])),
    (
        "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c",
        CpuFeatures::AVX512BF16.union(CpuFeatures::AMX_BF16)
    ),
    (crate::gemm::fp8_scaled_mm::avx512bf16::run, crate::gemm::fp8_scaled_mm::workspace),
    |a, out| out.scaled(&a.scales_a, &a.scales_b)
);
tiled!(
    int8_scaled_mm,
    "amx",
    Int8ScaledMm,
    Integers,
    i8,
    a,
    b,
    INT8,
    (
        "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c",
        CpuFeatures::AVX512BF16.union(CpuFeatures::AVX512VNNI).union(CpuFeatures::AMX_INT8)
    ),
    (crate::gemm::int8_vnni::run, crate::gemm::int8_vnni::workspace),
    |a, out| out.scaled(&a.scales_a, &a.scales_b)
);
