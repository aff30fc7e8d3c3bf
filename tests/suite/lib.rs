//! What every GPU backend must pass, written once: parity, hostile arguments, the host's side and its faults on a stand-in
//! (see `kernels-standin`), compilation by the vendor's compiler, and the same on a real GPU.
//!
//! A backend crate implements [`Suite`] and says `kernels_gpu_suite::suite!(crate::Mine);` in a test file.

pub mod cases;
pub mod compile;
pub mod compiler;
pub mod faults;
pub mod gpu;
pub mod hostile;
pub mod memory;
pub mod mutants;
pub mod parity;
pub mod streams;

use kernels_core::{Device, Driver, Tensor};
use kernels_gpu::Runtime;
use kernels_standin::StandIn;

/// A backend under test.
pub trait Suite: 'static {
    /// Its compiler.
    type Runtime: Runtime;
    /// Its driver.
    fn driver() -> &'static dyn Driver;
    /// The machine that stands in.
    fn stand_in() -> StandIn;
    /// The setting of the stand-in that names architectures.
    const ARCH: &'static str;
    /// Two of them as that setting takes them: the first is the stand-in's own.
    const TWO_ARCHS: [&'static str; 2];
    /// The same as platforms show them.
    const TWO_NAMES: [&'static str; 2];
    /// Those of the two that every parity test runs on: one of each width of a warp.
    const WIDTHS: &'static [&'static str];
    /// Seeds of schedules besides 0, in which all cases run.
    const SEEDS: &'static [u32];
    /// The ops whose cases run under AddressSanitizer: all, or those whose addresses depend on the width of a warp;
    /// and a number of cases that is exceeded.
    const SANITIZED: (&'static [&'static str], usize);
    /// Whether all faults are put in here, or only those that have to do with the width of a warp.
    const ALL_MUTANTS: bool;
    /// The compiler of the stand-in as it is shown.
    const COMPILER: &'static str;
    /// Functions of the vendor's that tests let fail.
    const CALLS: Calls;
    /// Names of errors.
    const WORDS: Words;
    /// Libraries that are looked for, and what to do without.
    const LIBRARIES: Libraries;
    /// The vendor's own compiler.
    const REAL: Real;
}

/// Functions of a driver and a compiler.
pub struct Calls {
    pub compile: &'static str,
    pub load: &'static str,
    pub launch: &'static str,
}

/// Names of errors.
pub struct Words {
    pub no_device: &'static str,
    pub invalid_value: &'static str,
    pub invalid_image: &'static str,
    pub illegal_address: &'static str,
}

/// Libraries by file name, and parts of what the errors say to do.
pub struct Libraries {
    pub name: &'static str,
    pub driver: &'static str,
    pub fix: &'static str,
    pub compiler: &'static str,
    pub compiler_fix: &'static str,
}

/// The vendor's own compiler, for tests that compile and do not run.
pub struct Real {
    /// The variable that says in which folder it is.
    pub variable: &'static str,
    /// What brings it.
    pub script: &'static str,
    /// The machine number of the images that it makes (ELF).
    pub machine: [u8; 2],
    /// The architectures that all kernels are compiled for, where nobody asks for the grid.
    pub all: &'static [&'static str],
    /// Those for which it is the kernels of the bench cases: every n-th of them.
    pub some: (&'static [&'static str], usize),
    /// The architectures for which what kernels take of registers is looked at.
    pub tuned: &'static [&'static str],
    /// Whether kernels of tensor cores (`mma.h`) are for an architecture.
    pub has_mma: fn(&str) -> bool,
}

/// The driver of a suite.
pub type Driving<S> = <<S as Suite>::Runtime as Runtime>::Vendor;

/// The first device.
pub fn device<S: Suite>() -> Device {
    Device::of_driver(S::driver()).expect("a device")[0]
}

/// A tensor there.
pub fn on_device<S: Suite>(values: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape).unwrap().to_device(device::<S>()).unwrap()
}

/// The tests of a backend.
#[macro_export]
macro_rules! suite {
    ($suite:ty) => {
        $crate::suite! { @list $suite;
            parity: every_kernel_agrees_with_the_reference, whatever_the_schedule, under_address_sanitizer;
            mutants: faults_in_kernels_are_found;
            hostile: hostile_arguments;
            memory: tensors_go_there_and_back_and_ops_run, small_uploads_wait_for_nothing,
                memory_comes_back_and_runs_out_with_a_fix, many_threads_share_a_device,
                a_gpu_is_chosen_by_its_tensors_and_never_the_host, each_device_has_its_own_kernels;
            streams: a_stream_of_the_callers_own, a_graph_replays_what_it_captured,
                warm_up_compiles_what_calls_need_and_runs_nothing;
            compiler: without_a_compiler_a_call_says_what_to_install, without_a_compiler_what_is_cached_runs,
                a_cache_that_cannot_be_written_costs_nothing_but_time,
                a_kernel_is_compiled_once_for_all_processes, a_compile_error_shows_the_compilers_log;
            faults: no_library, a_driver_without_a_gpu, an_image_that_is_not_for_this_device,
                a_launch_that_the_driver_refuses, a_kernel_that_faults_is_named_by_whoever_waits,
                a_bad_index_is_reported_with_its_op_and_once;
            compile: every_kernel_compiles, hot_kernels_stay_in_registers;
        }
    };
    // On the device that is there; without one they say so, loudly.
    (@gpu $suite:ty) => {
        $crate::suite! { @list $suite;
            gpu: every_kernel_agrees_on_the_gpu, hostile_arguments_on_the_gpu, every_kernel_can_be_timed;
        }
    };
    (@list $suite:ty; $($module:ident: $($name:ident),+;)+) => { $( $(
        #[test]
        fn $name() {
            $crate::$module::$name::<$suite>();
        }
    )+ )+ };
}
