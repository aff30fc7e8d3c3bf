//! ROCm, as the suite of all GPU backends takes it.

use kernels_core::Driver;
use kernels_gpu_suite::{Calls, Libraries, Real, Suite, Words};
use kernels_rocm::{Hiprtc, ROCM};
use kernels_standin::StandIn;

pub struct Rocm;

impl Suite for Rocm {
    type Runtime = Hiprtc;

    fn driver() -> &'static dyn Driver {
        &ROCM
    }

    fn stand_in() -> StandIn {
        StandIn::rocm()
    }

    const ARCH: &'static str = "GFX";
    const TWO_ARCHS: [&'static str; 2] = ["gfx942:sramecc+:xnack-", "gfx1100"];
    const TWO_NAMES: [&'static str; 2] = ["gfx942", "gfx1100"];
    const WIDTHS: &'static [&'static str] = &["gfx942:sramecc+:xnack-", "gfx1100"];
    const SEEDS: &'static [u32] = &[3];
    const SANITIZED: (&'static [&'static str], usize) =
        (&["layernorm.*", "kvcache.*", "sampling.*", "attention.decode", "gemm.linear*"], 250);
    const ALL_MUTANTS: bool = false;
    const COMPILER: &'static str = "hiprtc 6.3.42134";
    const CALLS: Calls =
        Calls { compile: "hiprtcCompileProgram", load: "hipModuleLoadData", launch: "hipModuleLaunchKernel" };
    const WORDS: Words = Words {
        no_device: "hipErrorNoDevice",
        invalid_value: "hipErrorInvalidValue",
        invalid_image: "hipErrorInvalidImage",
        illegal_address: "hipErrorIllegalAddress",
    };
    const LIBRARIES: Libraries = Libraries {
        name: "libamdhip64",
        driver: "libamdhip64.so.7",
        fix: "install ROCm",
        compiler: "libhiprtc.so.7",
        compiler_fix: "install hipRTC",
    };
    const REAL: Real = Real {
        variable: "KERNELS_TEST_HIPRTC",
        script: "scripts/fetch-hiprtc",
        machine: [224, 0],
        // It compiles one kernel at a time, in three quarters of a second: each for one or two of these.
        all: &[],
        some: (&["gfx942", "gfx1100", "gfx90a", "gfx1030", "gfx950", "gfx1201"], 4),
        tuned: &["gfx942", "gfx1100"],
        has_mma: |_| false,
    };
}
