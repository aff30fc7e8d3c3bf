//! The check before a kernel's first use (`KERNELS_POLICY=self-test`): the parity cases of its contract.

use crate::contract::Outcome;
use kernels_core::{AnyKernel, Device, SelfTest};

kernels_core::inventory::submit! { SelfTest(self_test) }

/// Compares a kernel with the reference over all cases of its op's contract.
///
/// # Errors
/// The first case that it gets wrong, or that no case is of a class that it takes. A kernel of an op without a
/// contract passes.
pub fn self_test(kernel: &'static dyn AnyKernel, device: Device) -> Result<(), String> {
    let Some(contract) = crate::contracts().into_iter().find(|c| c.op() == kernel.spec().op) else {
        return Ok(());
    };
    let mut ran = 0;
    for case in contract.cases() {
        let wrong = match case.run(kernel, device) {
            Ok(Outcome::NotServed) => continue,
            Ok(Outcome::Ran { worst, .. }) if worst <= 1.0 => {
                ran += 1;
                continue;
            }
            Ok(Outcome::Ran { worst, at }) => format!("{worst:.3} times the tolerance, {at}"),
            Ok(Outcome::Refused) => "the op refuses its own case".into(),
            Err(error) => error.to_string(),
        };
        return Err(format!("case \"{}\": {wrong}", case.name()));
    }
    match ran {
        0 => Err("no case of its contract is of a class that it takes".into()),
        _ => Ok(()),
    }
}
