//! `gemm.linear` by cuBLASLt: f32 (without TF32), f16, and bf16 from sm_80 on; sums in f32, the bias added before the one
//! rounding.

use super::api::{self, check, lt};
use super::plan::{Kind, Plan};
use crate::context::Context;
use kernels_core::{
    Backend, Ctx, DType, DTypeSet, Formats, Platform, Reason, Requirement, RunError, View, kernel,
};
use kernels_ops::gemm::Linear;
use std::ffi::c_void;
use std::sync::OnceLock;

/// What NVIDIA recommends for its largest kernels.
const WORKSPACE: usize = 32 << 20;

fn workspace(_: &Linear<'_>, _: usize) -> usize {
    WORKSPACE
}

fn ready(_: &Platform) -> Result<(), Reason> {
    lt().map(|_| ())
}

kernel!(unsafe {
    op: Linear,
    backend: Backend::CUBLASLT,
    variant: "",
    formats: Formats::same(DTypeSet::of(&[DType::F32, DType::F16])),
    run: linear;
    workspace: workspace,
    ready: Some(ready),
});

kernel!(unsafe {
    op: Linear,
    backend: Backend::CUBLASLT,
    variant: "",
    formats: Formats::same(DTypeSet::of(&[DType::BF16])),
    run: linear;
    workspace: workspace,
    ready: Some(ready),
    requires: &[Requirement::cuda(80, u32::MAX)],
});

unsafe fn linear(ctx: &Ctx, a: &Linear<'_>) -> Result<(), RunError> {
    let failed = |detail| RunError::LaunchFailed {
        kernel: format!("{} of {}", Backend::CUBLASLT, Linear::OP),
        device: ctx.device.id(),
        detail,
    };
    // SAFETY: checked arguments on a CUDA device.
    unsafe { product(ctx, a) }.map_err(failed)
}

/// A handle for each device, made at its first use.
fn handle(device: u32) -> Result<*mut c_void, String> {
    static ALL: [OnceLock<Result<usize, String>>; 64] = [const { OnceLock::new() }; 64];
    let slot = ALL.get(device as usize).ok_or("more devices than this backend serves")?;
    let make = || {
        let lt = lt().map_err(|r| r.to_string())?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        check("cublasLtCreate", unsafe { (lt.cublasLtCreate)(&mut handle) })?;
        Ok(handle.expose_provenance())
    };
    slot.get_or_init(make).clone().map(std::ptr::with_exposed_provenance_mut)
}

/// What an address is a multiple of, to 256 bytes.
fn alignment(view: &View<'_>) -> u32 {
    1 << view.as_ptr::<u8>().addr().trailing_zeros().min(8)
}

/// # Safety
/// Checked arguments on a CUDA device.
unsafe fn product(ctx: &Ctx, a: &Linear<'_>) -> Result<(), String> {
    let (Some(x), Some(w), Some(o)) = (a.x.rows(), a.weight.rows(), a.out.rows()) else { return Ok(()) };
    if x.cols == 0 {
        return Err(
            "a product of nothing (in_features 0) is not cuBLASLt's; ask for backend \"nvrtc\"".into()
        );
    }
    let lt = lt().map_err(|r| r.to_string())?;
    let context = Context::of(ctx.device.id().index)?;
    let _current = context.enter().map_err(|e| e.to_string())?;
    let handle = handle(ctx.device.id().index)?;
    // A single row may have any stride, and the library wants at least a row's length.
    let stride = |rows: &kernels_core::Rows| rows.stride.max(rows.cols) as i64;
    let kind = Kind {
        device: ctx.device.id().index,
        dtype: match a.x.dtype() {
            DType::F16 => api::R_16F,
            DType::BF16 => api::R_16BF,
            _ => api::R_32F,
        },
        rows: x.rows as u64,
        features: w.rows as u64,
        k: x.cols as u64,
        strides: [stride(&x), stride(&w), stride(&o)],
        alignment: [alignment(&a.x), alignment(&a.weight), alignment(&a.out.as_view())],
        bias: a.bias.is_some(),
    };
    let (scratch, bytes) = ctx.workspace();
    let plan = Plan::of(lt, handle, kind, bytes.min(WORKSPACE))?;
    let (one, zero) = (1f32, 0f32);
    let out = a.out.as_mut_ptr::<c_void>();
    // SAFETY: the pointers are the arguments', of the sizes that the plan describes; the scratch memory is the call's.
    unsafe {
        if let Some(bias) = &a.bias {
            plan.set(lt, api::DESC_BIAS_POINTER, &bias.as_ptr::<c_void>())?;
        }
        let queued = (lt.cublasLtMatmul)(
            handle,
            plan.operation,
            (&raw const one).cast(),
            a.weight.as_ptr(),
            plan.weight,
            a.x.as_ptr(),
            plan.x,
            (&raw const zero).cast(),
            out,
            plan.out,
            out,
            plan.out,
            &plan.heuristic.algo,
            scratch.cast(),
            plan.heuristic.workspace.min(bytes),
            context.handle(ctx.stream).cast(),
        );
        check("cublasLtMatmul", queued)
    }
}
