//! The `cublaslt` backend: `gemm.linear` in f32 (without TF32), f16 and, from sm_80 on, bf16; `gemm.fp8_scaled_mm` on sm_90,
//! whose products of 8-bit floats take a scale for each row of both operands.

use crate::platform::folders;
use crate::vendor::Cuda;
use kernels_core::{Backend, DType, DTypeSet, Formats, Platform, Reason, Requirement, kernel};
use kernels_gpu::blaslt::{BlasLt, Constants, Heuristic, Table, WORKSPACE, fp8_scaled_mm, linear, takes_fp8};
use kernels_gpu::entry_points;
use kernels_gpu::host::{Handle, library};
use kernels_ops::gemm::{Fp8ScaledMm, Linear};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

const NAMES: [&str; 4] = ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", "cublasLt64_12.dll"];

type C = *const c_void;

entry_points! {
    /// The library's entry points.
    pub struct Api {
        cublasLtGetVersion: fn() -> usize,
        cublasLtCreate: fn(*mut Handle) -> c_int,
        cublasLtMatmulDescCreate: fn(*mut Handle, c_int, c_int) -> c_int,
        cublasLtMatmulDescSetAttribute: fn(Handle, c_int, C, usize) -> c_int,
        cublasLtMatmulDescDestroy: fn(Handle) -> c_int,
        cublasLtMatrixLayoutCreate: fn(*mut Handle, c_int, u64, u64, i64) -> c_int,
        cublasLtMatrixLayoutDestroy: fn(Handle) -> c_int,
        cublasLtMatmulPreferenceCreate: fn(*mut Handle) -> c_int,
        cublasLtMatmulPreferenceSetAttribute: fn(Handle, c_int, C, usize) -> c_int,
        cublasLtMatmulPreferenceDestroy: fn(Handle) -> c_int,
        cublasLtMatmulAlgoGetHeuristic: fn(Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Heuristic, *mut c_int) -> c_int,
        cublasLtMatmul: fn(Handle, Handle, C, C, Handle, C, Handle, C, C, Handle, Handle, Handle, *const Heuristic, Handle, usize, Handle) -> c_int,
    }
}

/// Numbers of cublasLt.h and cublas_api.h.
const CONSTANTS: Constants = Constants {
    compute_32f: 68,
    op_t: 1,
    transpose_a: 3,
    epilogue: 7,
    bias_pointer: 8,
    bias_type: 26,
    scales: Some([[31, 32], [17, 18]]),
    workspace: 1,
    // CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
    reduction: Some([3, 2]),
    alignment: Some([5, 6, 7, 8]),
    algorithm_words: 8,
    status: |status| match status {
        1 => "CUBLAS_STATUS_NOT_INITIALIZED",
        3 => "CUBLAS_STATUS_ALLOC_FAILED",
        7 => "CUBLAS_STATUS_INVALID_VALUE",
        8 => "CUBLAS_STATUS_ARCH_MISMATCH",
        13 => "CUBLAS_STATUS_EXECUTION_FAILED",
        14 => "CUBLAS_STATUS_INTERNAL_ERROR",
        15 => "CUBLAS_STATUS_NOT_SUPPORTED",
        _ => "an unknown status",
    },
};

/// The library.
struct CublasLt;

fn api() -> Result<&'static Api, Reason> {
    static LOADED: OnceLock<Result<Api, Reason>> = OnceLock::new();
    let load = || {
        let fix = "install cuBLAS (Debian and Ubuntu: libcublaslt12; Python: `pip install nvidia-cublas`) and add its \
                   folder to LD_LIBRARY_PATH; without it `gemm.linear` runs on \"nvrtc\"";
        let library = library::open("cuBLASLt (libcublasLt)", &NAMES, folders(), fix)?;
        Api::resolve(library).map_err(|name| Reason::DriverTooOld {
            have: format!("cuBLASLt without {name}"),
            need: "cuBLASLt 11.4".into(),
        })
    };
    LOADED.get_or_init(load).as_ref().map_err(Reason::clone)
}

impl BlasLt for CublasLt {
    type Vendor = Cuda;
    const BACKEND: Backend = Backend::CUBLASLT;

    fn table() -> Result<&'static Table, Reason> {
        static TABLE: OnceLock<Table> = OnceLock::new();
        let api = api()?;
        Ok(TABLE.get_or_init(|| Table {
            name: "cuBLASLt",
            constants: CONSTANTS,
            create: api.cublasLtCreate,
            operation: api.cublasLtMatmulDescCreate,
            set_operation: api.cublasLtMatmulDescSetAttribute,
            drop_operation: api.cublasLtMatmulDescDestroy,
            matrix: api.cublasLtMatrixLayoutCreate,
            drop_matrix: api.cublasLtMatrixLayoutDestroy,
            preference: api.cublasLtMatmulPreferenceCreate,
            set_preference: api.cublasLtMatmulPreferenceSetAttribute,
            drop_preference: api.cublasLtMatmulPreferenceDestroy,
            heuristic: api.cublasLtMatmulAlgoGetHeuristic,
            product: api.cublasLtMatmul,
            handles: [const { OnceLock::new() }; Table::DEVICES],
        }))
    }
}

fn ready(_: &Platform) -> Result<(), Reason> {
    api().map(|_| ())
}

/// Scales for each row came with cuBLASLt 12.9.
fn has_row_scales(_: &Platform) -> Result<(), Reason> {
    const NEEDED: usize = 120_900;
    let text = |v: usize| format!("cuBLASLt {}.{}", v / 10_000, v / 100 % 100);
    // SAFETY: takes nothing, and gives a number.
    match unsafe { (api()?.cublasLtGetVersion)() } {
        version if version < NEEDED => Err(Reason::DriverTooOld { have: text(version), need: text(NEEDED) }),
        _ => Ok(()),
    }
}

kernel!(unsafe {
    op: Linear,
    backend: Backend::CUBLASLT,
    variant: "",
    formats: Formats::same(DTypeSet::of(&[DType::F32, DType::F16])),
    run: linear::<CublasLt>;
    workspace: |_, _| WORKSPACE,
    ready: Some(ready),
});

kernel!(unsafe {
    op: Linear,
    backend: Backend::CUBLASLT,
    variant: "",
    formats: Formats::same(DTypeSet::of(&[DType::BF16])),
    run: linear::<CublasLt>;
    workspace: |_, _| WORKSPACE,
    ready: Some(ready),
    requires: &[Requirement::cuda(80, u32::MAX)],
});

// A bias of f32 is not among what the library adds to such products, so results in f32 are left to others.
kernel!(unsafe {
    op: Fp8ScaledMm,
    backend: Backend::CUBLASLT,
    variant: "",
    formats: Formats::mixed(DTypeSet::of(&[DType::F16, DType::BF16]), DTypeSet::of(&[DType::F8E4M3])),
    run: fp8_scaled_mm::<CublasLt>;
    workspace: |_, _| WORKSPACE,
    gate: Some(takes_fp8),
    ready: Some(has_row_scales),
    requires: &[Requirement::cuda_exact(&[90])],
});
