//! `kernels new-backend`

use crate::{Failure, Outcome, output};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// The backend's name, also its kind of device: lower-case letters, digits, `-` and `_`
    name: String,
    /// The folder that the crate is made in
    #[arg(long, default_value = ".")]
    path: PathBuf,
}

/// Paths in the crate, and their text with `{name}`, `{ident}` and `{version}` in it.
const FILES: [(&str, &str); 7] = [
    ("Cargo.toml", include_str!("new_backend/Cargo.toml.in")),
    ("README.md", include_str!("new_backend/README.md.in")),
    ("src/lib.rs", include_str!("new_backend/lib.rs.in")),
    ("src/driver.rs", include_str!("new_backend/driver.rs.in")),
    ("src/rmsnorm.rs", include_str!("new_backend/rmsnorm.rs.in")),
    ("tests/parity.rs", include_str!("new_backend/parity.rs.in")),
    ("examples/kernels.rs", include_str!("new_backend/kernels.rs.in")),
];

pub fn run(args: &Args) -> Outcome {
    let name = args.name.strip_prefix("kernels-").unwrap_or(&args.name);
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(letter) {
        return Err(Failure::Error(format!(
            "\"{}\" cannot be a backend's name; use lower-case letters, digits, `-` and `_`, as in \"acme\"",
            args.name
        )));
    }
    // A name that is taken would mix its kernels with this crate's.
    if let Ok(registry) = kernels_core::Registry::linked()
        && registry.backends().iter().any(|b| b.0 == name)
    {
        return Err(Failure::Error(format!(
            "there is a backend \"{name}\" in this binary; take another name"
        )));
    }
    let root = args.path.join(format!("kernels-{name}"));
    let fail = |what: &std::path::Path, e: std::io::Error| {
        Failure::Error(format!("cannot write {}: {e}", what.display()))
    };
    if root.exists() {
        return Err(Failure::Error(format!("{} is there already", root.display())));
    }
    for (path, text) in FILES {
        let path = root.join(path);
        let folder = path.parent().unwrap_or(&root);
        std::fs::create_dir_all(folder).map_err(|e| fail(folder, e))?;
        let text = text
            .replace("{name}", name)
            .replace("{ident}", &name.replace('-', "_"))
            .replace("{version}", env!("CARGO_PKG_VERSION"));
        std::fs::write(&path, text).map_err(|e| fail(&path, e))?;
    }
    output::print(&format!(
        "made {0}\n  cargo test                             its kernel against the reference\n  \
         cargo run --example kernels -- doctor  the `kernels` command with it linked\n  \
         src/driver.rs                          the device seam: put the runtime's calls there\n  \
         src/rmsnorm.rs                         a kernel; add one file for each op, and its `mod` line",
        root.display()
    ))
}
