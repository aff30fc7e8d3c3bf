//! The ops on tiles.

use super::{OnTiles, fits};
use crate::attention::{decode, prefill};
use crate::isa::Avx512Bf16;
use crate::isa::amx::{Floats, Product, Tiles};
use crate::pool::split;
use kernels_core::{
    Backend, CpuFeatures, Ctx, DType, DTypeSet, Formats, Requirement, RunError, bf16, kernel,
};
use kernels_ops::attention::{Decode, Prefill};
use std::ops::Range;

const FORMATS: Formats = Formats::mixed(DTypeSet::of(&[DType::BF16]), DTypeSet::of(&[DType::BF16]));

/// Kernels of both ops, whose blocks are multiplied by `$ready`.
macro_rules! tiled {
    ($name:ident, $variant:literal, $Multiply:ty, $ready:expr, $features:expr) => {
        mod $name {
            use super::*;

            const REQUIRES: &[Requirement] =
                &[Requirement::cpu(CpuFeatures::AVX512_TIER.union(CpuFeatures::AVX512BF16).union($features))];

            /// # Safety
            /// The features of [`REQUIRES`], and the contract of [`decode::add_up`].
            #[target_feature(enable = "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
            unsafe fn add_up(ctx: &Ctx, a: &Decode<'_>, units: Range<usize>, thread: usize) {
                // SAFETY: passed on; this thread has no other tiles.
                unsafe { decode::add_up::<Avx512Bf16, bf16, _>(&OnTiles($ready), ctx, a, units, thread) }
            }

            /// # Safety
            /// The features of [`REQUIRES`], and the contract of [`decode::part`].
            #[target_feature(enable = "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
            unsafe fn put_together(ctx: &Ctx, a: &Decode<'_>, units: Range<usize>, thread: usize) {
                // SAFETY: passed on.
                unsafe { decode::part::<Avx512Bf16>(ctx, a, units, thread) }
            }

            /// # Safety
            /// The features of [`REQUIRES`], and the contract of [`prefill::blocks`].
            #[target_feature(enable = "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
            unsafe fn blocks(ctx: &Ctx, a: &Prefill<'_>, units: Range<usize>, thread: usize) {
                // SAFETY: passed on; this thread has no other tiles.
                unsafe { prefill::blocks::<Avx512Bf16, bf16, _>(&OnTiles($ready), ctx, a, units, thread) }
            }

            /// # Safety
            /// The features of [`REQUIRES`], and checked arguments on the host.
            unsafe fn run_decode(ctx: &Ctx, a: &Decode<'_>) -> Result<(), RunError> {
                // SAFETY: passed on; units are handed out once each.
                unsafe {
                    if !fits(&a.q) {
                        return decode::avx512bf16::run(ctx, a);
                    }
                    split(decode::first(a), ctx.threads, &|units, thread| add_up(ctx, a, units, thread));
                    split(decode::plan(a), ctx.threads, &|units, thread| put_together(ctx, a, units, thread));
                }
                Ok(())
            }

            /// # Safety
            /// The features of [`REQUIRES`], and checked arguments on the host.
            unsafe fn run_prefill(ctx: &Ctx, a: &Prefill<'_>) -> Result<(), RunError> {
                // SAFETY: passed on; units are handed out once each.
                unsafe {
                    if !fits(&a.q) {
                        return prefill::avx512bf16::run(ctx, a);
                    }
                    prefill::prepare::<Avx512Bf16>(ctx, a, 0..1, 0);
                    let plan = prefill::plan_for::<Avx512Bf16, bf16, OnTiles<$Multiply>>(a);
                    split(plan, ctx.threads, &|units, thread| blocks(ctx, a, units, thread));
                }
                Ok(())
            }

            fn decode_bytes(a: &Decode<'_>, threads: usize) -> usize {
                match fits(&a.q) {
                    true => decode::bytes::<Avx512Bf16, bf16, OnTiles<$Multiply>>(a, threads),
                    false => decode::workspace(a, threads),
                }
            }

            fn prefill_bytes(a: &Prefill<'_>, threads: usize) -> usize {
                match fits(&a.q) {
                    true => prefill::bytes::<Avx512Bf16, bf16, OnTiles<$Multiply>>(a, threads),
                    false => prefill::workspace(a, threads),
                }
            }

            mod decode_kernel {
                use super::*;
                kernel!(unsafe {
                    op: Decode,
                    backend: Backend::SIMD,
                    variant: $variant,
                    formats: FORMATS,
                    run: run_decode; workspace: decode_bytes,
                    requires: REQUIRES,
                    experimental: true,
                });
            }

            mod prefill_kernel {
                use super::*;
                kernel!(unsafe {
                    op: Prefill,
                    backend: Backend::SIMD,
                    variant: $variant,
                    formats: FORMATS,
                    run: run_prefill; workspace: prefill_bytes,
                    requires: REQUIRES,
                    experimental: true,
                });
            }
        }
    };
}

// Its products have run on the processor, as those of `gemm.linear`; these kernels have not yet.
tiled!(on_amx, "amx", Tiles, Floats::ready(), CpuFeatures::AMX_BF16);

#[cfg(test)]
tiled!(
    emulated,
    "emulated-amx",
    crate::attention::tiles::emulated::Emulated,
    crate::attention::tiles::emulated::Emulated,
    CpuFeatures::AVX512BF16
);
