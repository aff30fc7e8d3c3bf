//! Where shared libraries are looked for, in words for errors and as paths.

use kernels_core::Reason;
use libloading::Library;
use std::path::PathBuf;

/// The first library of these names that the loader finds, in its own places or in [`folders`].
///
/// # Errors
/// What was tried, with `fix` to say what to install.
pub(crate) fn open(what: &str, names: &[&str], fix: &str) -> Result<Library, Reason> {
    let folders = folders();
    let named = names.iter().map(PathBuf::from);
    let placed = folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    // SAFETY: the initialisers of NVIDIA's libraries do no more than those of any library.
    let found = named.chain(placed).find_map(|path| unsafe { Library::new(path) }.ok());
    let linux: Vec<_> = names.iter().copied().filter(|n| n.contains(".so")).collect();
    found.ok_or_else(|| Reason::RuntimeMissing {
        library: what.into(),
        tried: tried(&linux, &folders),
        fix: fix.into(),
    })
}

/// A struct of functions, all of which a library must have.
macro_rules! entry_points {
    ($(#[$doc:meta])* pub struct $library:ident { $($name:ident: fn($($arg:ty),*) -> $out:ty),* $(,)? }) => {
        $(#[$doc])*
        #[allow(non_snake_case)]
        pub struct $library {
            $( pub $name: unsafe extern "C" fn($($arg),*) -> $out, )*
            _library: libloading::Library,
        }

        #[allow(non_snake_case)]
        impl $library {
            /// The name of the function that is missing, where one is.
            fn resolve(library: libloading::Library) -> Result<$library, &'static str> {
                $(
                    // SAFETY: the signature is the library's.
                    let $name = *unsafe { library.get::<unsafe extern "C" fn($($arg),*) -> $out>(concat!(stringify!($name), "\0")) }
                        .map_err(|_| stringify!($name))?;
                )*
                Ok($library { $($name,)* _library: library })
            }
        }
    };
}
pub(crate) use entry_points;

/// The folders besides the loader's own that CUDA libraries live in: `CUDA_HOME`, the toolkit's usual place, and the
/// wheels of an active Python environment (`nvidia/*/lib`).
fn folders() -> Vec<PathBuf> {
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
fn tried(names: &[&str], folders: &[PathBuf]) -> Vec<String> {
    let mut all: Vec<String> = names.iter().map(|n| n.to_string()).collect();
    match std::env::var("LD_LIBRARY_PATH") {
        Ok(path) if !path.is_empty() => all.push(format!("in LD_LIBRARY_PATH={path}")),
        _ => all.push("LD_LIBRARY_PATH is not set".into()),
    }
    all.push("the system's library folders".into());
    all.extend(folders.iter().map(|f| f.display().to_string()));
    all
}
