//! Platform: a snapshot of what one device can do.

use crate::names::{DeviceId, DeviceKind, intern};
use std::fmt;

/// A set of CPU features that kernels may require.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct CpuFeatures(u32);

macro_rules! cpu_features {
    ($($bit:literal $konst:ident $name:tt),* $(,)?) => {
        impl CpuFeatures {
            $( #[doc = concat!("`", $name, "`")] pub const $konst: CpuFeatures = CpuFeatures(1 << $bit); )*
            const NAMES: &'static [(CpuFeatures, &'static str)] = &[$((CpuFeatures::$konst, $name)),*];
        }
        /// What the processor has, by run-time detection.
        pub(crate) fn detect_cpu() -> CpuFeatures {
            #[allow(unused_mut)]
            let mut found = CpuFeatures::NONE;
            #[cfg(target_arch = "x86_64")]
            { $( if detected!($name) { found = found.union(CpuFeatures::$konst); } )* }
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            { found = found.union(crate::amx::detect()); }
            found
        }
    };
}

/// Tiles have their own detection.
#[cfg(target_arch = "x86_64")]
macro_rules! detected {
    ("amx-bf16") => {
        false
    };
    ("amx-int8") => {
        false
    };
    ($name:tt) => {
        std::arch::is_x86_feature_detected!($name)
    };
}

cpu_features! {
    0 AVX2 "avx2", 1 FMA "fma", 2 F16C "f16c", 3 AVX512F "avx512f", 4 AVX512BW "avx512bw",
    5 AVX512DQ "avx512dq", 6 AVX512VL "avx512vl", 7 AVX512BF16 "avx512bf16", 8 AVX512VNNI "avx512vnni",
    9 AVX512FP16 "avx512fp16", 10 AVXVNNI "avxvnni", 11 AMX_BF16 "amx-bf16", 12 AMX_INT8 "amx-int8",
}

impl CpuFeatures {
    /// No feature beyond the target's baseline.
    pub const NONE: CpuFeatures = CpuFeatures(0);
    /// The AVX2 tier: AVX2, FMA, F16C.
    pub const AVX2_TIER: CpuFeatures = Self::AVX2.union(Self::FMA).union(Self::F16C);
    /// The AVX-512 tier: F, BW, DQ and VL on top of the AVX2 tier.
    pub const AVX512_TIER: CpuFeatures = Self::AVX2_TIER
        .union(Self::AVX512F)
        .union(Self::AVX512BW)
        .union(Self::AVX512DQ)
        .union(Self::AVX512VL);

    /// Both sets together.
    pub const fn union(self, other: CpuFeatures) -> CpuFeatures {
        CpuFeatures(self.0 | other.0)
    }

    /// What both sets have.
    pub const fn intersection(self, other: CpuFeatures) -> CpuFeatures {
        CpuFeatures(self.0 & other.0)
    }

    /// What this set has and `other` lacks.
    pub const fn without(self, other: CpuFeatures) -> CpuFeatures {
        CpuFeatures(self.0 & !other.0)
    }

    /// Whether all of `need` is here.
    pub const fn contains(self, need: CpuFeatures) -> bool {
        self.0 & need.0 == need.0
    }

    /// How many features: the more a clause asks for, the more specific it is.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Takes features away as `KERNELS_CPU_FEATURES` says: a tier (`portable`, `avx2`, `avx512`) keeps
    /// that tier's features at most, `-name` removes one. Nothing can be added.
    pub fn restricted(self, text: &str) -> Result<CpuFeatures, String> {
        let mut left = self;
        for word in text.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            left = match word {
                "portable" => CpuFeatures::NONE,
                "avx2" => left.intersection(Self::AVX2_TIER),
                "avx512" => left.intersection(Self::AVX512_TIER),
                _ => {
                    match word.strip_prefix('-').and_then(|n| Self::NAMES.iter().find(|(_, name)| *name == n))
                    {
                        Some((feature, _)) => left.without(*feature),
                        None => {
                            return Err(format!(
                                "{word:?} is not a tier (portable, avx2, avx512) nor \"-\" and one of: {}",
                                Self::NAMES.iter().map(|n| n.1).collect::<Vec<_>>().join(", ")
                            ));
                        }
                    }
                }
            };
        }
        Ok(left)
    }
}

impl fmt::Display for CpuFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("portable");
        }
        let names = Self::NAMES.iter().filter(|(c, _)| self.contains(*c)).map(|(_, n)| *n);
        f.write_str(&names.collect::<Vec<_>>().join("+"))
    }
}

impl fmt::Debug for CpuFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The architecture of a device, in the terms of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arch {
    /// Instruction-set extensions of a CPU.
    Cpu(CpuFeatures),
    /// CUDA compute capability.
    Cuda {
        /// The 9 of 9.0.
        major: u32,
        /// The 0 of 9.0.
        minor: u32,
    },
    /// ROCm gfx name without its suffixes: `gfx942`.
    Gfx(String),
    /// An outside backend's own name.
    Other(String),
    /// Not known: never satisfies a bounded requirement.
    Unknown,
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arch::Cpu(features) => write!(f, "{features}"),
            Arch::Cuda { major, minor } => write!(f, "sm_{major}{minor}"),
            Arch::Gfx(name) | Arch::Other(name) => f.write_str(name),
            Arch::Unknown => f.write_str("unknown"),
        }
    }
}

/// What one device can do, as its driver read it, or as somebody described it.
#[derive(Clone, Debug)]
pub struct Platform {
    /// Which device.
    pub id: DeviceId,
    /// The product's name.
    pub name: String,
    /// Its architecture.
    pub arch: Arch,
    /// CPU cores, or GPU multiprocessors.
    pub cores: u32,
    /// Data cache sizes in bytes, L1 to L3; 0 where not known.
    pub caches: [usize; 3],
    /// Memory in bytes; 0 where not known.
    pub memory: u64,
    /// Threads that run in lockstep: 32 or 64 on GPUs, 1 on a CPU.
    pub warp_width: u32,
    /// The driver's version, in its own words.
    pub driver_version: String,
}

impl Platform {
    /// Whether it is one from words alone.
    pub fn is_described(&self) -> bool {
        self.driver_version.is_empty() && self.memory == 0
    }

    /// A platform from words alone, for `explain` and tests; it can be asked about, never run on.
    /// Takes `portable`, `avx2`, `avx512`, `sm_90`, `gfx942`.
    pub fn described(text: &str) -> Option<Platform> {
        let (kind, arch, warp_width) = if let Some(cc) = text.strip_prefix("sm_") {
            let cc: u32 = cc.trim_end_matches(['a', 'f']).parse().ok()?;
            (DeviceKind::CUDA, Arch::Cuda { major: cc / 10, minor: cc % 10 }, 32)
        } else if text.starts_with("gfx") && text.len() > 4 {
            (DeviceKind::ROCM, Arch::Gfx(text.into()), if text.starts_with("gfx9") { 64 } else { 32 })
        } else {
            let features = match text {
                "portable" => CpuFeatures::NONE,
                "avx2" => CpuFeatures::AVX2_TIER,
                "avx512" => CpuFeatures::AVX512_TIER,
                _ => return None,
            };
            (DeviceKind::CPU, Arch::Cpu(features), 1)
        };
        Some(Platform {
            id: DeviceId { kind: DeviceKind(intern(kind.0)), index: 0 },
            name: format!("described as {text}"),
            arch,
            cores: 0,
            caches: [0; 3],
            memory: 0,
            warp_width,
            driver_version: String::new(),
        })
    }
}
