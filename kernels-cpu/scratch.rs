//! How rows lie in scratch.

use kernels_core::Ctx;

/// Bytes of a row of `cols` numbers: whole cache lines, so that threads do not share one.
pub fn row_bytes(cols: usize) -> usize {
    (4 * cols).next_multiple_of(64)
}

/// The row of this thread.
///
/// # Safety
/// The call's workspace has [`row_bytes`] for each thread; `T` has 4 bytes.
#[inline(always)]
pub unsafe fn row<T>(ctx: &Ctx, cols: usize, thread: usize) -> *mut T {
    // SAFETY: by contract.
    unsafe { ctx.workspace().0.add(thread * row_bytes(cols)).cast() }
}

/// Bytes of an odd number of cache lines that hold `bytes`: the same column of rows so far apart is in as many sets of a
/// cache as there are rows.
pub fn odd_lines(bytes: usize) -> usize {
    (bytes.div_ceil(64) | 1) * 64
}
