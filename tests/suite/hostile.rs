//! Every kernel on changed shapes, types, values and indices: whatever the op lets through, the kernel answers as the
//! reference does, and touches nothing outside its tensors (the stand-in guards them).

use crate::cases::{PARITY, each, kernels_for, load_all};
use crate::{Suite, device};
use kernels_ops::Outcome;

/// Runs `seeds` changed copies of each case; says how many ran.
pub(crate) fn check<S: Suite>(seeds: u64) -> usize {
    let (mut ran, mut refused, mut wrong, mut i) = (0, 0, Vec::new(), 0);
    each::<S>("*", PARITY, |kernel, case| {
        i += 1;
        for seed in 0..seeds {
            let mut fault = |what: String| {
                wrong.push(format!("{} {}, seed {seed}: {what}", kernel.spec().op, case.name()));
            };
            match case.run_mutated(kernel, device::<S>(), seed + 100 * i) {
                Ok(Outcome::Ran { worst, at }) if worst > 1.0 => fault(at),
                Ok(Outcome::Ran { .. }) => ran += 1,
                Ok(_) => refused += 1,
                Err(error) => fault(error.to_string()),
            }
        }
        Ok(())
    })
    .unwrap();
    println!("{ran} ran, {refused} refused");
    let first = wrong[..wrong.len().min(20)].join("\n");
    assert!(wrong.is_empty(), "{} wrong, the first:\n{first}", wrong.len());
    ran
}

pub fn hostile_arguments<S: Suite>() {
    if S::stand_in().set("SEED", 11).test("hostile_arguments") {
        load_all(&kernels_for::<S>("*", PARITY, |_| true));
        let ran = check::<S>(3);
        assert!(ran > 1000, "only {ran} ran");
    }
}
