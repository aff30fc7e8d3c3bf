//! Exactly the promised backends are linked, for whatever features this was compiled with; and a backend
//! that is enabled runs.

use kernel_registry::{Backend, Registry};

#[test]
fn exactly_the_promised_backends_are_linked() {
    let mut backends = vec!["reference"];
    let mut crates = vec!["kernels-ops"];
    let mut off = vec![];
    for (feature, on, package, brings) in [
        ("cpu", cfg!(feature = "cpu"), "kernels-cpu", &["simd"][..]),
        ("candle", cfg!(feature = "candle"), "kernels-candle", &["candle"][..]),
        ("cuda", cfg!(feature = "cuda"), "kernels-cuda", &["nvrtc", "cublaslt"][..]),
        ("rocm", cfg!(feature = "rocm"), "kernels-rocm", &["hiprtc", "hipblaslt"][..]),
    ] {
        if on {
            crates.push(package);
            backends.extend(brings);
        } else {
            off.push(feature);
        }
    }
    crates.sort();
    backends.sort();
    let registry = Registry::linked().unwrap();
    assert_eq!(registry.backends().iter().map(|b| b.0).collect::<Vec<_>>(), backends);
    assert_eq!(registry.manifests().iter().map(|m| m.package).collect::<Vec<_>>(), crates);
    assert_eq!(registry.features_off().iter().map(|f| f.0).collect::<Vec<_>>(), off);
}

#[test]
fn every_op_has_its_reference_and_every_kernel_its_op() {
    let registry = Registry::linked().unwrap();
    for op in registry.ops() {
        let mine: Vec<_> = registry.specs().filter(|s| s.op == op.name).collect();
        assert!(mine.iter().any(|s| s.backend == Backend::REFERENCE), "{} has no reference", op.name);
        assert!(!op.summary.trim().is_empty());
    }
    assert_eq!(
        registry.ops().count(),
        kernels_harness::contract_names().len(),
        "each op has its contract's cases"
    );
}

/// Linking a GPU backend loads no library: registration is metadata. (A box with a GPU shows it by the maps
/// of a process that never asked for a device; asking comes after.)
#[test]
fn registration_is_metadata_only() {
    let registry = Registry::linked().unwrap();
    // A call on the CPU; an explanation would look for the other kernels' devices.
    let x = kernel_registry::Tensor::from_slice(&[1f32, 2.0], &[1, 2]).unwrap();
    let w = kernel_registry::Tensor::from_slice(&[1f32, 1.0], &[2]).unwrap();
    kernel_registry::ops::layernorm::rmsnorm(&x, &w, 1e-5).unwrap();
    assert!(registry.backends().len() > 1 || cfg!(not(any(feature = "cpu", feature = "cuda"))));
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for library in ["libcuda", "libnvrtc", "libcublas", "libamdhip64", "libhiprtc"] {
        assert!(!maps.contains(library), "{library} was loaded before anybody asked for a device");
    }
}
