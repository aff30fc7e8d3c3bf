//! CUDA, as the suite of all GPU backends takes it.

use kernels_core::Driver;
use kernels_cuda::{CUDA, Nvrtc};
use kernels_gpu_suite::{Calls, Libraries, Real, Suite, Words};
use kernels_standin::StandIn;

pub struct Cuda;

impl Suite for Cuda {
    type Runtime = Nvrtc;

    fn driver() -> &'static dyn Driver {
        &CUDA
    }

    fn stand_in() -> StandIn {
        StandIn::cuda()
    }

    const ARCH: &'static str = "CC";
    const TWO_ARCHS: [&'static str; 2] = ["80", "90"];
    const TWO_NAMES: [&'static str; 2] = ["sm_80", "sm_90"];
    const WIDTHS: &'static [&'static str] = &["80"];
    const SEEDS: &'static [u32] = &[3, 77, 12345];
    const SANITIZED: (&'static [&'static str], usize) = (&["*"], 400);
    const ALL_MUTANTS: bool = true;
    const COMPILER: &'static str = "nvrtc 13.0";
    const CALLS: Calls =
        Calls { compile: "nvrtcCompileProgram", load: "cuModuleLoadData", launch: "cuLaunchKernel" };
    const WORDS: Words = Words {
        no_device: "CUDA_ERROR_NO_DEVICE",
        invalid_value: "CUDA_ERROR_INVALID_VALUE",
        invalid_image: "CUDA_ERROR_INVALID_IMAGE",
        illegal_address: "CUDA_ERROR_ILLEGAL_ADDRESS",
    };
    const LIBRARIES: Libraries = Libraries {
        name: "libcuda",
        driver: "libcuda.so.1",
        fix: "NVIDIA driver",
        compiler: "libnvrtc.so.12",
        compiler_fix: "pip install nvidia-cuda-nvrtc",
    };
    const REAL: Real = Real {
        variable: "KERNELS_TEST_NVRTC",
        script: "scripts/fetch-nvrtc",
        machine: [190, 0],
        all: &["sm_80"],
        some: (&["sm_90"], 1),
        tuned: &["sm_80"],
        // bf16 products and asynchronous copies came with sm_80.
        has_mma: |arch| arch != "sm_75",
    };
}
