//! "A backend in ten minutes" and "an op in ten minutes", done step by step as they stand in docs/: commands are run, files are
//! written, and what a command should print is looked for in what it prints.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// A guide as a shell script.
fn script(guide: &str) -> String {
    let (mut script, mut file, mut lines) = (String::new(), None, guide.lines());
    while let Some(line) = lines.next() {
        // "`src/lib.rs`:" names the file of the block that follows.
        if let Some(name) = line.strip_prefix('`').and_then(|l| l.strip_suffix("`:")) {
            file = Some(name.to_string());
        }
        let Some(language) = line.strip_prefix("```") else { continue };
        let block: Vec<_> = lines.by_ref().take_while(|l| *l != "```").collect();
        match (language, file.take()) {
            ("sh", _) => {
                for command in block {
                    let _ = match command.starts_with("cd ") {
                        true => writeln!(script, "{command}"),
                        false => {
                            writeln!(script, "echo '$ {}'", command.replace('\'', "'\\''")).and_then(|()| {
                                writeln!(script, "run <<'END_OF_COMMAND'\n{command}\nEND_OF_COMMAND")
                            })
                        }
                    };
                }
            }
            ("text", _) => block.iter().for_each(|said| {
                let _ = writeln!(script, "said <<'END_OF_LINE'\n{said}\nEND_OF_LINE");
            }),
            (_, Some(name)) => {
                let _ = writeln!(script, "cat > {name} <<'END_OF_FILE'\n{}\nEND_OF_FILE", block.join("\n"));
            }
            _ => {}
        }
    }
    script
}

/// What every command goes through.
const PRELUDE: &str = r#"
set -eu
log=$(mktemp)
run() { if ! bash -euo pipefail -c "$(cat)" > "$log" 2>&1; then cat "$log"; echo "THIS COMMAND FAILED"; exit 1; fi; cat "$log"; }
said() { text=$(cat); grep -qF -- "$text" "$log" || { echo "NOT SAID: $text"; exit 1; }; }
"#;

#[test]
fn the_guides_work_as_they_stand() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guides = ["docs/backend.md", "docs/op.md"].map(|g| std::fs::read_to_string(root.join(g)).unwrap());
    let folder = tempfile::tempdir().unwrap();
    // The crates as they are here, and the versions that are locked here.
    let crates = ["core", "ops", "harness", "cli", "models", "gpu"];
    let patches: String =
        crates.iter().map(|c| format!("kernels-{c}.path = {:?}\n", root.join("crates").join(c))).collect();
    std::fs::create_dir(folder.path().join(".cargo")).unwrap();
    let config = format!("[patch.crates-io]\n{patches}\n[profile.dev]\ndebug = false\n");
    std::fs::write(folder.path().join(".cargo/config.toml"), config).unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_kernels")).parent().unwrap();
    let path = std::env::join_paths(
        std::iter::once(bin.to_path_buf()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let lock = format!("cp {:?} $1/Cargo.lock", root.join("Cargo.lock"));
    let text = format!(
        "{PRELUDE}\nlock() {{ {lock}; }}\n{}\ncd ..\n{}",
        script(&guides[0]).replacen("cd kernels-acme\n", "cd kernels-acme\nlock .\n", 1),
        script(&guides[1]).replacen("cd ops-acme\n", "cd ops-acme\nlock .\n", 1),
    );
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(&text).current_dir(folder.path());
    for name in ["KERNELS_BACKEND", "KERNELS_POLICY", "KERNELS_QUARANTINE", "CARGO_MANIFEST_DIR"] {
        bash.env_remove(name);
    }
    let output = bash
        .env("PATH", path.unwrap())
        .env("CARGO_TERM_COLOR", "never")
        // A folder of its own: the outer cargo holds the lock of the usual one.
        .env("CARGO_TARGET_DIR", root.join("target/out-of-tree"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.matches("\n$ ").count() > 12, "the guides have commands: {said}");
}

#[test]
fn every_error_has_its_section_and_no_section_is_stale() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("docs/errors.md")).unwrap();
    let mut sections: Vec<_> = text.lines().filter_map(|l| l.strip_prefix("## ")).collect();
    let mut names = kernel_registry::error_names();
    sections.sort_unstable();
    names.sort_unstable();
    assert_eq!(sections, names);
    let error = kernel_registry::Registry::linked().unwrap().device("tpu:0").unwrap_err();
    assert_eq!(error.name(), "DeviceUnavailable");
    assert!(error.to_string().ends_with("guide/errors/index.html#deviceunavailable"), "{error}");
}
