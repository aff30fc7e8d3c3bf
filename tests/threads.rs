//! Results do not depend on how many threads a call may use, bit for bit.

use kernel_registry::ops::contracts;
use kernel_registry::{Backend, Device, Registry};
use kernels_harness::unusable_on;

#[test]
fn results_are_the_same_on_any_number_of_threads() {
    let (registry, device) = (Registry::linked().unwrap(), Device::cpu());
    let mut compared = 0;
    for contract in contracts() {
        // The kernels that calls run here, and the plainest ones.
        let kernels: Vec<_> = registry
            .kernels()
            .filter(|k| k.spec().op == contract.op() && k.spec().backend != Backend::REFERENCE)
            .filter(|k| unusable_on(registry, *k, device).unwrap().is_none())
            .collect();
        for case in contract.cases() {
            for kernel in &kernels {
                let mut first = None;
                for threads in [1, 2, 5] {
                    device.set_threads(threads);
                    let Some(outputs) = case.results(*kernel, device).unwrap() else { continue };
                    let bits: Vec<Vec<u64>> =
                        outputs.iter().map(|o| o.iter().map(|x| x.to_bits()).collect()).collect();
                    match &first {
                        None => first = Some(bits),
                        Some(first) => {
                            compared += 1;
                            let (id, name) = (kernel.spec().id(), case.name());
                            assert!(*first == bits, "{id}: {name} differs on {threads} threads");
                        }
                    }
                }
            }
        }
    }
    println!("{compared} results compared");
    assert!(compared > 0 || cfg!(not(feature = "cpu")));
}
