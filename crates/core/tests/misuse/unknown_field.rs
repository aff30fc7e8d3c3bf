//! A field that no spec has.

include!("toy.in");

unsafe fn double(_: &Ctx, _: &Double<'_>) -> Result<(), RunError> {
    Ok(())
}

kernel!(unsafe {
    op: Double,
    backend: Backend("toy"),
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: double,
    prioritty: 3,
});

fn main() {}
