//! The words behind the call path: an op's slots, and the process's clock of overrides.
//!
//! One file over `crate::atomic`, so that its protocol is also run under a model checker (tests/slot_model.rs).

use crate::atomic::{AtomicU64, Ordering};

/// A slot is `epoch << 44 | place << 12 | kernel`: compared exactly, so that one load decides.
const KERNEL_BITS: u64 = 12;
const EPOCH_AT: u64 = 44;
/// The clock is `scopes << 32 | listeners << 20 | epoch`. At its end the epoch stays, and calls resolve anew each time rather than
/// trust a stale slot.
const EPOCH_MASK: u64 = (1 << 20) - 1;
const LISTENER: u64 = 1 << 20;
const SCOPE: u64 = 1 << 32;

/// The clock's word as a call saw it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now(u64);

impl Now {
    #[inline]
    pub fn of(clock: &AtomicU64) -> Now {
        Now(clock.load(Ordering::Acquire))
    }

    /// Whether some thread of the process is in a scope; which one, only the thread knows.
    #[inline]
    pub fn scopes(self) -> bool {
        self.0 >= SCOPE
    }

    /// Whether nobody is in a scope and nobody listens: a call needs to look no further.
    #[inline]
    pub fn quiet(self) -> bool {
        self.0 < LISTENER
    }

    #[inline]
    pub fn epoch(self) -> u64 {
        self.0 & EPOCH_MASK
    }

    /// Whether decisions of this epoch can be told from later ones.
    pub fn counts(self) -> bool {
        self.epoch() < EPOCH_MASK
    }

    /// Whether what was decided in `epoch` still holds.
    #[inline]
    pub fn is_still(self, epoch: u64) -> bool {
        self.epoch() == epoch && self.counts()
    }
}

/// What was decided before no longer counts. Comes after what decisions depend on was changed.
pub(crate) fn bump(clock: &AtomicU64) {
    let next = |now: u64| (now & EPOCH_MASK < EPOCH_MASK).then_some(now + 1);
    let _ = clock.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
}

pub(crate) fn enter_scope(clock: &AtomicU64) {
    clock.fetch_add(SCOPE, Ordering::AcqRel);
}

pub(crate) fn leave_scope(clock: &AtomicU64) {
    clock.fetch_sub(SCOPE, Ordering::AcqRel);
}

/// One who wants to hear of calls comes.
pub(crate) fn listen(clock: &AtomicU64) {
    clock.fetch_add(LISTENER, Ordering::AcqRel);
}

/// And goes.
pub(crate) fn unlisten(clock: &AtomicU64) {
    clock.fetch_sub(LISTENER, Ordering::AcqRel);
}

/// Slots of an op.
pub(crate) const COUNT: usize = 64;

/// Which slot a place has.
#[inline]
pub(crate) fn index(place: u64) -> usize {
    (place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - COUNT.ilog2())) as usize
}

/// The kernel that was decided on for `place` in this epoch.
#[inline]
pub(crate) fn look(slot: &AtomicU64, now: Now, place: u64) -> Option<usize> {
    let have = slot.load(Ordering::Acquire);
    let want = now.epoch() << (EPOCH_AT - KERNEL_BITS) | place;
    (have >> KERNEL_BITS == want).then_some((have & ((1 << KERNEL_BITS) - 1)) as usize)
}

/// Keeps a decision, made from what was read after `now`.
pub(crate) fn fill(slot: &AtomicU64, now: Now, place: u64, kernel: usize) {
    if now.counts() {
        slot.store(now.epoch() << EPOCH_AT | place << KERNEL_BITS | kernel as u64, Ordering::Release);
    }
}
