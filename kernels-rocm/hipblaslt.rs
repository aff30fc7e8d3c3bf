//! The `hipblaslt` backend: `gemm.linear` by AMD's library on the architectures that it has kernels for.

use crate::hip::{folders, hip};
use crate::vendor::Rocm;
use kernels_core::{Backend, DTypeSet, Formats, Platform, Reason, Requirement, kernel};
use kernels_gpu::blaslt::{BlasLt, Constants, Heuristic, Table, WORKSPACE, linear};
use kernels_gpu::entry_points;
use kernels_gpu::host::{Handle, library};
use kernels_ops::gemm::Linear;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

const NAMES: [&str; 4] = ["libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so", "libhipblaslt.dll"];

type C = *const c_void;

entry_points! {
    /// The library's entry points.
    pub struct Api {
        hipblasLtCreate: fn(*mut Handle) -> c_int,
        hipblasLtMatmulDescCreate: fn(*mut Handle, c_int, c_int) -> c_int,
        hipblasLtMatmulDescSetAttribute: fn(Handle, c_int, C, usize) -> c_int,
        hipblasLtMatmulDescDestroy: fn(Handle) -> c_int,
        hipblasLtMatrixLayoutCreate: fn(*mut Handle, c_int, u64, u64, i64) -> c_int,
        hipblasLtMatrixLayoutDestroy: fn(Handle) -> c_int,
        hipblasLtMatmulPreferenceCreate: fn(*mut Handle) -> c_int,
        hipblasLtMatmulPreferenceSetAttribute: fn(Handle, c_int, C, usize) -> c_int,
        hipblasLtMatmulPreferenceDestroy: fn(Handle) -> c_int,
        hipblasLtMatmulAlgoGetHeuristic: fn(Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Heuristic, *mut c_int) -> c_int,
        hipblasLtMatmul: fn(Handle, Handle, C, C, Handle, C, Handle, C, C, Handle, Handle, Handle, *const Heuristic, Handle, usize, Handle) -> c_int,
    }
}

/// Numbers of hipblaslt.h and hipblas-common.h, as they are since ROCm 6.0.
const CONSTANTS: Constants = Constants {
    compute_32f: 2,
    op_t: 112,
    transpose_a: 0,
    epilogue: 2,
    bias_pointer: 3,
    bias_type: 4,
    scales: None,
    workspace: 1,
    reduction: None,
    alignment: None,
    algorithm_words: 3,
    status: |status| match status {
        1 => "HIPBLAS_STATUS_NOT_INITIALIZED",
        2 => "HIPBLAS_STATUS_ALLOC_FAILED",
        3 => "HIPBLAS_STATUS_INVALID_VALUE",
        5 => "HIPBLAS_STATUS_EXECUTION_FAILED",
        6 => "HIPBLAS_STATUS_INTERNAL_ERROR",
        7 => "HIPBLAS_STATUS_NOT_SUPPORTED",
        8 => "HIPBLAS_STATUS_ARCH_MISMATCH",
        _ => "an unknown status",
    },
};

/// The library.
struct HipblasLt;

fn api() -> Result<&'static Api, Reason> {
    static LOADED: OnceLock<Result<Api, Reason>> = OnceLock::new();
    let load = || {
        let hip = hip().map_err(Reason::clone)?;
        // Before ROCm 6 the numbers were others.
        if hip.hipGetDevicePropertiesR0600.is_none() {
            return Err(Reason::DriverTooOld { have: "HIP 5".into(), need: "HIP 6.0".into() });
        }
        let fix = "install hipBLASLt (AMD's repository: hipblaslt; it comes with PyTorch for ROCm) and add its folder to \
                   LD_LIBRARY_PATH; without it `gemm.linear` runs on \"hiprtc\"";
        let library = library::open("hipBLASLt (libhipblaslt)", &NAMES, folders(), fix)?;
        Api::resolve(library).map_err(|name| Reason::DriverTooOld {
            have: format!("hipBLASLt without {name}"),
            need: "hipBLASLt of ROCm 6.0".into(),
        })
    };
    LOADED.get_or_init(load).as_ref().map_err(Reason::clone)
}

impl BlasLt for HipblasLt {
    type Vendor = Rocm;
    const BACKEND: Backend = Backend::HIPBLASLT;

    fn table() -> Result<&'static Table, Reason> {
        static TABLE: OnceLock<Table> = OnceLock::new();
        let api = api()?;
        Ok(TABLE.get_or_init(|| Table {
            name: "hipBLASLt",
            constants: CONSTANTS,
            create: api.hipblasLtCreate,
            operation: api.hipblasLtMatmulDescCreate,
            set_operation: api.hipblasLtMatmulDescSetAttribute,
            drop_operation: api.hipblasLtMatmulDescDestroy,
            matrix: api.hipblasLtMatrixLayoutCreate,
            drop_matrix: api.hipblasLtMatrixLayoutDestroy,
            preference: api.hipblasLtMatmulPreferenceCreate,
            set_preference: api.hipblasLtMatmulPreferenceSetAttribute,
            drop_preference: api.hipblasLtMatmulPreferenceDestroy,
            heuristic: api.hipblasLtMatmulAlgoGetHeuristic,
            product: api.hipblasLtMatmul,
            handles: [const { OnceLock::new() }; Table::DEVICES],
        }))
    }
}

fn ready(_: &Platform) -> Result<(), Reason> {
    api().map(|_| ())
}

kernel!(unsafe {
    op: Linear,
    backend: Backend::HIPBLASLT,
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: linear::<HipblasLt>;
    workspace: |_, _| WORKSPACE,
    ready: Some(ready),
    requires: &[Requirement::gfx(&[
        "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201",
    ])],
});
