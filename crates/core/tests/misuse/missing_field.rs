//! A field is missing.

include!("toy.in");

unsafe fn double(_: &Ctx, _: &Double<'_>) -> Result<(), RunError> {
    Ok(())
}

kernel!(unsafe {
    op: Double,
    backend: Backend("toy"),
    variant: "",
    run: double,
});

fn main() {}
