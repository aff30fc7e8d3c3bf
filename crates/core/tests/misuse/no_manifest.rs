//! The crate is not declared.

use kernels_core::*;


kernels_core::op! {
    /// Twice the input.
    pub struct Double = "toy.double" {
        /// `[n]`
        reads x,
        /// `[n]`
        writes out,
    }
}

impl Double<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        Ok(Valid { key: Key::of(self.x.dtype()), empty: false })
    }
}

unsafe fn double(_: &Ctx, _: &Double<'_>) -> Result<(), RunError> {
    Ok(())
}

kernel!(unsafe {
    op: Double,
    backend: Backend("toy"),
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: double,
});

fn main() {}
