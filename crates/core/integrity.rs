//! Checks on what was linked. The linker drops what nobody names, without a word; these checks give it
//! words.

use crate::error::BuildError;
use crate::manifest::{FeatureReport, Manifest};
use crate::names::Backend;
use crate::op::AnyKernel;
use crate::spec::KernelSpec;
use std::collections::HashMap;

/// The two registration mechanisms against each other, and both against the enabled features.
pub(crate) fn crates(
    manifests: &[&'static Manifest],
    features: &[&'static FeatureReport],
    kernels: &[&'static dyn AnyKernel],
) -> Result<(), BuildError> {
    for (feature, package) in features.iter().flat_map(|f| f.on) {
        if !manifests.iter().any(|m| m.package == *package) {
            return Err(BuildError::BackendNotLinked {
                package: (*package).into(),
                detail: format!(
                    "the feature \"{feature}\" is on, and the crate's manifest is not in the binary"
                ),
                fix: format!(
                    "name the crate in code: `use {} as _;`; a static library that has it, link whole \
                     (`-Wl,--whole-archive`)",
                    package.replace('-', "_")
                ),
            });
        }
    }
    let mut have: Vec<(*const Manifest, Backend)> =
        kernels.iter().map(|k| (std::ptr::from_ref(k.spec().manifest), k.spec().backend)).collect();
    have.sort_unstable();
    have.dedup();
    for m in manifests {
        for backend in m.backends {
            if have.binary_search(&(std::ptr::from_ref(*m), *backend)).is_err() {
                return Err(BuildError::BackendNotLinked {
                    package: m.package.into(),
                    detail: format!("its manifest promises \"{backend}\" kernels, and none is in the binary"),
                    fix: "keep the object files with the registrations: no stripped constructor section, \
                          and in a static library link it whole (`-Wl,--whole-archive`)"
                        .into(),
                });
            }
        }
    }
    let known: Vec<_> = manifests.iter().map(|m| std::ptr::from_ref(*m)).collect();
    for k in kernels {
        let spec = k.spec();
        let (package, backend) = (spec.manifest.package, spec.backend);
        let missing = if !known.contains(&std::ptr::from_ref(spec.manifest)) {
            "its kernels are in the binary, and its manifest is not".into()
        } else if !spec.manifest.backends.contains(&backend) {
            format!("its kernel {} is of backend \"{backend}\", which its manifest does not name", spec.id())
        } else {
            continue;
        };
        return Err(BuildError::BackendNotLinked {
            package: package.into(),
            detail: missing,
            fix: "declare both with `kernels_core::backend!` at the root of the crate".into(),
        });
    }
    Ok(())
}

/// Removes the kernels that others replace.
pub(crate) fn replace(kernels: &mut Vec<&'static dyn AnyKernel>) -> Result<(), BuildError> {
    let wanted: HashMap<&str, &KernelSpec> =
        kernels.iter().map(|k| k.spec()).filter_map(|s| Some((s.replaces?, s))).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let mut missing = wanted.clone();
    kernels.retain(|k| {
        let (spec, id) = (k.spec(), k.spec().id());
        let gone = wanted.get(id.as_str()).is_some_and(|by| !std::ptr::eq(*by, spec));
        if gone {
            missing.remove(id.as_str());
        }
        !gone
    });
    match missing.into_iter().min_by_key(|(id, _)| *id) {
        None => Ok(()),
        Some((id, by)) => Err(BuildError::InvalidSpec {
            id: by.id(),
            origin: by.origin.to_string(),
            detail: format!("it replaces \"{id}\", which is not registered"),
        }),
    }
}

/// A spec in itself, and that its op (at index `op`) exists.
pub(crate) fn spec(spec: &KernelSpec, op: Option<usize>) -> Result<usize, BuildError> {
    let detail = if op.is_none() {
        format!("its op \"{}\" is not registered", spec.op)
    } else if spec.backend.0.is_empty()
        || spec.backend.0.contains(|c: char| c.is_whitespace() || "=,*".contains(c))
    {
        format!("{:?} cannot be a backend's name", spec.backend.0)
    } else if spec.formats.dtypes.is_empty() {
        "it takes no element type".into()
    } else {
        return Ok(op.unwrap_or_default());
    };
    Err(BuildError::InvalidSpec { id: spec.id(), origin: spec.origin.to_string(), detail })
}

/// Two kernels of one op with the same backend, variant and formats. The list is sorted, so twins are
/// neighbours.
pub(crate) fn duplicates(kernels: &[&'static dyn AnyKernel]) -> Result<(), BuildError> {
    let place = |k: &'static dyn AnyKernel| (k.spec().backend, k.spec().variant, k.spec().formats);
    let mut order: Vec<_> = kernels.iter().map(|k| (place(*k), k.spec())).collect();
    order.sort_by_key(|(place, s)| (*place, s.origin.file, s.origin.line));
    match order.array_windows().find(|[a, b]| a.0 == b.0) {
        None => Ok(()),
        Some([(_, a), (_, b)]) => Err(BuildError::DuplicateKernel {
            id: a.id(),
            first: a.origin.to_string(),
            second: b.origin.to_string(),
        }),
    }
}
