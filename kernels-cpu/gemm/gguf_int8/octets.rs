//! A row of blocks, eight groups of 32 weights at a time; the rest of a row is filled up with zeros.

use super::formats::Format;

/// The most bytes that eight groups have.
const MOST: usize = 8 * 34;

/// What is left of a row after its whole octets, with blocks of zeros after it.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub struct Rest([u8; MOST]);

impl Rest {
    /// # Safety
    /// `row` is valid for `cols` weights.
    #[inline(always)]
    pub unsafe fn of<F: Format>(row: *const u8, cols: usize) -> Rest {
        let mut bytes = [0; MOST];
        let done = cols / 256 * F::BYTES;
        let left = cols / F::DTYPE.block_len() * F::DTYPE.block_bytes() - done;
        // SAFETY: inside the row, and less than an octet.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(row.add(done), left) };
        Rest(bytes)
    }

    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr()
    }
}
