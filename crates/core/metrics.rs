//! Counters of each kernel, and what is said once.

use crate::call::CLOCK;
use crate::slot;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What one kernel did, as [`AnyKernel::counts`](crate::AnyKernel::counts) reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times that it ran; counted while [`count_calls`] is on.
    pub calls: u64,
    /// Calls that fell back to it for want of anything better: of a `reference` kernel, always counted.
    pub fallbacks: u64,
    /// Selections that preferred its backend and could not have it.
    pub misses: u64,
}

pub(crate) struct Counters {
    pub calls: AtomicU64,
    pub fallbacks: AtomicU64,
    pub misses: AtomicU64,
}

impl Counters {
    pub const fn new() -> Counters {
        Counters { calls: AtomicU64::new(0), fallbacks: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    pub fn read(&self) -> Counts {
        let of = |c: &AtomicU64| c.load(Ordering::Relaxed);
        Counts { calls: of(&self.calls), fallbacks: of(&self.fallbacks), misses: of(&self.misses) }
    }
}

static COUNTING: AtomicBool = AtomicBool::new(false);

/// Turns the counting of calls on or off for the process. Off by default: an atomic increment costs as much as the
/// whole way to a kernel. `KERNELS_POLICY=count` turns it on at start-up.
pub fn count_calls(on: bool) {
    if COUNTING.swap(on, Ordering::AcqRel) != on {
        match on {
            true => slot::listen(&CLOCK),
            false => slot::unlisten(&CLOCK),
        }
    }
}

pub(crate) fn counting() -> bool {
    COUNTING.load(Ordering::Relaxed)
}

/// Whether this is said for the first time in the process.
pub(crate) fn first_time(text: String) -> bool {
    /// What is said may hold numbers of shapes; beyond this nothing new is said.
    const MOST: usize = 10_000;
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock().unwrap_or_else(|e| e.into_inner());
    said.len() < MOST && said.insert(text)
}
