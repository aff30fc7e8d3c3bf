//! The report: a word in memory that kernels write and the host reads after it waited.

use kernels_core::{DriverError, OpEntry, inventory};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// `pk_report` of `pk.h`, in memory that host and device share.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Report {
    set: AtomicU32,
    op: AtomicU32,
    value: AtomicI64,
    limit: AtomicI64,
    running: AtomicU32,
}

impl Report {
    /// The fault that a kernel wrote since the last call, if one did. Call it when the device's work is done.
    pub fn take(&self) -> Option<DriverError> {
        if self.set.load(Ordering::Acquire) != 2 {
            return None;
        }
        let op = op_of(self.op.load(Ordering::Relaxed));
        let (value, limit) = (self.value.load(Ordering::Relaxed), self.limit.load(Ordering::Relaxed));
        self.set.store(0, Ordering::Release);
        Some(DriverError::Fault { op, value, limit })
    }

    /// The op whose kernel started last: the one to blame when the device stopped.
    pub fn running(&self) -> &'static str {
        op_of(self.running.load(Ordering::Acquire))
    }
}

/// An op's number on the device: FNV-1a of its name, so that it is a constant everywhere.
pub const fn op_number(op: &str) -> u32 {
    let (bytes, mut hash, mut i) = (op.as_bytes(), 0x811c_9dc5u32, 0);
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u32).wrapping_mul(0x0100_0193);
        i += 1;
    }
    hash
}

/// The op of a number.
pub fn op_of(number: u32) -> &'static str {
    let mut names = inventory::iter::<OpEntry>.into_iter().map(|e| e.0.name);
    names.find(|name| op_number(name) == number).unwrap_or("(an op that ran before)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_op_has_a_number_of_its_own() {
        let _ = kernels_ops::contracts();
        let mut numbers: Vec<_> =
            inventory::iter::<OpEntry>.into_iter().map(|e| op_number(e.0.name)).collect();
        assert!(numbers.len() > 30);
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), inventory::iter::<OpEntry>.into_iter().count());
        assert_eq!(op_of(op_number("layernorm.rmsnorm")), "layernorm.rmsnorm");
    }
}
