//! Where shared libraries are looked for, in words for errors and as paths.

use std::path::PathBuf;

/// The folders besides the loader's own that CUDA libraries live in: `CUDA_HOME`, the toolkit's usual place, and the
/// wheels of an active Python environment (`nvidia/*/lib`).
pub(crate) fn folders() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        all.extend(std::env::var_os(variable).map(|home| PathBuf::from(home).join("lib64")));
    }
    all.push("/usr/local/cuda/lib64".into());
    if let Some(environment) = std::env::var_os("VIRTUAL_ENV").or_else(|| std::env::var_os("CONDA_PREFIX")) {
        let pythons =
            std::fs::read_dir(PathBuf::from(environment).join("lib")).into_iter().flatten().flatten();
        for python in pythons {
            let wheels = std::fs::read_dir(python.path().join("site-packages/nvidia"));
            all.extend(wheels.into_iter().flatten().flatten().map(|w| w.path().join("lib")));
        }
    }
    all.retain(|folder| folder.is_dir());
    all
}

/// Names and places that were tried, for a `RuntimeMissing`.
pub(crate) fn tried(names: &[&str], folders: &[PathBuf]) -> Vec<String> {
    let mut all: Vec<String> = names.iter().map(|n| n.to_string()).collect();
    match std::env::var("LD_LIBRARY_PATH") {
        Ok(path) if !path.is_empty() => all.push(format!("in LD_LIBRARY_PATH={path}")),
        _ => all.push("LD_LIBRARY_PATH is not set".into()),
    }
    all.push("the system's library folders".into());
    all.extend(folders.iter().map(|f| f.display().to_string()));
    all
}
