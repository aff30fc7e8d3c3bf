//! The `hipblaslt` backend: `gemm.linear` by AMD's library on the architectures that it has kernels for.

use crate::hip::{folders, hip};
use crate::vendor::Rocm;
use kernels_core::{Backend, DTypeSet, Formats, Platform, Reason, Requirement, kernel};
use kernels_gpu::blaslt::{Api, BlasLt, Constants, Table, WORKSPACE, linear};
use kernels_gpu::host::library;
use kernels_ops::gemm::Linear;
use std::sync::OnceLock;

const NAMES: [&str; 4] = ["libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so", "libhipblaslt.dll"];

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

fn table() -> Result<&'static Table, Reason> {
    static LOADED: OnceLock<Result<Table, Reason>> = OnceLock::new();
    let load = || {
        let hip = hip().map_err(Reason::clone)?;
        // Before ROCm 6 the numbers were others.
        if hip.hipGetDevicePropertiesR0600.is_none() {
            return Err(Reason::DriverTooOld { have: "HIP 5".into(), need: "HIP 6.0".into() });
        }
        let fix = "install hipBLASLt (AMD's repository: hipblaslt; it comes with PyTorch for ROCm) and add its folder to \
                   LD_LIBRARY_PATH; without it `gemm.linear` runs on \"hiprtc\"";
        let library = library::open("hipBLASLt (libhipblaslt)", &NAMES, folders(), fix)?;
        let api = Api::resolve(library, "hipblasLt").map_err(|name| Reason::DriverTooOld {
            have: format!("hipBLASLt without {name}"),
            need: "hipBLASLt of ROCm 6.0".into(),
        })?;
        Ok(Table::new("hipBLASLt", CONSTANTS, api))
    };
    LOADED.get_or_init(load).as_ref().map_err(Reason::clone)
}

impl BlasLt for HipblasLt {
    type Vendor = Rocm;
    const BACKEND: Backend = Backend::HIPBLASLT;

    fn table() -> Result<&'static Table, Reason> {
        table()
    }
}

fn ready(_: &Platform) -> Result<(), Reason> {
    table().map(|_| ())
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
