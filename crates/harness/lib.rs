//! Parity and benches over whatever kernels are registered, from any crate: for the command line, for
//! tests, and for authors of backends.

mod bench;
mod parity;
mod peer;
mod roofline;

pub use bench::{BenchRow, bench};
pub use parity::{Failure, KernelReport, Report, assert_parity, parity, unusable_on};
pub use peer::{Call, CallTensor, Peer, PeerTime};
pub use roofline::Roofline;

use kernels_core::{AnyKernel, Backend, Device, DeviceId, Registry, glob};

/// Which kernels to look at.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Op names, `*` for anything; all where none.
    pub ops: Option<String>,
    /// One backend; all where none.
    pub backend: Option<Backend>,
    /// One device; all live ones where none.
    pub device: Option<DeviceId>,
    /// In benches, cases whose names contain this; all where none.
    pub cases: Option<String>,
    /// In benches, every usable variant of a backend, not only its best.
    pub all_variants: bool,
}

impl Filter {
    /// The kernels of `registry` that it lets through, by op, best rank first.
    pub fn kernels(&self, registry: &Registry) -> Vec<&'static dyn AnyKernel> {
        let wanted = |k: &&'static dyn AnyKernel| {
            let spec = k.spec();
            self.ops.as_ref().is_none_or(|g| glob(g, spec.op))
                && self.backend.is_none_or(|b| b == spec.backend)
        };
        registry.kernels().filter(wanted).collect()
    }

    /// The live devices that it lets through.
    pub fn devices(&self, registry: &Registry) -> Vec<Device> {
        let live = registry.devices().into_iter().filter_map(|(_, d)| d.ok()).flatten().copied();
        live.filter(|d| self.device.is_none_or(|id| id == d.id())).collect()
    }
}

/// The ops that have parity cases.
pub fn contract_names() -> Vec<&'static str> {
    kernels_ops::contracts().iter().map(|c| c.op()).collect()
}
