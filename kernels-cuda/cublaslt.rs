//! The `cublaslt` backend: `gemm.linear` in f32 (without TF32), f16 and, from sm_80 on, bf16; `gemm.fp8_scaled_mm` on sm_90,
//! whose products of 8-bit floats take a scale for each row of both operands.

use crate::platform::folders;
use crate::vendor::Cuda;
use kernels_core::{Backend, DType, DTypeSet, Formats, Platform, Reason, Requirement, kernel};
use kernels_gpu::blaslt::{Api, BlasLt, Constants, Table, WORKSPACE, fp8_scaled_mm, linear, takes_fp8};
use kernels_gpu::host::library;
use kernels_ops::gemm::{Fp8ScaledMm, Linear};
use std::sync::OnceLock;

const NAMES: [&str; 4] = ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", "cublasLt64_12.dll"];

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

/// The library, and its version: 120900 is 12.9.
fn loaded() -> Result<&'static (Table, usize), Reason> {
    static LOADED: OnceLock<Result<(Table, usize), Reason>> = OnceLock::new();
    let load = || {
        let fix = "install cuBLAS (Debian and Ubuntu: libcublaslt12; Python: `pip install nvidia-cublas`) and add its \
                   folder to LD_LIBRARY_PATH; without it `gemm.linear` runs on \"nvrtc\"";
        let library = library::open("cuBLASLt (libcublasLt)", &NAMES, folders(), fix)?;
        let missing = |name| Reason::DriverTooOld {
            have: format!("cuBLASLt without {name}"),
            need: "cuBLASLt 11.4".into(),
        };
        // SAFETY: the function takes nothing, and gives a number.
        let version = unsafe {
            let get = library.get::<unsafe extern "C" fn() -> usize>("cublasLtGetVersion\0");
            get.map_err(|_| missing("cublasLtGetVersion".into()))?()
        };
        let api = Api::resolve(library, "cublasLt").map_err(missing)?;
        Ok((Table::new("cuBLASLt", CONSTANTS, api), version))
    };
    LOADED.get_or_init(load).as_ref().map_err(Reason::clone)
}

impl BlasLt for CublasLt {
    type Vendor = Cuda;
    const BACKEND: Backend = Backend::CUBLASLT;

    fn table() -> Result<&'static Table, Reason> {
        loaded().map(|(table, _)| table)
    }
}

fn ready(_: &Platform) -> Result<(), Reason> {
    loaded().map(|_| ())
}

/// Scales for each row came with cuBLASLt 12.9.
fn has_row_scales(_: &Platform) -> Result<(), Reason> {
    const NEEDED: usize = 120_900;
    let text = |v: usize| format!("cuBLASLt {}.{}", v / 10_000, v / 100 % 100);
    match loaded()?.1 {
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
