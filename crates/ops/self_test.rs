//! What a contract's cases say of a kernel: for the parity harness, and for the check before a kernel's first use
//! (`KERNELS_POLICY=self-test`).

use crate::contract::{AnyCase, Outcome};
use kernels_core::{AnyKernel, Device, SelfTest};

kernels_core::inventory::submit! { SelfTest(self_test) }

/// What one case says of a kernel.
pub struct Judgement {
    /// Whether the kernel ran.
    pub ran: bool,
    /// The worst distance from the reference, in units of the tolerance; 0 where there are no results.
    pub worst: f64,
    /// Where that was.
    pub at: String,
    /// What it got wrong.
    pub wrong: Option<String>,
}

/// Runs `kernel` on `case`; `None` where its spec does not take it.
pub fn judge(case: &dyn AnyCase, kernel: &'static dyn AnyKernel, device: Device) -> Option<Judgement> {
    let without = |ran, wrong| Judgement { ran, worst: 0.0, at: String::new(), wrong: Some(wrong) };
    Some(match case.run(kernel, device) {
        Ok(Outcome::NotServed) => return None,
        Ok(Outcome::Refused) => without(false, "the op refuses its own case".into()),
        Ok(Outcome::Ran { worst, at }) => {
            let wrong = (worst > 1.0).then(|| format!("{worst:.3} times the tolerance, {at}"));
            Judgement { ran: true, worst, at, wrong }
        }
        Err(error) => without(true, error.to_string()),
    })
}

/// Compares a kernel with the reference over all cases of its op's contract.
///
/// # Errors
/// The first case that it gets wrong, or that no case is of a class that it takes. A kernel of an op without a
/// contract passes.
pub fn self_test(kernel: &'static dyn AnyKernel, device: Device) -> Result<(), String> {
    let Some(contract) = crate::contracts().into_iter().find(|c| c.op() == kernel.spec().op) else {
        return Ok(());
    };
    let mut ran = false;
    for case in contract.cases() {
        let Some(judgement) = judge(&*case, kernel, device) else { continue };
        if let Some(wrong) = judgement.wrong {
            return Err(format!("case \"{}\": {wrong}", case.name()));
        }
        ran = true;
    }
    match ran {
        true => Ok(()),
        false => Err("no case of its contract is of a class that it takes".into()),
    }
}
