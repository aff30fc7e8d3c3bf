//! What the tests share: the device, and every kernel that the contracts' cases need.
#![allow(dead_code)]

use kernels_core::{AnyKernel, Backend, Device, Error, Registry};
use kernels_cuda::CUDA;
use kernels_gpu::{Wanted, wanted};
use kernels_ops::AnyCase;

/// The first device.
pub fn device() -> Device {
    Device::of_driver(&CUDA).expect("a device")[0]
}

/// The kernels of `backend` that the cases of ops like `glob` need, found without running them.
pub fn kernels_for(backend: Backend, glob: &str, benches: bool) -> Vec<Wanted> {
    wanted(|| each_case(backend, glob, benches, |kernel, case| case.time(kernel, device(), 1).map(|_| ())))
        .unwrap()
}

/// Visits each kernel of `backend` for ops like `glob` with each case of its op.
pub fn each_case(
    backend: Backend,
    glob: &str,
    benches: bool,
    mut visit: impl FnMut(&'static dyn AnyKernel, &dyn AnyCase) -> Result<(), Error>,
) -> Result<(), Error> {
    let registry = Registry::linked()?;
    for contract in kernels_ops::contracts().iter().filter(|c| kernels_core::glob(glob, c.op())) {
        let mut cases = contract.cases();
        if benches {
            cases.extend(contract.bench_cases());
        }
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
