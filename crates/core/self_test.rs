//! The opt-in check of a kernel before its first use on a device.

use crate::device::Device;
use crate::names::DeviceId;
use crate::op::{AnyKernel, is_reference};
use crate::registry::Registry;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

/// Compares a kernel with its op's reference on a device; `Err` says what is wrong. Submitted to `inventory` by the
/// crate that has the cases.
pub struct SelfTest(pub fn(&'static dyn AnyKernel, Device) -> Result<(), String>);
inventory::collect!(SelfTest);

/// The test that was linked.
pub(crate) fn test() -> Option<&'static SelfTest> {
    inventory::iter::<SelfTest>.into_iter().next()
}

thread_local! {
    /// The test may itself call ops.
    static TESTING: Cell<bool> = const { Cell::new(false) };
}

/// Tests `kernel` on `device` unless that was done; one that fails is quarantined. Whether it may be used: threads
/// that come meanwhile wait for the verdict.
pub(crate) fn passes(registry: &Registry, kernel: &'static dyn AnyKernel, device: Device) -> bool {
    type Verdict = Arc<OnceLock<bool>>;
    static VERDICTS: Mutex<Option<HashMap<(usize, DeviceId), Verdict>>> = Mutex::new(None);
    let Some(test) = test() else { return true };
    if TESTING.get() || is_reference(kernel.spec().backend) {
        return true;
    }
    let key = (std::ptr::from_ref(kernel.spec()).addr(), device.id());
    let mut all = VERDICTS.lock().unwrap_or_else(|e| e.into_inner());
    let verdict = all.get_or_insert_default().entry(key).or_default().clone();
    drop(all);
    let passed = *verdict.get_or_init(|| {
        TESTING.set(true);
        // A panic is a verdict; what it left half done is the kernel's, which is not used again.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (test.0)(kernel, device)));
        TESTING.set(false);
        let outcome = outcome.unwrap_or_else(|_| Err("its self-test panicked".into()));
        let Err(detail) = outcome else { return true };
        let id = kernel.spec().id();
        tracing::error!(kernel = id, device = %device.id(), detail, "self-test failed; the kernel is quarantined");
        // A kernel of this registry is one that it knows.
        let _ = registry.quarantine(&id, device, &format!("self-test: {detail}"));
        false
    });
    // Whoever lifted the quarantine since wants it nevertheless.
    passed || !registry.quarantined().iter().any(|q| q.holds(kernel.spec(), device.platform()))
}
