//! A typed op without its own reference in the binary is a link fault, never an empty choice.

use kernels_core::*;

kernels_core::backend! { backends: [Backend("toy")], driver: &HOST }

kernels_core::op! {
    /// A toy.
    pub struct Toy = "toy.op" {
        /// `[n]`
        reads x,
        /// `[n]`
        writes out,
    }
}

impl Toy<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        Ok(Valid { key: Key::of(self.x.dtype()), empty: false })
    }
}

unsafe fn copy(_: &Ctx, _: &Toy<'_>) -> Result<(), RunError> {
    Ok(())
}

kernel!(unsafe {
    op: Toy,
    backend: Backend("toy"),
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: copy,
});

#[test]
fn a_typed_call_reports_it() {
    let x = Tensor::zeros(DType::F32, &[2], Device::cpu()).unwrap();
    let mut out = Tensor::zeros(DType::F32, &[2], Device::cpu()).unwrap();
    let error = Toy { x: x.view(), out: out.view_mut() }.run().unwrap_err();
    assert!(matches!(error, Error::Build(BuildError::BackendNotLinked { .. })), "{error}");
    assert!(error.to_string().contains("without its reference kernel"), "{error}");
}
