//! What linkers do to registrations, on real binaries: each has every kernel, or says which crate is missing and how to
//! mend it. An empty registry without a word is what must not be.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ALL: &str = "2 crates, 3 kernels, 2·21 = 42 by alpha";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder of its own: the outer cargo holds the lock of the usual one.
fn target() -> PathBuf {
    root().join("target/linking")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// Builds a package of tests/linking; `rustc` goes to its own last step only. Its output folder.
fn build(package: &str, profile: &str, rustc: &[&str]) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["rustc", "--quiet", "--profile", profile, "-p", package]);
    cargo.arg("--manifest-path").arg(root().join("tests/linking/Cargo.toml")).arg("--").args(rustc);
    let output = cargo.env("CARGO_TARGET_DIR", target()).env_remove("RUSTFLAGS").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target().join(if profile == "dev" { "debug" } else { profile })
}

fn run(program: PathBuf) -> String {
    text(&Command::new(program).output().unwrap())
}

fn app(profile: &str, rustc: &[&str]) -> String {
    run(build("app", profile, rustc).join("app"))
}

#[test]
fn every_profile_has_every_kernel() {
    for profile in ["dev", "release", "fat", "thin"] {
        assert_eq!(app(profile, &[]), ALL, "{profile}");
    }
}

#[test]
fn every_linker_has_every_kernel_also_when_it_collects_sections() {
    for linker in ["bfd", "gold", "lld", "mold"] {
        let fuse = format!("link-arg=-fuse-ld={linker}");
        let flags = ["-C", &fuse, "-C", "link-arg=-Wl,--gc-sections", "-C", "link-arg=-Wl,-O2"];
        // Of all but GNU ld, gcc takes what the machine has.
        let there = Command::new("gcc").args([&format!("-fuse-ld={linker}"), "-Wl,--version"]).output();
        match there.is_ok_and(|o| o.status.success()) {
            true => assert_eq!(app("release", &flags), ALL, "{linker}"),
            false => println!("SKIPPED: gcc finds no {linker} on this machine"),
        }
    }
}

#[test]
fn a_crate_that_nobody_names_is_an_error_that_says_how_to_name_it() {
    let said = run(build("unnamed", "dev", &[]).join("unnamed"));
    let expected = "error: backend crate \"kernels-alpha\" is not linked: the feature \"alpha\" is on, and the crate's \
                    manifest is not in the binary\n  fix: name the crate in code: `use kernels_alpha as _;`";
    assert!(said.starts_with(expected), "{said}");
}

/// Compiles main.c with `link`, and runs it.
fn c_program(name: &str, link: &[String]) -> String {
    let program = target().join(name);
    let mut gcc = Command::new("gcc");
    gcc.arg("-o").arg(&program).arg(root().join("tests/linking/main.c")).args(link);
    text(&gcc.args(["-lpthread", "-ldl", "-lm", "-Wl,--gc-sections"]).output().unwrap());
    run(program)
}

#[test]
fn a_shared_library_has_every_kernel() {
    let folder = build("shared", "release", &[]);
    let folder = folder.display();
    let link = [format!("-L{folder}"), "-lshared".into(), format!("-Wl,-rpath,{folder}")];
    assert_eq!(c_program("with-cdylib", &link), ALL);
}

#[test]
fn a_static_library_in_a_c_program_is_whole_or_an_error() {
    let folder = build("shared", "release", &[]);
    let library = folder.join("libshared.a").display().to_string();
    let whole = ["-Wl,--whole-archive".into(), library.clone(), "-Wl,--no-whole-archive".into()];
    assert_eq!(c_program("with-whole-archive", &whole), ALL);
    let report = c_program("with-archive", std::slice::from_ref(&library));
    println!("a static library without --whole-archive: {report}");
    let said = report.starts_with("error: backend crate \"") && report.contains("whole-archive");
    assert!(report == ALL || said, "{report}");

    // Constructors that were stripped: manifests have none, and tell.
    let stripped = target().join("libstripped.a").display().to_string();
    let sections = ["--remove-section=.init_array", "--remove-section=.init_array.*"];
    let output = Command::new("objcopy").args(sections).args([&library, &stripped]).output().unwrap();
    text(&output);
    let whole = ["-Wl,--whole-archive".into(), stripped, "-Wl,--no-whole-archive".into()];
    let said = c_program("without-constructors", &whole);
    let expected = "error: backend crate \"kernels-alpha\" is not linked: its manifest promises \"alpha\" kernels, and \
                    none is in the binary\n  fix: keep the object files with the registrations: no stripped constructor \
                    section, and in a static library link it whole (`-Wl,--whole-archive`)";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn cargo_refuses_two_cores() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let core = root().join("crates/core");
    // The other core is only its manifest: cargo refuses before it compiles anything.
    let package = |name: &str, version: &str, rest: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"{version}\"\nedition = \"2024\"\n{rest}\n")
    };
    write("other/Cargo.toml", &package("kernels-core", "9.0.0", "links = \"kernels-core\""));
    write("other/src/lib.rs", "");
    write("other/build.rs", "fn main() {}");
    let both = format!(
        "[dependencies]\nfirst = {{ package = \"kernels-core\", path = {core:?} }}\nsecond = {{ package = \"kernels-core\", path = \"other\" }}\n"
    );
    write("Cargo.toml", &package("app", "0.0.0", &both));
    write("src/lib.rs", "");
    let manifest = folder.path().join("Cargo.toml");
    let output =
        Command::new(env!("CARGO")).args(["tree", "--manifest-path"]).arg(manifest).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("links to the native library `kernels-core`"),
        "{said}"
    );
}
