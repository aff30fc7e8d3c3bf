//! A generic kernel whose type nobody says.

include!("toy.in");

unsafe fn double<T: Element>(_: &Ctx, _: &Double<'_>) -> Result<(), RunError> {
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
