//! The promise is missing.

include!("toy.in");

unsafe fn double(_: &Ctx, _: &Double<'_>) -> Result<(), RunError> {
    Ok(())
}

kernel!({
    op: Double,
    backend: Backend("toy"),
    variant: "",
    formats: Formats::same(DTypeSet::FLOAT),
    run: double,
});

fn main() {}
