//! Manifests: what a backend crate says of itself, by a second way than its kernels.
//!
//! Kernel specs come through `inventory`, which needs constructors to run; manifests come through a
//! `linkme` slice, which needs none. Each is the other's witness: see `registry::integrity`.

use crate::device::Driver;
use crate::names::Backend;

/// A backend crate. Declared once at its root by [`crate::backend!`].
pub struct Manifest {
    /// Crate name.
    pub package: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The backends whose kernels it brings. Empty for a crate that so far brings a driver only.
    pub backends: &'static [Backend],
    /// Its device seam.
    pub driver: &'static dyn Driver,
}

/// What the crate that enables backends says: its features that bring one, on and off.
pub struct FeatureReport {
    /// The crate that speaks.
    pub package: &'static str,
    /// Enabled: (feature, crate that must therefore be linked).
    pub on: &'static [(&'static str, &'static str)],
    /// Disabled: (feature, device kind that it would serve).
    pub off: &'static [(&'static str, &'static str)],
}

#[cfg(not(any(miri, target_family = "wasm")))]
mod slices {
    use super::{FeatureReport, Manifest};

    /// The manifests of all linked backend crates.
    #[linkme::distributed_slice]
    pub static MANIFESTS: [&'static Manifest];

    /// The feature reports of all linked facades.
    #[linkme::distributed_slice]
    pub static FEATURES: [&'static FeatureReport];
}
#[cfg(not(any(miri, target_family = "wasm")))]
pub use slices::{FEATURES, MANIFESTS};

#[cfg(any(miri, target_family = "wasm"))]
mod slices {
    use super::{FeatureReport, Manifest};
    /// linkme does not work here: manifests are then those that kernels name.
    pub static MANIFESTS: [&Manifest; 0] = [];
    /// linkme does not work here.
    pub static FEATURES: [&FeatureReport; 0] = [];
}
#[cfg(any(miri, target_family = "wasm"))]
pub use slices::{FEATURES, MANIFESTS};
