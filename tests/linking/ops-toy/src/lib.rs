//! An op and its reference.

use kernels_core::*;

kernels_core::backend! { backends: [Backend::REFERENCE], driver: &HOST }

kernels_core::op! {
    /// Twice the input.
    pub struct Double = "toy.double" {
        /// `[n]` f32
        reads x,
        /// `[n]` f32
        writes out,
    }
}

impl Double<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        Ok(Valid { key: Key::of(self.x.dtype()), empty: false })
    }
}

/// # Safety
/// As a kernel of [`Double`].
pub unsafe fn double(_: &Ctx, a: &Double<'_>) -> Result<(), RunError> {
    for i in 0..a.x.dim(0) {
        // SAFETY: i is inside both, f32 by the spec.
        unsafe { a.out.as_mut_ptr::<f32>().add(i).write(2.0 * *a.x.as_ptr::<f32>().add(i)) };
    }
    Ok(())
}

kernel!(unsafe {
    op: Double,
    backend: Backend::REFERENCE,
    variant: "",
    formats: Formats::same(DTypeSet::of(&[DType::F32])),
    run: double,
});
