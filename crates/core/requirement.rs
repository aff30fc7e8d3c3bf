//! What a kernel needs of a platform.

use crate::names::DeviceKind;
use crate::platform::{Arch, CpuFeatures, Platform};
use crate::reason::Reason;
use std::fmt;

/// One clause of a spec's requirements. A spec's clauses have OR meaning: one that holds is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The kind of device.
    pub kind: DeviceKind,
    /// The bound on its architecture.
    pub arch: ArchBound,
}

/// The architectures that a clause admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArchBound {
    /// Every architecture of the kind, also an unknown one.
    Any,
    /// A CPU with all of these.
    Cpu(CpuFeatures),
    /// Compute capabilities from `min` to `max`, both inclusive, as `major * 10 + minor`.
    CudaWindow {
        /// Lowest.
        min: u32,
        /// Highest.
        max: u32,
    },
    /// Exactly these compute capabilities: arch-specific code (sm_90a) does not run on later ones.
    CudaExact(&'static [u32]),
    /// One of these gfx names.
    Gfx(&'static [&'static str]),
    /// One of these names, for an outside backend's own kind.
    Named(&'static [&'static str]),
}

impl Requirement {
    /// Every device of `kind`.
    pub const fn any(kind: DeviceKind) -> Requirement {
        Requirement { kind, arch: ArchBound::Any }
    }

    /// A CPU with all of `features`.
    pub const fn cpu(features: CpuFeatures) -> Requirement {
        Requirement { kind: DeviceKind::CPU, arch: ArchBound::Cpu(features) }
    }

    /// CUDA compute capabilities `min..=max`, as `major * 10 + minor`.
    pub const fn cuda(min: u32, max: u32) -> Requirement {
        Requirement { kind: DeviceKind::CUDA, arch: ArchBound::CudaWindow { min, max } }
    }

    /// Exactly these CUDA compute capabilities.
    pub const fn cuda_exact(set: &'static [u32]) -> Requirement {
        Requirement { kind: DeviceKind::CUDA, arch: ArchBound::CudaExact(set) }
    }

    /// ROCm devices of these gfx names.
    pub const fn gfx(names: &'static [&'static str]) -> Requirement {
        Requirement { kind: DeviceKind::ROCM, arch: ArchBound::Gfx(names) }
    }

    /// Whether the platform meets this clause, or why not.
    pub fn holds(&self, platform: &Platform) -> Result<(), Reason> {
        if self.kind != platform.id.kind {
            return Err(Reason::WrongDevice { have: platform.id.kind, need: self.kind });
        }
        let ok = match (self.arch, &platform.arch) {
            (ArchBound::Any, _) => true,
            (_, Arch::Unknown) => return Err(Reason::ArchUnknown { need: self.arch.to_string() }),
            (ArchBound::Cpu(need), Arch::Cpu(have)) => have.contains(need),
            (ArchBound::CudaWindow { min, max }, Arch::Cuda { major, minor }) => {
                (min..=max).contains(&(major * 10 + minor))
            }
            (ArchBound::CudaExact(set), Arch::Cuda { major, minor }) => set.contains(&(major * 10 + minor)),
            (ArchBound::Gfx(set), Arch::Gfx(name)) => set.contains(&name.as_str()),
            (ArchBound::Named(set), Arch::Other(name)) => set.contains(&name.as_str()),
            _ => false,
        };
        if ok {
            return Ok(());
        }
        // What a CPU lacks says more than all it has.
        let (have, need) = match (self.arch, &platform.arch) {
            (ArchBound::Cpu(need), Arch::Cpu(have)) => (have.to_string(), need.without(*have).to_string()),
            _ => (platform.arch.to_string(), self.arch.to_string()),
        };
        Err(Reason::ArchOutside { have, need })
    }

    /// How narrow the clause is; of two usable variants the narrower is preferred.
    pub const fn specificity(&self) -> u32 {
        match self.arch {
            ArchBound::Any => 0,
            ArchBound::Cpu(features) => features.len(),
            ArchBound::CudaWindow { .. } => 1,
            ArchBound::CudaExact(_) | ArchBound::Gfx(_) | ArchBound::Named(_) => 2,
        }
    }
}

impl fmt::Display for ArchBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArchBound::Any => f.write_str("any"),
            ArchBound::Cpu(features) => write!(f, "{features}"),
            ArchBound::CudaWindow { min, max: u32::MAX } => write!(f, "sm_{min} or later"),
            ArchBound::CudaWindow { min, max } => write!(f, "sm_{min} to sm_{max}"),
            ArchBound::CudaExact(set) => {
                let names: Vec<_> = set.iter().map(|c| format!("sm_{c}")).collect();
                write!(f, "exactly {}", names.join(" or "))
            }
            ArchBound::Gfx(set) | ArchBound::Named(set) => f.write_str(&set.join(" or ")),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.arch {
            ArchBound::Any => write!(f, "{}", self.kind),
            arch => write!(f, "{}: {arch}", self.kind),
        }
    }
}
