//! Overrides for what one thread does inside a closure.

use crate::call::CLOCK;
use crate::error::ConfigError;
use crate::policy::{Level, Policy};
use crate::registry::Registry;
use crate::slot::{self, Now};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

/// One scope, with what was decided in it: (slots of the op, place) to (epoch, kernel, who decided).
struct Frame {
    policy: Arc<Policy>,
    decided: HashMap<(usize, u64), (u64, usize, Level)>,
}

thread_local! {
    /// How many frames there are: without a destructor, so that calls may ask also while their thread ends.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

/// Leaves the scope when it is dropped, so also when the closure panics.
struct Inside;

impl Inside {
    fn enter(policy: Policy) -> Inside {
        FRAMES.with_borrow_mut(|f| f.push(Frame { policy: Arc::new(policy), decided: HashMap::new() }));
        DEPTH.set(DEPTH.get() + 1);
        slot::enter_scope(&CLOCK);
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        slot::leave_scope(&CLOCK);
        DEPTH.set(DEPTH.get() - 1);
        FRAMES.with_borrow_mut(|f| f.pop());
    }
}

impl Registry {
    /// Runs `f` with `policy` laid over what surrounds it, for what this thread selects and calls in `f`: its rules
    /// come before those of outer scopes and of the process, and what it allows or forbids is added to theirs. Other
    /// threads, also those that `f` starts, see nothing of it. It ends when `f` returns or panics.
    ///
    /// # Errors
    /// A rule with an unknown op or backend, or a setting that is the process's; then `f` does not run.
    pub fn scope<T>(&self, policy: Policy, f: impl FnOnce() -> T) -> Result<T, ConfigError> {
        policy.check(self)?;
        if policy.self_test {
            let detail = "self-tests are the process's; use `set_policy` or KERNELS_POLICY".into();
            return Err(ConfigError::Invalid { name: "scope", detail });
        }
        let _inside = Inside::enter(policy);
        Ok(f())
    }
}

/// Whether this thread is in a scope.
#[inline]
pub(crate) fn here() -> bool {
    DEPTH.get() != 0
}

/// The policies of this thread's scopes, innermost first.
pub(crate) fn policies() -> Vec<Arc<Policy>> {
    match here() {
        true => FRAMES.with_borrow(|frames| frames.iter().rev().map(|f| f.policy.clone()).collect()),
        false => Vec::new(),
    }
}

/// What this scope decided before, in this epoch.
pub(crate) fn decided(op: usize, place: u64, now: Now) -> Option<(usize, Level)> {
    FRAMES.with_borrow(|frames| {
        let (epoch, kernel, level) = frames.last()?.decided.get(&(op, place))?;
        now.is_still(*epoch).then_some((*kernel, *level))
    })
}

pub(crate) fn keep(op: usize, place: u64, now: Now, kernel: usize, level: Level) {
    FRAMES.with_borrow_mut(|frames| {
        if let Some(frame) = frames.last_mut() {
            frame.decided.insert((op, place), (now.epoch(), kernel, level));
        }
    });
}
