//! How long the threads of [`crate::pool`] take to begin.

use crate::pool::{Plan, split};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Medians of the time from the call until another thread works on it.
#[derive(Clone, Copy, Debug)]
pub struct Handover {
    /// Of a thread that finished a call less than some 50 microseconds ago, and still looks for the next.
    pub awake: Duration,
    /// Of one that sleeps. No call waits for it: the caller goes on with the work meanwhile.
    pub asleep: Duration,
}

/// Measures it, for as many `samples` each; `None` where no second thread could be had.
pub fn handover(samples: usize) -> Option<Handover> {
    let median = |rest: Duration| {
        let mut all: Vec<u64> = (0..samples.max(1)).filter_map(|_| once(rest)).collect();
        all.sort_unstable();
        all.get(all.len() / 2).map(|&ns| Duration::from_nanos(ns))
    };
    once(Duration::ZERO);
    Some(Handover { awake: median(Duration::ZERO)?, asleep: median(Duration::from_millis(1))? })
}

/// Nanoseconds of one call after a rest.
fn once(rest: Duration) -> Option<u64> {
    if !rest.is_zero() {
        std::thread::sleep(rest);
    }
    let (start, begun) = (Instant::now(), AtomicU64::new(0));
    split(Plan { units: 2, work: usize::MAX }, 2, &|_, thread| match thread {
        0 => {
            while begun.load(Ordering::Relaxed) == 0 && start.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
        }
        _ => begun.store(start.elapsed().as_nanos() as u64, Ordering::Relaxed),
    });
    Some(begun.into_inner()).filter(|&ns| ns > 0)
}
