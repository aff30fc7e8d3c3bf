//! The function takes another op's arguments.

include!("toy.in");

unsafe fn double(_: &Ctx, _: &[f32]) -> Result<(), RunError> {
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
