//! Two kernels for one place.

include!("../toy.in");

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

kernel!(unsafe {
    op: Double,
    backend: Backend("toy"),
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: double,
});

fn main() {}
