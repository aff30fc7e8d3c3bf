//! What the tests share: the device, and every kernel that the contracts' cases need.
#![allow(dead_code)]

use kernels_core::{AnyKernel, Backend, Device, Error, Registry};
use kernels_cuda::CUDA;
use kernels_gpu::{Wanted, wanted};
use kernels_ops::{AnyCase, AnyContract};

/// The first device.
pub fn device() -> Device {
    Device::of_driver(&CUDA).expect("a device")[0]
}

/// The kernels of `backend` that the cases of ops like `glob` need, found without running them; with those of the bench
/// cases too.
pub fn kernels_for(backend: Backend, glob: &str, benches: bool) -> Vec<Wanted> {
    wanted(|| {
        each_case(backend, glob, needs)?;
        if benches { each_bench_case(backend, glob, needs) } else { Ok(()) }
    })
    .unwrap()
}

/// The kernels that the bench cases need: sizes of real models.
pub fn kernels_for_benches(backend: Backend, glob: &str) -> Vec<Wanted> {
    wanted(|| each_bench_case(backend, glob, needs)).unwrap()
}

fn needs(kernel: &'static dyn AnyKernel, case: &dyn AnyCase) -> Result<(), Error> {
    case.time(kernel, device(), 1).map(|_| ())
}

type Visit<'a> = &'a mut dyn FnMut(&'static dyn AnyKernel, &dyn AnyCase) -> Result<(), Error>;

/// Visits each kernel of `backend` for ops like `glob` with each parity case of its op.
pub fn each_case(
    backend: Backend,
    glob: &str,
    mut visit: impl FnMut(&'static dyn AnyKernel, &dyn AnyCase) -> Result<(), Error>,
) -> Result<(), Error> {
    each(backend, glob, |c| c.cases(), &mut visit)
}

/// The same with each bench case.
pub fn each_bench_case(
    backend: Backend,
    glob: &str,
    mut visit: impl FnMut(&'static dyn AnyKernel, &dyn AnyCase) -> Result<(), Error>,
) -> Result<(), Error> {
    each(backend, glob, |c| c.bench_cases(), &mut visit)
}

fn each(
    backend: Backend,
    glob: &str,
    cases: fn(&dyn AnyContract) -> Vec<Box<dyn AnyCase>>,
    visit: Visit<'_>,
) -> Result<(), Error> {
    let registry = Registry::linked()?;
    for contract in kernels_ops::contracts().iter().filter(|c| kernels_core::glob(glob, c.op())) {
        let cases = cases(*contract);
        let kernels = registry.kernels().filter(|k| k.spec().op == contract.op());
        for kernel in kernels.filter(|k| k.spec().backend == backend) {
            cases.iter().try_for_each(|case| visit(kernel, case.as_ref()))?;
        }
    }
    Ok(())
}

/// Compiles and loads them on every core.
pub fn load_all(wanted: &[Wanted]) {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    kernels_gpu::load(wanted, threads, |_, _, _| {}).unwrap();
}
