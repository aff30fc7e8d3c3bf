//! cuBLASLt's entry points and the constants of its interface that are used here (cublasLt.h, cublas_api.h).

use crate::library::{entry_points, open};
use kernels_core::Reason;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

const NAMES: [&str; 4] = ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", "cublasLt64_12.dll"];

/// CUBLAS_COMPUTE_32F: sums in f32, and no TF32 products.
pub const COMPUTE_32F: c_int = 68;
/// CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF.
pub const R_32F: c_int = 0;
pub const R_16F: c_int = 2;
pub const R_16BF: c_int = 14;
/// CUBLASLT_MATMUL_DESC_TRANSA, _EPILOGUE, _BIAS_POINTER.
pub const DESC_TRANSA: c_int = 3;
pub const DESC_EPILOGUE: c_int = 7;
pub const DESC_BIAS_POINTER: c_int = 8;
/// CUBLAS_OP_T.
pub const OP_T: c_int = 1;
/// CUBLASLT_EPILOGUE_BIAS: a value for each row of the (column-major) result.
pub const EPILOGUE_BIAS: c_int = 4;
/// CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, _REDUCTION_SCHEME_MASK, _MIN_ALIGNMENT_{A,B,C,D}_BYTES.
pub const PREF_WORKSPACE: c_int = 1;
pub const PREF_REDUCTION: c_int = 3;
pub const PREF_ALIGNMENT: [c_int; 4] = [5, 6, 7, 8];
/// CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: parts of a sum meet in f32, not in the result's type.
pub const REDUCTION_COMPUTE_TYPE: c_int = 2;

/// cublasLtMatmulHeuristicResult_t.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Heuristic {
    pub algo: [u64; 8],
    pub workspace: usize,
    pub state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

impl Heuristic {
    pub const EMPTY: Heuristic =
        Heuristic { algo: [0; 8], workspace: 0, state: 0, waves: 0.0, reserved: [0; 4] };
}

type P = *mut c_void;
type C = *const c_void;

entry_points! {
    /// The library's entry points.
    pub struct Lt {
        cublasLtCreate: fn(*mut P) -> c_int,
        cublasLtMatmulDescCreate: fn(*mut P, c_int, c_int) -> c_int,
        cublasLtMatmulDescSetAttribute: fn(P, c_int, C, usize) -> c_int,
        cublasLtMatmulDescDestroy: fn(P) -> c_int,
        cublasLtMatrixLayoutCreate: fn(*mut P, c_int, u64, u64, i64) -> c_int,
        cublasLtMatrixLayoutDestroy: fn(P) -> c_int,
        cublasLtMatmulPreferenceCreate: fn(*mut P) -> c_int,
        cublasLtMatmulPreferenceSetAttribute: fn(P, c_int, C, usize) -> c_int,
        cublasLtMatmulPreferenceDestroy: fn(P) -> c_int,
        cublasLtMatmulAlgoGetHeuristic: fn(P, P, P, P, P, P, P, c_int, *mut Heuristic, *mut c_int) -> c_int,
        cublasLtMatmul: fn(P, P, C, C, P, C, P, C, C, P, P, P, *const [u64; 8], P, usize, P) -> c_int,
    }
}

/// The library, loaded once.
///
/// # Errors
/// Why there is none.
pub fn lt() -> Result<&'static Lt, Reason> {
    static LOADED: OnceLock<Result<Lt, Reason>> = OnceLock::new();
    let load = || {
        let fix = "install cuBLAS (Debian and Ubuntu: libcublaslt12; Python: `pip install nvidia-cublas`) and add its \
                   folder to LD_LIBRARY_PATH; without it `gemm.linear` runs on \"nvrtc\"";
        let library = open("cuBLASLt (libcublasLt)", &NAMES, fix)?;
        Lt::resolve(library).map_err(|name| Reason::DriverTooOld {
            have: format!("cuBLASLt without {name}"),
            need: "cuBLASLt 11.4".into(),
        })
    };
    LOADED.get_or_init(load).as_ref().map_err(Reason::clone)
}

/// A status in words.
pub fn check(what: &str, status: c_int) -> Result<(), String> {
    let name = match status {
        0 => return Ok(()),
        1 => "NOT_INITIALIZED",
        3 => "ALLOC_FAILED",
        7 => "INVALID_VALUE",
        8 => "ARCH_MISMATCH",
        13 => "EXECUTION_FAILED",
        14 => "INTERNAL_ERROR",
        15 => "NOT_SUPPORTED",
        _ => "status",
    };
    Err(format!("{what}: CUBLAS_STATUS_{name} ({status})"))
}
