//! Nothing to do: `links` needs a build script.
fn main() {}
