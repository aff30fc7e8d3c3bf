//! Where shared libraries are looked for, in words for errors and as paths.

pub use libloading::Library;

use kernels_core::Reason;
use std::path::PathBuf;

/// The first library of these names that the loader finds, in its own places or in `folders`.
///
/// # Errors
/// What was tried, with `fix` to say what to install.
pub fn open(what: &str, names: &[&str], folders: Vec<PathBuf>, fix: &str) -> Result<Library, Reason> {
    let folders: Vec<_> = folders.into_iter().filter(|folder| folder.is_dir()).collect();
    let named = names.iter().map(PathBuf::from);
    let placed = folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    // SAFETY: the initialisers of the vendors' libraries do no more than those of any library.
    let found = named.chain(placed).find_map(|path| unsafe { Library::new(path) }.ok());
    let linux: Vec<_> = names.iter().copied().filter(|n| n.contains(".so")).collect();
    found.ok_or_else(|| Reason::RuntimeMissing {
        library: what.into(),
        tried: tried(&linux, &folders),
        fix: fix.into(),
    })
}

/// A struct of functions, all of which a library must have, behind `optional` those that an old one may lack. Libraries
/// that differ in the beginning of their names share one.
#[macro_export]
macro_rules! entry_points {
    ($(#[$doc:meta])* pub struct $library:ident {
        $($name:ident: fn($($arg:ty),*) -> $out:ty,)*
        $(; optional $($may:ident: fn($($may_arg:ty),*) -> $may_out:ty,)*)?
    }) => {
        $(#[$doc])*
        // The library's own documentation is that of its functions.
        #[allow(non_snake_case, missing_docs)]
        pub struct $library {
            $( pub $name: unsafe extern "C" fn($($arg),*) -> $out, )*
            $( $( pub $may: Option<unsafe extern "C" fn($($may_arg),*) -> $may_out>, )* )?
            _library: $crate::host::library::Library,
        }

        #[allow(non_snake_case)]
        impl $library {
            /// The functions, whose names in the library begin with `prefix`.
            ///
            /// # Errors
            /// The name of the function that is missing.
            pub fn resolve(library: $crate::host::library::Library, prefix: &str) -> Result<$library, String> {
                let symbol = |name: &str| format!("{prefix}{name}\0");
                $(
                    // SAFETY: the signature is the library's.
                    let $name = *unsafe { library.get::<unsafe extern "C" fn($($arg),*) -> $out>(symbol(stringify!($name))) }
                        .map_err(|_| format!("{prefix}{}", stringify!($name)))?;
                )*
                $( $(
                    // SAFETY: as above.
                    let $may = unsafe { library.get::<unsafe extern "C" fn($($may_arg),*) -> $may_out>(symbol(stringify!($may))) }
                        .ok().map(|f| *f);
                )* )?
                Ok($library { $($name,)* $( $($may,)* )? _library: library })
            }
        }
    };
}

/// The folders of a Python environment's packages, where one is active: wheels bring libraries.
pub fn site_packages() -> Vec<PathBuf> {
    let Some(environment) = std::env::var_os("VIRTUAL_ENV").or_else(|| std::env::var_os("CONDA_PREFIX"))
    else {
        return Vec::new();
    };
    let pythons = std::fs::read_dir(PathBuf::from(environment).join("lib")).into_iter().flatten().flatten();
    pythons.map(|python| python.path().join("site-packages")).collect()
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
