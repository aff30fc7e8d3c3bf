//! candle's own operations as kernels: a second implementation to compare with, and one for whoever asks for
//! it by name. Inputs are copied in, arithmetic is candle's in f32, results are copied out: it ranks below
//! kernels made for the purpose.
//!
//! Left out is what candle's operations do not express as the contracts ask: `gelu_and_mul` (its erf form
//! loses the tail), rounding to i8 (its `round` goes away from zero), scatters into a cache, draws, and sorts
//! whose ties have an order.

mod activation;
mod attention;
mod elementwise;
mod embeddings;
mod gemm;
mod host;
mod layernorm;
mod sampling;

/// Registers `$run: unsafe fn(&Ctx, &Op<'_>) -> candle_core::Result<()>` as the kernel of an op.
macro_rules! candle_kernel {
    ($op:ident, $formats:expr, $run:ident) => {
        const _: () = {
            unsafe fn run(
                ctx: &::kernels_core::Ctx,
                args: &$op<'_>,
            ) -> std::result::Result<(), ::kernels_core::RunError> {
                // SAFETY: passed on.
                unsafe { $run(ctx, args) }.map_err(|e| $crate::backend::host::failed($op::OP, &e))
            }
            ::kernels_core::kernel!(unsafe {
                op: $op,
                backend: ::kernels_core::Backend::CANDLE,
                variant: "",
                formats: $formats,
                run: run,
                requires: &[::kernels_core::Requirement::any(::kernels_core::DeviceKind::CPU)],
                priority: -1,
            });
        };
    };
}
use candle_kernel;
