//! One error enum for each layer; each error names the op, the device and the fix.

use crate::decide::Decision;
use crate::dtype::DType;
use crate::names::{Backend, DeviceId, DeviceKind, did_you_mean};
use crate::reason::Reason;
use std::fmt::Write as _;
use strum::{IntoStaticStr, VariantNames};
use thiserror::Error as ThisError;

/// What this library returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any error of this library, by layer. Its text ends with the address of its section in the guide.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// What was linked does not hold together.
    Build(BuildError),
    /// A setting is wrong.
    Config(ConfigError),
    /// No kernel, or no device, for the call.
    Select(SelectError),
    /// The arguments do not fit the op.
    Call(CallError),
    /// The kernel could not do its work.
    Run(RunError),
}

macro_rules! layers {
    ($($layer:ident($of:ident)),*) => {
        $( impl From<$of> for Error {
            fn from(error: $of) -> Error {
                Error::$layer(error)
            }
        } )*

        impl Error {
            /// The name of its section in the guide: `NoneUsable`.
            pub fn name(&self) -> &'static str {
                match self { $( Error::$layer(e) => e.into() ),* }
            }

            /// The error of its layer.
            fn layer(&self) -> &(dyn std::error::Error + 'static) {
                match self { $( Error::$layer(e) => e ),* }
            }
        }
    };
}
layers!(Build(BuildError), Config(ConfigError), Select(SelectError), Call(CallError), Run(RunError));

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n  more: {GUIDE}#{}", self.layer(), self.name().to_lowercase())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The layer's own text is in this one's.
        self.layer().source()
    }
}

/// The guide's page of errors, with a section for each.
const GUIDE: &str = "https://docs.rs/kernel-registry/latest/kernel_registry/guide/errors/index.html";

/// What was linked does not hold together. Found when the registry is built, at first use.
#[derive(Clone, Debug, ThisError, IntoStaticStr, VariantNames)]
#[non_exhaustive]
pub enum BuildError {
    /// A backend crate is enabled, and all or half of it is missing from the binary.
    #[error("backend crate \"{package}\" is not linked: {detail}\n  fix: {fix}")]
    BackendNotLinked {
        /// The crate.
        package: String,
        /// What is missing.
        detail: String,
        /// The cure.
        fix: String,
    },
    /// Two kernels for one place.
    #[error(
        "kernel \"{id}\" is registered twice: by {first} and by {second}\n  fix: drop one, give it another \
         variant, or state `replaces: Some(\"{id}\")` in the one that should win"
    )]
    DuplicateKernel {
        /// The kernels' id.
        id: String,
        /// First site.
        first: String,
        /// Second site.
        second: String,
    },
    /// Two ops of one name.
    #[error("op \"{op}\" is declared twice: by {first} and by {second}\n  fix: rename one")]
    DuplicateOp {
        /// The name.
        op: String,
        /// First site.
        first: String,
        /// Second site.
        second: String,
    },
    /// A spec that cannot be right.
    #[error("kernel \"{id}\" from {origin} has an invalid spec: {detail}")]
    InvalidSpec {
        /// The kernel's id.
        id: String,
        /// Where it is declared.
        origin: String,
        /// What is wrong.
        detail: String,
    },
}

/// A setting is wrong: a name from the environment, the API or a command line.
#[derive(Clone, Debug, ThisError, IntoStaticStr, VariantNames)]
#[non_exhaustive]
pub enum ConfigError {
    /// No such op.
    #[error("unknown op \"{op}\"{}\n  fix: `kernels list` shows the ops of this binary", did_you_mean(.nearest.as_deref()))]
    UnknownOp {
        /// As given.
        op: String,
        /// The nearest op's name.
        nearest: Option<String>,
    },
    /// No such backend.
    #[error("unknown backend \"{backend}\" (linked: {linked:?}){}\n  fix: {}", did_you_mean(.nearest.as_deref()), enable(.features_off))]
    UnknownBackend {
        /// As given.
        backend: String,
        /// The nearest backend's name.
        nearest: Option<String>,
        /// Backends in this binary.
        linked: Vec<Backend>,
        /// Features that would bring more.
        features_off: Vec<&'static str>,
    },
    /// A variable or option that does not parse.
    #[error("{name}: {detail}")]
    Invalid {
        /// The variable or option.
        name: &'static str,
        /// What is wrong, and what is right.
        detail: String,
    },
}

/// No kernel, or no device, for the call.
#[derive(Debug, ThisError, IntoStaticStr, VariantNames)]
#[non_exhaustive]
pub enum SelectError {
    /// The device itself is not to be had.
    #[error("device \"{device}\" is not available: {why}\n  fix: {fix}")]
    DeviceUnavailable {
        /// As asked for.
        device: String,
        /// Why.
        why: String,
        /// What to do.
        fix: String,
    },
    /// The op is known and no linked crate implements it.
    #[error("op \"{op}\" has no kernel in this binary\n  fix: {}", enable(.features_off))]
    NoKernelRegistered {
        /// The op.
        op: String,
        /// Features that would bring more.
        features_off: Vec<&'static str>,
    },
    /// The backend asked for has no kernel for the op.
    #[error(
        "op \"{op}\" has no \"{backend}\" kernel (registered: {registered:?})\n  fix: name one of those, or {}",
        enable(.features_off)
    )]
    BackendNotRegistered {
        /// The op.
        op: String,
        /// The backend asked for.
        backend: Backend,
        /// The op's backends.
        registered: Vec<Backend>,
        /// Features that would bring more.
        features_off: Vec<&'static str>,
    },
    /// The backend asked for cannot run here; it was named, so nothing else is tried.
    #[error("op \"{}\" cannot run on backend \"{backend}\" on device \"{}\", which {level} asks for{}", .decision.op, .decision.device, reasons(.decision))]
    PinnedUnusable {
        /// The backend asked for.
        backend: Backend,
        /// Who asked.
        level: crate::Level,
        /// Every candidate with its reasons.
        decision: Box<Decision>,
    },
    /// No candidate can run here.
    #[error("op \"{}\" has no backend usable on device \"{}\" (registered: {:?}){}", .decision.op, .decision.device, .decision.backends(), reasons(.decision))]
    NoneUsable {
        /// Every candidate with its reasons.
        decision: Box<Decision>,
    },
    /// Several backends can run, and the strict form was asked to choose one.
    #[error(
        "op \"{op}\" has several usable backends on device \"{device}\": {usable:?}\n  fix: name one, or use the ranked form"
    )]
    Ambiguous {
        /// The op.
        op: String,
        /// The device.
        device: DeviceId,
        /// The usable backends.
        usable: Vec<Backend>,
    },
    /// Only candidates that the policy forbids are left.
    #[error("op \"{}\" on device \"{}\": the policy forbids every kernel that could run{}", .decision.op, .decision.device, reasons(.decision))]
    PolicyForbids {
        /// Every candidate with its reasons.
        decision: Box<Decision>,
    },
    /// A start-up check found ops without a usable kernel.
    #[error("{} of the required ops cannot run on device \"{device}\":\n{}", .errors.len(), join(.errors))]
    Required {
        /// The device.
        device: DeviceId,
        /// One error for each op.
        errors: Vec<Error>,
    },
}

/// The arguments do not fit the op.
#[derive(Clone, Debug, ThisError, IntoStaticStr, VariantNames)]
#[non_exhaustive]
pub enum CallError {
    /// A dimension is not what the others ask for.
    #[error("{op}: shape of \"{tensor}\": {detail}")]
    ShapeMismatch {
        /// The op.
        op: &'static str,
        /// The argument.
        tensor: &'static str,
        /// Expected and given.
        detail: String,
    },
    /// An element type that the op does not have.
    #[error(
        "{op}: \"{tensor}\" is {have}, the op takes {takes} there\n  fix: convert it, or check which tensor you passed"
    )]
    DTypeUnsupported {
        /// The op.
        op: &'static str,
        /// The argument.
        tensor: &'static str,
        /// Given.
        have: DType,
        /// Taken.
        takes: String,
    },
    /// Strides that no kernel takes.
    #[error(
        "{op}: \"{tensor}\" has {layout}; the last dimension's stride must be 1{detail}\n  fix: pass a contiguous copy"
    )]
    NotContiguous {
        /// The op.
        op: &'static str,
        /// The argument.
        tensor: &'static str,
        /// Shape and strides.
        layout: String,
        /// What else is asked.
        detail: &'static str,
    },
    /// An output whose elements overlap.
    #[error(
        "{op}: output \"{tensor}\" overlaps itself or an input ({layout})\n  fix: give the output memory of its own"
    )]
    Aliased {
        /// The op.
        op: &'static str,
        /// The argument.
        tensor: &'static str,
        /// Shape and strides.
        layout: String,
    },
    /// A parameter outside its range, or an index found in a tensor that is.
    #[error(
        "{op} on {device}: {what} is {value}, outside {range}\n  fix: check where that value comes from; elements that it selects were skipped"
    )]
    OutOfRange {
        /// The op.
        op: &'static str,
        /// The device.
        device: DeviceId,
        /// Which value.
        what: &'static str,
        /// Given.
        value: String,
        /// Allowed.
        range: String,
    },
    /// A row whose values must be numbers, and are not.
    #[error(
        "{op} on {device}: row {row} holds NaN (or only infinities that leave no choice)\n  fix: look for the op before it that made the NaN; `--trace` shows what ran"
    )]
    NotANumber {
        /// The op.
        op: &'static str,
        /// The device.
        device: DeviceId,
        /// The first such row that was seen.
        row: usize,
    },
    /// Tensors of two devices in one call.
    #[error(
        "{op}: \"{first}\" is on {device}, \"{second}\" is on {other}\n  fix: move one of them with `to_device`; nothing is moved implicitly"
    )]
    DeviceMismatch {
        /// The op.
        op: &'static str,
        /// One argument.
        first: &'static str,
        /// Its device.
        device: DeviceId,
        /// The other argument.
        second: &'static str,
        /// Its device.
        other: DeviceId,
    },
    /// Arguments handed to a kernel that was selected for others.
    #[error(
        "kernel \"{kernel}\" was selected for {selected}; these arguments are {given}\n  fix: select again for them"
    )]
    WrongSelection {
        /// The kernel.
        kernel: String,
        /// Device and class of the selection.
        selected: String,
        /// Device and class of the arguments.
        given: String,
    },
}

/// The kernel could not do its work.
#[derive(Debug, ThisError, IntoStaticStr, VariantNames)]
#[non_exhaustive]
pub enum RunError {
    /// Its code could not be loaded.
    #[error("kernel \"{kernel}\" could not be loaded on {device}: {source}")]
    LoadFailed {
        /// The kernel.
        kernel: String,
        /// The device.
        device: DeviceId,
        /// The loader's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No memory.
    #[error("out of memory on {device}: {detail}\n  fix: use a smaller batch or context, or free tensors")]
    OutOfMemory {
        /// The device.
        device: DeviceId,
        /// In words.
        detail: String,
    },
    /// The device refused or aborted the work.
    #[error("kernel \"{kernel}\" failed on {device}: {detail}")]
    LaunchFailed {
        /// The kernel.
        kernel: String,
        /// The device.
        device: DeviceId,
        /// In the driver's words.
        detail: String,
    },
    /// A copy to or from a device, or a conversion on the way, is not possible.
    #[error("copy on {device}: {detail}")]
    Copy {
        /// The device.
        device: DeviceId,
        /// In words.
        detail: String,
    },
    /// The device's queue cannot be changed.
    #[error("stream of {device}: {detail}")]
    Stream {
        /// The device.
        device: DeviceId,
        /// In words.
        detail: String,
    },
}

/// What a driver says of work that it could not do.
#[derive(Clone, Debug, ThisError)]
#[non_exhaustive]
pub enum DriverError {
    /// This call failed, in the driver's words.
    #[error("{0}")]
    Words(String),
    /// Work queued earlier failed.
    #[error("{op}, which ran before, failed: {detail}")]
    Queued {
        /// The op whose kernel it was.
        op: &'static str,
        /// In the driver's words.
        detail: String,
    },
    /// A kernel that ran earlier found an index out of range, or a row that is not a number; see
    /// [`Ctx::out_of_range`](crate::Ctx::out_of_range).
    #[error("{op}, which ran before, found {value}, outside 0..{limit}")]
    Fault {
        /// The op.
        op: &'static str,
        /// What it found.
        value: i64,
        /// What it must be below; [`DriverError::NAN_ROW`] where `value` is a row without numbers.
        limit: i64,
    },
}

impl DriverError {
    /// The limit of a fault that is a row of NaN.
    pub const NAN_ROW: i64 = crate::ctx::NAN_ROW;

    /// As an error of `device`; `words` says what this call was.
    pub fn on(self, device: DeviceId, words: impl FnOnce(String) -> RunError) -> Error {
        match self {
            DriverError::Words(detail) => words(detail).into(),
            DriverError::Queued { op, detail } => {
                RunError::LaunchFailed { kernel: op.into(), device, detail }.into()
            }
            DriverError::Fault { op, value, limit } => CallError::fault(op, device, value, limit).into(),
        }
    }
}

impl From<String> for DriverError {
    fn from(words: String) -> DriverError {
        DriverError::Words(words)
    }
}

pub(crate) fn enable(features_off: &[&'static str]) -> String {
    match features_off {
        [] => "link a crate that brings one (`use kernels_foo as _;`)".into(),
        off => format!("enable one of the cargo features {off:?}, or link a crate that brings one"),
    }
}

fn join(errors: &[Error]) -> String {
    errors.iter().map(|e| format!("- {}\n", e.layer())).collect()
}

/// One line a candidate with its reasons, then what to do.
fn reasons(decision: &Decision) -> String {
    let mut text = String::new();
    let width = decision.candidates.iter().map(|c| c.spec.id().len()).max().unwrap_or(0);
    let mut fixes = Vec::new();
    for c in &decision.candidates {
        let why = if c.reasons.is_empty() { "is usable, and was not asked for".into() } else { c.why() };
        let _ = write!(text, "\n  {:width$}  {why}", c.spec.id());
        // A kernel for another kind of device is not nearer to running for a conversion.
        let same_kind = c.spec.kinds().contains(&decision.device.kind);
        fixes.extend(c.reasons.iter().filter(|_| same_kind).filter_map(Reason::fix));
    }
    fixes.extend(decision.fix.clone());
    fixes.dedup();
    if fixes.is_empty() {
        fixes.push("put the tensors on a device that one of these runs on".into());
    }
    for fix in fixes {
        let _ = write!(text, "\n  fix: {fix}");
    }
    text
}

impl CallError {
    /// A dimension that does not fit.
    pub fn shape(op: &'static str, tensor: &'static str, detail: impl Into<String>) -> CallError {
        CallError::ShapeMismatch { op, tensor, detail: detail.into() }
    }

    /// What a kernel reported through the error word.
    pub(crate) fn fault(op: &'static str, device: DeviceId, value: i64, limit: i64) -> CallError {
        match limit {
            crate::ctx::NAN_ROW => CallError::NotANumber { op, device, row: value as usize },
            _ => {
                let (value, range) = (value.to_string(), format!("0..{limit}"));
                CallError::OutOfRange { op, device, what: "an index in a tensor", value, range }
            }
        }
    }
}

/// What a device kind needs from cargo, for an error about one that nothing serves.
pub(crate) fn feature_for(kind: DeviceKind, off: &[(&'static str, &'static str)]) -> Option<String> {
    let (feature, _) = off.iter().find(|(_, serves)| *serves == kind.0)?;
    Some(format!("enable the cargo feature \"{feature}\""))
}

/// The names of all errors, as the guide has them.
pub fn error_names() -> Vec<&'static str> {
    let layers: [&[&'static str]; 5] = [
        BuildError::VARIANTS,
        ConfigError::VARIANTS,
        SelectError::VARIANTS,
        CallError::VARIANTS,
        RunError::VARIANTS,
    ];
    layers.concat()
}
