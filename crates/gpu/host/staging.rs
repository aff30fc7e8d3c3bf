//! Pinned memory between host and device: a copy through it needs no wait on the host's side.

use crate::host::vendor::{Handle, Outcome, Vendor};
use std::marker::PhantomData;

/// Bytes of one of the two parts. A weight goes through in turns, so that the host fills one part while the device
/// reads the other.
const PART: usize = 4 << 20;

/// Two pinned parts, each with the event of its last copy.
pub(crate) struct Staging<V> {
    parts: [(*mut u8, Handle); 2],
    /// The part in use, and how many bytes of it are.
    now: usize,
    used: usize,
    vendor: PhantomData<V>,
}

// SAFETY: pinned memory and events may be used from any thread, one at a time.
unsafe impl<V: Vendor> Send for Staging<V> {}

impl<V: Vendor> Staging<V> {
    /// # Safety
    /// Used while the device's context is current.
    ///
    /// # Errors
    /// The driver's.
    pub unsafe fn new() -> Outcome<Staging<V>, V> {
        // SAFETY: by contract.
        let part = || -> Outcome<_, V> { unsafe { Ok((V::alloc_host(PART)?, V::new_event()?)) } };
        Ok(Staging { parts: [part()?, part()?], now: 0, used: 0, vendor: PhantomData })
    }

    /// Room for `bytes`, at most [`PART`], and the event to record behind its copy. Small copies share a part, so only
    /// one that begins a part waits, for the copies of that part's last round.
    ///
    /// # Safety
    /// The device's context is current.
    unsafe fn room(&mut self, bytes: usize) -> Outcome<(*mut u8, Handle), V> {
        if self.used + bytes > PART {
            (self.now, self.used) = (1 - self.now, 0);
            // SAFETY: a live event.
            unsafe { V::wait_for_event(self.parts[self.now].1)? };
        }
        let (part, event) = self.parts[self.now];
        // SAFETY: inside the part.
        let at = unsafe { part.add(self.used) };
        self.used = (self.used + bytes).next_multiple_of(256);
        Ok((at, event))
    }

    /// Queues a copy to the device; returns when `src` may be reused.
    ///
    /// # Safety
    /// `dst` is valid for it on the device whose context is current; `stream` is live.
    ///
    /// # Errors
    /// The driver's.
    pub unsafe fn upload(&mut self, dst: u64, src: &[u8], stream: Handle) -> Outcome<(), V> {
        for (i, chunk) in src.chunks(PART).enumerate() {
            // SAFETY: the room is free, and the chunk's size; the copy is inside `dst`.
            unsafe {
                let (at, event) = self.room(chunk.len())?;
                at.copy_from_nonoverlapping(chunk.as_ptr(), chunk.len());
                V::to_device(dst + (i * PART) as u64, at, chunk.len(), stream)?;
                V::record(event, stream)?;
            }
        }
        Ok(())
    }

    /// Copies from the device, after all that is queued on `stream`.
    ///
    /// # Safety
    /// `src` is valid on the device whose context is current; `stream` is live.
    ///
    /// # Errors
    /// The driver's, and those of earlier work.
    pub unsafe fn download(&mut self, dst: &mut [u8], src: u64, stream: Handle) -> Outcome<(), V> {
        for (i, chunk) in dst.chunks_mut(PART).enumerate() {
            // SAFETY: as in `upload`; the room is read after its copy is done.
            unsafe {
                let (at, event) = self.room(chunk.len())?;
                V::to_host(at, src + (i * PART) as u64, chunk.len(), stream)?;
                V::record(event, stream)?;
                V::wait_for_event(event)?;
                chunk.as_mut_ptr().copy_from_nonoverlapping(at, chunk.len());
            }
        }
        Ok(())
    }
}
