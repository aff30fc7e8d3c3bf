//! A backend outside the tree (tests/out-of-tree) registers, is selected and passes parity, with no change
//! anywhere else.

use std::process::Command;

#[test]
fn an_outside_backend_crate_works() {
    let root = env!("CARGO_MANIFEST_DIR");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--quiet", "--manifest-path"]).arg(format!("{root}/tests/out-of-tree/Cargo.toml"));
    // A folder of its own: the outer cargo holds the lock of the usual one.
    let output = cargo.env("CARGO_TARGET_DIR", format!("{root}/target/out-of-tree")).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(
        out.matches("test result: ok. 2 passed").count() == 1 && out.contains("test result: ok. 1 passed"),
        "{out}\n{err}"
    );
}
