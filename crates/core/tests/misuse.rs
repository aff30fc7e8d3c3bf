//! What the compiler says to a wrong registration. The texts are those of one compiler version; others word their own
//! part of them in another way.

#[test]
#[cfg_attr(miri, ignore = "runs the compiler")]
fn wrong_registrations_do_not_compile_and_say_why() {
    const VERSION: &str = "rustc 1.95.";
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = std::process::Command::new(rustc).arg("--version").output().unwrap();
    let version = String::from_utf8_lossy(&output.stdout).trim().to_string();
    if !version.starts_with(VERSION) {
        println!(
            "SKIPPED: the texts are those of {VERSION}x, and this is {version}; the doctests of `kernel!` still ran"
        );
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/misuse/*.rs");
}
