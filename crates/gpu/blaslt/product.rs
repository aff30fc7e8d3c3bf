//! `gemm.linear` and `gemm.fp8_scaled_mm` by a library: sums in f32, the bias added before the one rounding.

use super::plan::{Kind, Plan};
use super::table::{BlasLt, R_8F_E4M3, R_16BF, R_16F, R_32F};
use crate::host::Context;
use kernels_core::{Ctx, DType, Key, Reason, RunError, View, ViewMut};
use kernels_ops::gemm::{Fp8ScaledMm, Linear, rows_are_aligned};
use std::ffi::{c_int, c_void};

/// Scratch memory of a product, in bytes: what NVIDIA recommends for its largest kernels.
pub const WORKSPACE: usize = 32 << 20;

/// `gemm.linear`.
///
/// # Safety
/// Checked arguments on a device of the library's vendor.
///
/// # Errors
/// In the library's words.
pub unsafe fn linear<L: BlasLt>(ctx: &Ctx, a: &Linear<'_>) -> Result<(), RunError> {
    let product = Product { x: &a.x, weight: &a.weight, scales: None, bias: a.bias.as_ref(), out: &a.out };
    // SAFETY: by contract.
    unsafe { product.run::<L>(ctx, Linear::OP) }
}

/// `gemm.fp8_scaled_mm`.
///
/// # Safety
/// Checked arguments on a device of the library's vendor.
///
/// # Errors
/// In the library's words.
pub unsafe fn fp8_scaled_mm<L: BlasLt>(ctx: &Ctx, a: &Fp8ScaledMm<'_>) -> Result<(), RunError> {
    let scales = Some([&a.scales_a, &a.scales_b]);
    let product = Product { x: &a.a, weight: &a.b, scales, bias: a.bias.as_ref(), out: &a.out };
    // SAFETY: by contract.
    unsafe { product.run::<L>(ctx, Fp8ScaledMm::OP) }
}

/// The gate of `gemm.fp8_scaled_mm`: the library's products of 8-bit floats move 16 bytes at a time.
///
/// # Errors
/// The call's rows do not lie so.
pub fn takes_fp8(key: &Key) -> Result<(), Reason> {
    match rows_are_aligned(key) {
        true => Ok(()),
        false => Err(Reason::Layout {
            detail: "takes features that are multiples of 16, in rows that begin at multiples of 16 bytes"
                .into(),
        }),
    }
}

/// out = (x · weightᵀ) · scales + bias.
struct Product<'a> {
    x: &'a View<'a>,
    weight: &'a View<'a>,
    scales: Option<[&'a View<'a>; 2]>,
    bias: Option<&'a View<'a>>,
    out: &'a ViewMut<'a>,
}

fn type_of(dtype: DType) -> c_int {
    match dtype {
        DType::F16 => R_16F,
        DType::BF16 => R_16BF,
        DType::F8E4M3 => R_8F_E4M3,
        _ => R_32F,
    }
}

/// What an address is a multiple of, to 256 bytes.
fn alignment(view: &View<'_>) -> u32 {
    1 << view.as_ptr::<u8>().addr().trailing_zeros().min(8)
}

impl Product<'_> {
    /// # Safety
    /// Checked arguments on a device of the library's vendor.
    unsafe fn run<L: BlasLt>(&self, ctx: &Ctx, op: &str) -> Result<(), RunError> {
        // SAFETY: by contract.
        unsafe { self.queue::<L>(ctx) }.map_err(|detail| RunError::LaunchFailed {
            kernel: format!("{} of {op}", L::BACKEND),
            device: ctx.device.id(),
            detail,
        })
    }

    /// # Safety
    /// As for `run`.
    unsafe fn queue<L: BlasLt>(&self, ctx: &Ctx) -> Result<(), String> {
        let (Some(x), Some(w), Some(o)) = (self.x.rows(), self.weight.rows(), self.out.rows()) else {
            return Ok(());
        };
        let table = L::table().map_err(|r| r.to_string())?;
        if x.cols == 0 {
            return Err(format!(
                "a product of nothing (in_features 0) is not {}'s; name another backend",
                table.name
            ));
        }
        let device = ctx.device.id().index;
        let context = Context::<L::Vendor>::of(device)?;
        let _current = context.enter().map_err(|e| e.to_string())?;
        let handle = table.handle(device)?;
        // A single row may have any stride, and the library wants at least a row's length.
        let stride = |rows: &kernels_core::Rows| rows.stride.max(rows.cols) as i64;
        let kind = Kind {
            device,
            types: [type_of(self.x.dtype()), type_of(self.out.dtype())],
            rows: x.rows as u64,
            features: w.rows as u64,
            k: x.cols as u64,
            strides: [stride(&x), stride(&w), stride(&o)],
            alignment: [alignment(self.x), alignment(self.weight), alignment(&self.out.as_view())],
            bias: self.bias.is_some(),
            scaled: self.scales.is_some(),
        };
        let (scratch, bytes) = ctx.workspace();
        let plan = Plan::of(table, handle, kind, bytes.min(WORKSPACE))?;
        let (one, zero) = (1f32, 0f32);
        let out = self.out.as_mut_ptr::<c_void>();
        // SAFETY: the pointers are the arguments', of the sizes that the plan describes; the scratch memory is the call's.
        unsafe {
            if let Some(bias) = self.bias {
                plan.set(table.constants.bias_pointer, &bias.as_ptr::<c_void>())?;
            }
            if let (Some([of_x, of_weight]), Some([_, pointers])) = (self.scales, table.constants.scales) {
                plan.set(pointers[0], &of_weight.as_ptr::<c_void>())?;
                plan.set(pointers[1], &of_x.as_ptr::<c_void>())?;
            }
            let queued = (table.api.Matmul)(
                handle,
                plan.operation,
                (&raw const one).cast(),
                self.weight.as_ptr(),
                plan.weight,
                self.x.as_ptr(),
                plan.x,
                (&raw const zero).cast(),
                out,
                plan.out,
                out,
                plan.out,
                &plan.heuristic,
                scratch.cast(),
                plan.workspace().min(bytes),
                context.handle(ctx.stream),
            );
            table.check("the product", queued)
        }
    }
}
