//! The process's policy and quarantine are one; tests take turns and leave them as they found them.

use kernels_core::{Policy, Registry};
use std::sync::{Mutex, MutexGuard};

pub struct Turn(#[allow(dead_code)] MutexGuard<'static, ()>);

pub fn turn() -> (Turn, &'static Registry) {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(|e| e.into_inner());
    (Turn(guard), Registry::linked().unwrap())
}

impl Drop for Turn {
    fn drop(&mut self) {
        let registry = Registry::linked().unwrap();
        registry.set_policy(Policy::default()).unwrap();
        registry.quarantined().iter().for_each(|q| assert!(registry.release(&q.kernel, q.device)));
    }
}
