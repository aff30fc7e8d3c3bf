//! What the compiler says to a wrong registration. The texts are those of one compiler version; others word their own
//! part of them in another way.

use std::path::Path;
use std::process::Command;

#[test]
#[cfg_attr(miri, ignore = "runs the compiler")]
fn wrong_registrations_do_not_compile_and_say_why() {
    const VERSION: &str = "rustc 1.95.";
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().unwrap();
    let version = String::from_utf8_lossy(&output.stdout).trim().to_string();
    if !version.starts_with(VERSION) {
        println!(
            "SKIPPED: the texts are those of {VERSION}x, and this is {version}; the doctests of `kernel!` still ran"
        );
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/misuse/*.rs");
}

/// Which of the two the compiler meets first is not settled, so trybuild's exact text is no use here.
#[test]
#[cfg_attr(miri, ignore = "runs the compiler")]
fn two_kernels_for_one_place_in_a_crate_do_not_compile_and_the_text_has_the_cure() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR"));
    let case = core.join("tests/misuse/by_code/twice_in_one_crate.rs");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("twice");
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = format!(
        "[package]\nname = \"twice\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[[bin]]\nname = \"twice\"\npath = {case:?}\n\
         [dependencies]\nkernels-core = {{ path = {core:?} }}\n[workspace]\n"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["check", "--quiet", "--manifest-path"]).arg(folder.join("Cargo.toml"));
    // A folder of its own: the outer cargo holds the lock of the usual one.
    let output = cargo.env("CARGO_TARGET_DIR", folder.join("target")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("error[E0119]: conflicting implementations"), "{text}");
    assert!(text.contains("TwoKernelsOfOneOpAndBackendNeedDifferentVariantsOrFormats"), "{text}");
    assert_eq!(text.matches("kernel!(unsafe {").count(), 2, "both places are shown: {text}");
}
