//! An op that says which kernel ran.

use kernels_core::*;

kernels_core::op! {
    /// Says which kernel ran.
    pub struct Who = "test.who" {
        /// `[n]`
        reads x,
        /// `[1]` i32: the kernel's number
        writes out,
        /// The shape fact.
        value fact: usize,
    }
}

impl Who<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        Ok(Valid { key: Key::of(self.x.dtype()).with_fact(self.fact), empty: false })
    }
}

/// Writes its number.
///
/// # Safety
/// As a kernel of [`Who`] over four-byte results.
pub unsafe fn mark<const N: usize>(_: &Ctx, a: &Who<'_>) -> Result<(), RunError> {
    // SAFETY: one element of four bytes.
    unsafe { a.out.as_mut_ptr::<i32>().write(N as i32) };
    Ok(())
}

/// A gate.
pub fn even(key: &Key) -> Result<(), Reason> {
    match key.fact % 2 {
        0 => Ok(()),
        _ => Err(Reason::Shape { detail: format!("takes an even size, not {}", key.fact) }),
    }
}
