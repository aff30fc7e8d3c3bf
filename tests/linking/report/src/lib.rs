//! What was linked, in words.

#[cfg(feature = "named")]
use kernels_alpha as _;
use kernels_core::{Registry, View, ViewMut};

kernels_core::features! { "alpha" => "kernels-alpha" serves "cpu" }

/// `2 crates, 3 kernels, 2·21 = 42 by alpha`, or the error.
pub fn report() -> String {
    match counted() {
        Ok(text) => text,
        Err(error) => format!("error: {error}"),
    }
}

fn counted() -> kernels_core::Result<String> {
    let registry = Registry::linked()?;
    let (x, mut out) = ([21f32], [0f32]);
    let (x, view) = (View::from_slice(&x, &[1]), ViewMut::from_slice(&mut out, &[1]));
    let (Some(x), Some(view)) = (x, view) else { return Ok("a view of one element is refused".into()) };
    let mut call = ops_toy::Double { x, out: view }.check()?;
    let by = call.explain()?.chosen().map_or("nobody", |s| s.backend.0);
    call.run()?;
    let (crates, kernels) = (registry.manifests().len(), registry.specs().count());
    Ok(format!("{crates} crates, {kernels} kernels, 2·21 = {} by {by}", out[0]))
}
