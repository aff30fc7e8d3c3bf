//! Pinned memory between host and device: a copy through it needs no wait on the host's side.

use crate::words::words;
use cudarc::driver::{result, sys};

/// Bytes of one of the two parts. A weight goes through in turns, so that the host fills one part while the device
/// reads the other.
const PART: usize = 4 << 20;

/// Two pinned parts, each with the event of its last copy.
pub(crate) struct Staging {
    parts: [(*mut u8, sys::CUevent); 2],
    /// The part in use, and how many bytes of it are.
    now: usize,
    used: usize,
}

// SAFETY: pinned memory and events may be used from any thread, one at a time.
unsafe impl Send for Staging {}

impl Staging {
    /// # Safety
    /// Used while the device's context is current.
    ///
    /// # Errors
    /// In the driver's words.
    pub unsafe fn new() -> Result<Staging, String> {
        let part = || -> Result<_, String> {
            // SAFETY: by contract.
            unsafe {
                let memory =
                    result::malloc_host(PART, sys::CU_MEMHOSTALLOC_PORTABLE).map_err(words)?.cast::<u8>();
                let event =
                    result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(words)?;
                Ok((memory, event))
            }
        };
        Ok(Staging { parts: [part()?, part()?], now: 0, used: 0 })
    }

    /// Room for `bytes`, at most [`PART`], and the event to record behind its copy. Small copies share a part, so only
    /// one that begins a part waits, for the copies of that part's last round.
    ///
    /// # Safety
    /// The device's context is current.
    unsafe fn room(&mut self, bytes: usize) -> Result<(*mut u8, sys::CUevent), result::DriverError> {
        if self.used + bytes > PART {
            (self.now, self.used) = (1 - self.now, 0);
            // SAFETY: a live event.
            unsafe { result::event::synchronize(self.parts[self.now].1)? };
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
    pub unsafe fn upload(
        &mut self,
        dst: sys::CUdeviceptr,
        src: &[u8],
        stream: sys::CUstream,
    ) -> Result<(), result::DriverError> {
        for (i, chunk) in src.chunks(PART).enumerate() {
            // SAFETY: the room is free, and the chunk's size; the copy is inside `dst`.
            unsafe {
                let (at, event) = self.room(chunk.len())?;
                at.copy_from_nonoverlapping(chunk.as_ptr(), chunk.len());
                let pinned = std::slice::from_raw_parts(at, chunk.len());
                result::memcpy_htod_async(dst + (i * PART) as u64, pinned, stream)?;
                result::event::record(event, stream)?;
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
    pub unsafe fn download(
        &mut self,
        dst: &mut [u8],
        src: sys::CUdeviceptr,
        stream: sys::CUstream,
    ) -> Result<(), result::DriverError> {
        for (i, chunk) in dst.chunks_mut(PART).enumerate() {
            // SAFETY: as in `upload`; the room is read after its copy is done.
            unsafe {
                let (at, event) = self.room(chunk.len())?;
                let pinned = std::slice::from_raw_parts_mut(at, chunk.len());
                result::memcpy_dtoh_async(pinned, src + (i * PART) as u64, stream)?;
                result::event::record(event, stream)?;
                result::event::synchronize(event)?;
                chunk.as_mut_ptr().copy_from_nonoverlapping(at, chunk.len());
            }
        }
        Ok(())
    }
}
