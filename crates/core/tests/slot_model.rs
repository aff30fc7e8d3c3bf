//! The slot's protocol under every interleaving that the memory model allows (loom): a call that begins after an
//! override was changed never runs what was decided before.

#![cfg(not(miri))]

mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}
#[path = "../slot.rs"]
#[allow(dead_code)]
mod slot;

use loom::sync::{Arc, RwLock};
use loom::thread;
use slot::Now;
use std::sync::atomic::Ordering;

const PLACE: u64 = 5;

/// What `call.rs` and `settings.rs` are made of: the clock, one slot, and the settings, here the number of the kernel
/// that they ask for.
struct Process {
    clock: atomic::AtomicU64,
    slot: atomic::AtomicU64,
    settings: RwLock<usize>,
}

impl Process {
    fn new() -> Arc<Process> {
        let (clock, slot) = (atomic::AtomicU64::new(1), atomic::AtomicU64::new(0));
        Arc::new(Process { clock, slot, settings: RwLock::new(1) })
    }

    fn set(&self, kernel: usize) {
        *self.settings.write().unwrap() = kernel;
        slot::bump(&self.clock);
    }

    fn call(&self) -> usize {
        let now = Now::of(&self.clock);
        slot::look(&self.slot, now, PLACE).unwrap_or_else(|| {
            let kernel = *self.settings.read().unwrap();
            slot::fill(&self.slot, now, PLACE, kernel);
            kernel
        })
    }
}

#[test]
fn a_call_after_a_change_never_runs_the_decision_before_it() {
    loom::model(|| {
        let process = Process::new();
        let caller = {
            let process = process.clone();
            thread::spawn(move || (process.call(), process.call()))
        };
        process.set(2);
        assert_eq!(process.call(), 2, "whoever changed it sees the change");
        let (first, second) = caller.join().unwrap();
        assert!(first <= second, "no call goes back: {first}, then {second}");
        assert_eq!(process.call(), 2, "what the other thread left in the slot is not trusted");
    });
}

#[test]
fn two_changes_and_a_caller() {
    loom::model(|| {
        let process = Process::new();
        let other = {
            let process = process.clone();
            thread::spawn(move || process.set(2))
        };
        let seen = process.call();
        assert!(seen == 1 || seen == 2);
        other.join().unwrap();
        process.set(3);
        assert_eq!(process.call(), 3);
    });
}

#[test]
fn a_scope_of_one_thread_leaves_the_epoch_to_the_others() {
    loom::model(|| {
        let process = Process::new();
        process.call();
        let scoped = {
            let process = process.clone();
            thread::spawn(move || {
                slot::enter_scope(&process.clock);
                assert!(Now::of(&process.clock).scopes(), "a thread sees its own scope");
                slot::leave_scope(&process.clock);
            })
        };
        assert_eq!(process.call(), 1);
        process.set(2);
        assert_eq!(process.call(), 2);
        scoped.join().unwrap();
        let now = Now::of(&process.clock);
        assert!(!now.scopes() && now.epoch() == 2);
        assert_eq!(process.slot.load(Ordering::Acquire) & 0xfff, 2);
    });
}
