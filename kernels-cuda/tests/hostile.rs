//! Every kernel on changed shapes, types, values and indices: whatever the op lets through, the kernel answers as the
//! reference does, and touches nothing outside its tensors (the stand-in guards them).

mod common;

use kernels_core::{Backend, Registry};
use kernels_cuda as _;
use kernels_ops::{Outcome, contracts};
use kernels_standin::StandIn;

/// Changed copies of each case.
const SEEDS: u64 = 3;

#[test]
fn hostile_arguments() {
    if !StandIn::new().set("SEED", 11).test("hostile_arguments") {
        return;
    }
    common::load_all(&common::kernels_for(Backend::NVRTC, "*", false));
    let registry = Registry::linked().unwrap();
    let (mut ran, mut refused, mut wrong) = (0, 0, Vec::new());
    for contract in contracts() {
        let kernels = registry.kernels().filter(|k| k.spec().op == contract.op());
        for kernel in kernels.filter(|k| k.spec().backend == Backend::NVRTC) {
            for (i, case) in contract.cases().iter().enumerate() {
                for seed in 0..SEEDS {
                    match case.run_mutated(kernel, common::device(), seed + 100 * i as u64) {
                        Ok(Outcome::Ran { worst, at }) if worst > 1.0 => {
                            wrong.push(format!("{} {}, seed {seed}: {at}", contract.op(), case.name()));
                        }
                        Ok(Outcome::Ran { .. }) => ran += 1,
                        Ok(_) => refused += 1,
                        Err(error) => {
                            wrong.push(format!("{} {}, seed {seed}: {error}", contract.op(), case.name()));
                        }
                    }
                }
            }
        }
    }
    println!("{ran} ran, {refused} refused");
    assert!(
        wrong.is_empty(),
        "{} wrong, the first:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
    assert!(ran > 1000, "only {ran} ran");
}
