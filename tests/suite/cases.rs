//! The contracts' cases on the device under test, and every kernel that they need.

use crate::{Suite, device};
use kernels_core::{AnyKernel, Error, Registry};
use kernels_gpu::{Runtime, Wanted, wanted};
use kernels_ops::{AnyCase, AnyContract};

/// Which of a contract's cases.
type Cases = fn(&dyn AnyContract) -> Vec<Box<dyn AnyCase>>;

/// Those of the parity suite.
pub const PARITY: Cases = |contract| contract.cases();
/// Those of benches: sizes of real models.
pub const BENCHES: Cases = |contract| contract.bench_cases();

/// Visits each kernel of the suite's backend, for ops like `glob`, with each case of its op.
///
/// # Errors
/// What the visitor says.
pub fn each<S: Suite>(
    glob: &str,
    cases: Cases,
    mut visit: impl FnMut(&'static dyn AnyKernel, &dyn AnyCase) -> Result<(), Error>,
) -> Result<(), Error> {
    let registry = Registry::linked()?;
    for contract in kernels_ops::contracts().iter().filter(|c| kernels_core::glob(glob, c.op())) {
        let cases = cases(*contract);
        let kernels = registry.kernels().filter(|k| k.spec().op == contract.op());
        for kernel in kernels.filter(|k| k.spec().backend == S::Runtime::BACKEND) {
            cases.iter().try_for_each(|case| visit(kernel, case.as_ref()))?;
        }
    }
    Ok(())
}

/// The kernels that the cases of ops like `glob` need and `only` admits, found without running them.
pub fn kernels_for<S: Suite>(glob: &str, cases: Cases, only: impl Fn(&dyn AnyCase) -> bool) -> Vec<Wanted> {
    wanted(|| {
        each::<S>(glob, cases, |kernel, case| match only(case) {
            true => {
                case.prepared(kernel, device::<S>(), false)?.map_or(Ok(()), |mut run| run.time(1).map(|_| ()))
            }
            false => Ok(()),
        })
    })
    .unwrap()
}

/// Compiles and loads them on every core.
pub fn load_all(wanted: &[Wanted]) {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    kernels_gpu::load(wanted, threads, |_, _, _| {}).unwrap();
}
