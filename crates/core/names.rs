//! Open sets of names: backends, device kinds, devices.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;

/// Keeps one copy of each name that comes from a user, so that names are `Copy`.
pub fn intern(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(|e| e.into_inner());
    match names.get(name) {
        Some(known) => known,
        None => {
            let kept: &'static str = Box::leak(name.into());
            names.insert(kept);
            kept
        }
    }
}

/// Where an implementation comes from, not where it runs: `reference`, `simd`, `nvrtc`. An open set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Backend(pub &'static str);

impl Backend {
    /// The contract's own slow and obvious implementation.
    pub const REFERENCE: Backend = Backend("reference");
    /// candle's own operations.
    pub const CANDLE: Backend = Backend("candle");
    /// Hand-written CPU kernels in ISA variants.
    pub const SIMD: Backend = Backend("simd");
    /// Kernels compiled by NVRTC for the device's architecture.
    pub const NVRTC: Backend = Backend("nvrtc");
    /// NVIDIA's library of matrix products.
    pub const CUBLASLT: Backend = Backend("cublaslt");
    /// Kernels compiled by hipRTC for the device's gfx name.
    pub const HIPRTC: Backend = Backend("hiprtc");
    /// AMD's library of matrix products.
    pub const HIPBLASLT: Backend = Backend("hipblaslt");
}

/// A kind of device: `cpu`, `cuda`, `rocm`, or an outside crate's own. An open set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceKind(pub &'static str);

impl DeviceKind {
    /// The host processor.
    pub const CPU: DeviceKind = DeviceKind("cpu");
    /// NVIDIA GPUs.
    pub const CUDA: DeviceKind = DeviceKind("cuda");
    /// AMD GPUs.
    pub const ROCM: DeviceKind = DeviceKind("rocm");
}

/// One device: `cpu`, `cuda:0`, `rocm:1`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId {
    /// Its kind.
    pub kind: DeviceKind,
    /// Its ordinal within the kind.
    pub index: u32,
}

impl DeviceId {
    /// The host processor.
    pub const CPU: DeviceId = DeviceId { kind: DeviceKind::CPU, index: 0 };

    /// Reads `cpu`, `cuda` (index 0) or `cuda:1`.
    pub fn parse(text: &str) -> Option<DeviceId> {
        let (kind, index) = text.split_once(':').unwrap_or((text, "0"));
        let valid =
            !kind.is_empty() && kind.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        valid.then_some(())?;
        Some(DeviceId { kind: DeviceKind(intern(kind)), index: index.parse().ok()? })
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DeviceKind::CPU if self.index == 0 => f.write_str("cpu"),
            kind => write!(f, "{kind}:{}", self.index),
        }
    }
}

macro_rules! plain_text {
    ($($t:ty => |$s:ident| $e:expr),* $(,)?) => { $(
        impl fmt::Debug for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { let $s = self; write!(f, "{:?}", $e) }
        }
    )* };
}
plain_text!(Backend => |s| s.0, DeviceKind => |s| s.0, DeviceId => |s| s.to_string());

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

/// The end of an error about a name that nothing has.
pub fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |n| format!("; did you mean \"{n}\"?"))
}

/// The name of `names` nearest to `wrong`, for an error that says what was probably meant.
pub fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    names
        .into_iter()
        .map(|n| (strsim::jaro_winkler(wrong, n), n))
        .filter(|(score, _)| *score > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(a.1)))
        .map(|(_, n)| n)
}
