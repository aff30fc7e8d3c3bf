//! One algorithm, compiled for each instruction set, registered with the requirement that goes with it.

/// Registers `part::<S>` for AVX-512 (with and without bf16), AVX2 and the baseline:
/// `unsafe fn part<S: Isa>(ctx: &Ctx, args: &Op<'_>, units: Range<usize>, thread: usize)`, split over the
/// units of `plan: fn(&Op<'_>) -> Plan`. With `prepare: (first, prepare)`, `prepare::<S>(ctx, args, units, thread)` runs
/// before them, split over the units of `first: fn(&Op<'_>) -> Plan`; with `workspace`, `workspace(args, threads)` bytes of scratch are there for both.
macro_rules! variants {
    (unsafe { op: $op:ident, formats: $formats:expr, plan: $plan:ident, part: $part:ident $(, prepare: ($first:ident, $prepare:ident))? $(, workspace: $workspace:ident)? $(, prepack: $prepack:ident)? $(,)? }) => {
        #[cfg(target_arch = "x86_64")]
        $crate::variants::variants!(@one $op, $formats, $plan, $part, ($($first, $prepare)?), ($($workspace)?), ($($prepack)?), avx512bf16, Avx512Bf16,
            [#[target_feature(enable = "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]],
            &[::kernels_core::Requirement::cpu(
                ::kernels_core::CpuFeatures::AVX512_TIER.union(::kernels_core::CpuFeatures::AVX512BF16),
            )]);
        #[cfg(target_arch = "x86_64")]
        $crate::variants::variants!(@one $op, $formats, $plan, $part, ($($first, $prepare)?), ($($workspace)?), ($($prepack)?), avx512, Avx512,
            [#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]],
            &[::kernels_core::Requirement::cpu(::kernels_core::CpuFeatures::AVX512_TIER)]);
        #[cfg(target_arch = "x86_64")]
        $crate::variants::variants!(@one $op, $formats, $plan, $part, ($($first, $prepare)?), ($($workspace)?), ($($prepack)?), avx2, Avx2,
            [#[target_feature(enable = "avx2,fma,f16c")]],
            &[::kernels_core::Requirement::cpu(::kernels_core::CpuFeatures::AVX2_TIER)]);
        $crate::variants::variants!(@one $op, $formats, $plan, $part, ($($first, $prepare)?), ($($workspace)?), ($($prepack)?), portable, Portable,
            [], &[::kernels_core::Requirement::any(::kernels_core::DeviceKind::CPU)]);
    };
    (@one $op:ident, $formats:expr, $plan:ident, $part:ident, ($($first:ident, $prepare:ident)?), ($($workspace:ident)?), ($($prepack:ident)?), $name:ident, $isa:ident,
     [$(#[$feature:meta])?], $requires:expr) => {
        pub(crate) mod $name {
            use super::{$op, $part, $plan $(, $first, $prepare)? $(, $workspace)? $(, $prepack)?};
            use ::kernels_core::{DTypeSet, Formats};

            /// # Safety
            /// The processor has the features that the spec requires, and `$part`'s own contract.
            $(#[$feature])?
            unsafe fn compiled(ctx: &::kernels_core::Ctx, a: &$op<'_>, units: std::ops::Range<usize>, thread: usize) {
                // SAFETY: passed on.
                unsafe { $part::<$crate::isa::$isa>(ctx, a, units, thread) }
            }

            /// # Safety
            /// As for `compiled`.
            pub(crate) unsafe fn run(ctx: &::kernels_core::Ctx, a: &$op<'_>) -> Result<(), ::kernels_core::RunError> {
                $crate::variants::variants!(@prepare ctx, a, $isa, [$(#[$feature])?], $op, $($first, $prepare)?);
                // SAFETY: passed on; units are handed out once each.
                $crate::pool::split($plan(a), ctx.threads, &|units, thread| unsafe { compiled(ctx, a, units, thread) });
                Ok(())
            }

            ::kernels_core::kernel!(unsafe {
                op: $op,
                backend: ::kernels_core::Backend::SIMD,
                variant: stringify!($name),
                formats: $formats,
                run: run $(; workspace: $workspace)?,
                requires: $requires,
                $(prepack: Some({
                    /// # Safety
                    /// As for `run`; a weight that the op takes.
                    unsafe fn packed(
                        _: &::kernels_core::Ctx,
                        weight: &::kernels_core::View<'_>,
                    ) -> Result<::kernels_core::Tensor, ::kernels_core::Error> {
                        // SAFETY: passed on.
                        unsafe { $prepack::<$crate::isa::$isa>(weight) }
                    }
                    packed
                }),)?
            });
        }
    };
    (@prepare $ctx:ident, $a:ident, $isa:ident, [$(#[$feature:meta])?], $op:ident,) => {};
    (@prepare $ctx:ident, $a:ident, $isa:ident, [$(#[$feature:meta])?], $op:ident, $first:ident, $prepare:ident) => {
        /// # Safety
        /// As for `run`.
        $(#[$feature])?
        unsafe fn before(ctx: &::kernels_core::Ctx, a: &$op<'_>, units: std::ops::Range<usize>, thread: usize) {
            // SAFETY: passed on.
            unsafe { $prepare::<$crate::isa::$isa>(ctx, a, units, thread) }
        }
        // SAFETY: passed on; units are handed out once each.
        $crate::pool::split($first($a), $ctx.threads, &|units, thread| unsafe { before($ctx, $a, units, thread) });
    };
}
pub(crate) use variants;

/// Calls `$body` with `$T` as the Rust type of a float dtype.
macro_rules! with_float {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            ::kernels_core::DType::F32 => {
                type $T = f32;
                $body
            }
            ::kernels_core::DType::F16 => {
                type $T = ::kernels_core::f16;
                $body
            }
            _ => {
                type $T = ::kernels_core::bf16;
                $body
            }
        }
    };
}
pub(crate) use with_float;

/// [`with_float`], and the 8-bit types of caches and quantised activations.
macro_rules! with_cache {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            ::kernels_core::DType::I8 => {
                type $T = i8;
                $body
            }
            ::kernels_core::DType::F8E4M3 => {
                type $T = ::kernels_core::F8E4M3;
                $body
            }
            float => $crate::variants::with_float!(float, $T => $body),
        }
    };
}
pub(crate) use with_cache;
