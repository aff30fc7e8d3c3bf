//! The core of kernel-registry: kernels register themselves at link time, and a selector picks, out of
//! what was linked, what can run on the device in front of it.
//!
//! Two flows, each with one direction: a kernel file states its spec beside its function ([`kernel!`]),
//! and the [`Registry`] gathers them; a call site hands arguments to an op, which checks them once
//! ([`Checked`]), the selector finds a kernel ([`Selected`]), and that runs it.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod amx;
mod atomic {
    //! What `slot` is made of; a model checker has its own.
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
}
mod call;
mod ctx;
mod decide;
mod device;
mod dtype;
mod error;
mod host;
mod integrity;
mod layout;
mod macros;
mod manifest;
mod metrics;
mod names;
mod op;
mod packed;
mod place;
mod platform;
mod policy;
mod quarantine;
mod reason;
mod registry;
mod requirement;
mod scope;
mod select;
mod self_test;
mod settings;
mod slot;
mod spec;
mod tensor;
mod trace;
mod view;

pub use call::{OpState, Selected};
pub use ctx::{Ctx, Stream};
pub use decide::{Candidate, Decision};
pub use device::{Device, Driver};
pub use dtype::{DType, DTypeSet, Element};
pub use error::{
    BuildError, CallError, ConfigError, DriverError, Error, Result, RunError, SelectError, error_names,
};
pub use host::{HOST, Host};
pub use layout::{Layout, MAX_RANK, Rows};
pub use manifest::{FEATURES, FeatureReport, MANIFESTS, Manifest};
pub use metrics::{Counts, count_calls};
pub use names::{Backend, DeviceId, DeviceKind, did_you_mean, intern, nearest};
pub use op::{AnyKernel, Checked, Kernel, KernelEntry, Op, OpEntry, OpInfo, Valid};
pub use packed::{Packed, PackedFor};
#[doc(hidden)]
pub use place::{TwoKernelsOfOneOpAndBackendNeedDifferentVariantsOrFormats, place};
pub use platform::{Arch, CpuFeatures, Platform};
pub use policy::{Level, Mode, Policy, Rule, glob};
pub use quarantine::Quarantine;
pub use reason::Reason;
pub use registry::{Parts, Registry};
pub use requirement::{ArchBound, Requirement};
pub use select::{AnySelected, Selector};
pub use self_test::SelfTest;
pub use spec::{Formats, KernelSpec, Key, Origin};
pub use tensor::Tensor;
pub use trace::{Record, Recorder};
pub use view::{View, ViewMut};

pub use float8::F8E4M3;
pub use half::{bf16, f16};
#[doc(hidden)]
pub use inventory;
#[doc(hidden)]
#[cfg(not(any(miri, target_family = "wasm")))]
pub use linkme;
