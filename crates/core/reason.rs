//! Why one candidate cannot run.

use crate::dtype::DType;
use crate::names::DeviceKind;
use std::fmt;

/// Why a kernel, or a whole driver, is not usable on a device for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Its backend crate was not compiled in.
    FeatureOff {
        /// The cargo feature that brings it.
        feature: &'static str,
    },
    /// A library that its driver needs is not on the machine.
    RuntimeMissing {
        /// The library, in words.
        library: String,
        /// The names that were tried.
        tried: Vec<String>,
        /// What to install.
        fix: String,
    },
    /// The installed driver is older than what the backend needs.
    DriverTooOld {
        /// Installed.
        have: String,
        /// Needed.
        need: String,
    },
    /// The driver is there and sees no device.
    NoDevice {
        /// In the driver's words.
        detail: String,
    },
    /// It runs on another kind of device.
    WrongDevice {
        /// The device in front of it.
        have: DeviceKind,
        /// What it needs.
        need: DeviceKind,
    },
    /// The architecture is not one that it admits.
    ArchOutside {
        /// The device's.
        have: String,
        /// What it needs (for a CPU: what is missing).
        need: String,
    },
    /// The architecture is not known, and it needs a certain one.
    ArchUnknown {
        /// What it needs.
        need: String,
    },
    /// It does not take this element type.
    DType {
        /// The call's.
        have: DType,
        /// What it takes.
        takes: String,
    },
    /// It does not take this memory layout.
    Layout {
        /// In its gate's words.
        detail: String,
    },
    /// It does not take this shape.
    Shape {
        /// In its gate's words.
        detail: String,
    },
    /// It is experimental, and the policy does not allow that.
    Experimental,
    /// It is not deterministic, and the policy asks for that.
    NonDeterministic,
    /// It rounds activations to 8 bits, and the policy asks for full precision.
    QuantisesActivations,
    /// It is the contract's own slow implementation, which a strict selection takes only by name.
    ReferenceNotNamed,
    /// It failed its self-test on this device.
    Quarantined {
        /// What failed.
        detail: String,
    },
}

impl Reason {
    /// Whether the kernel could run nevertheless: the policy forbids it, or a quarantine.
    pub fn is_a_choice(&self) -> bool {
        use Reason::{Experimental, NonDeterministic, QuantisesActivations, Quarantined, ReferenceNotNamed};
        matches!(
            self,
            Experimental | NonDeterministic | QuantisesActivations | ReferenceNotNamed | Quarantined { .. }
        )
    }

    /// What to do about it, where the reason itself knows.
    pub fn fix(&self) -> Option<String> {
        Some(match self {
            Reason::FeatureOff { feature } => format!("enable the cargo feature \"{feature}\""),
            Reason::RuntimeMissing { fix, .. } => fix.clone(),
            Reason::DriverTooOld { need, .. } => format!("update the driver to {need} or later"),
            Reason::ArchOutside { .. } if std::env::var_os("KERNELS_CPU_FEATURES").is_some() => {
                "unset KERNELS_CPU_FEATURES, which takes CPU features away".into()
            }
            Reason::DType { takes, .. } => format!("convert the tensor to one of: {takes}"),
            Reason::Experimental => "allow experimental kernels in the policy".into(),
            Reason::NonDeterministic => "allow non-deterministic kernels in the policy".into(),
            Reason::QuantisesActivations => "take full-precision out of the policy".into(),
            Reason::Quarantined { .. } => {
                "update or repair what the kernel runs on, and run `kernels check --quarantine FILE` again"
                    .into()
            }
            Reason::ReferenceNotNamed => "name the backend \"reference\", or use the ranked form".into(),
            _ => return None,
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::FeatureOff { feature } => write!(f, "the cargo feature \"{feature}\" is off"),
            Reason::RuntimeMissing { library, tried, .. } => {
                write!(f, "{library} is not installed (tried {})", tried.join(", "))
            }
            Reason::DriverTooOld { have, need } => write!(f, "driver {have} is too old, {need} is needed"),
            Reason::NoDevice { detail } => write!(f, "no device: {detail}"),
            Reason::WrongDevice { have, need } => write!(f, "runs on {need}, not on {have}"),
            Reason::ArchOutside { have, need } => write!(f, "needs {need}; the device has {have}"),
            Reason::ArchUnknown { need } => write!(f, "needs {need}; the device's architecture is unknown"),
            Reason::DType { have, takes } => write!(f, "does not take {have} (takes {takes})"),
            Reason::Layout { detail } | Reason::Shape { detail } => f.write_str(detail),
            Reason::Experimental => f.write_str("is experimental, which the policy does not allow"),
            Reason::NonDeterministic => f.write_str("is not deterministic, which the policy asks for"),
            Reason::QuantisesActivations => {
                f.write_str("rounds activations to 8 bits, and the policy asks for full precision")
            }
            Reason::ReferenceNotNamed => f.write_str("counts only when named"),
            Reason::Quarantined { detail } => write!(f, "is quarantined: {detail}"),
        }
    }
}
