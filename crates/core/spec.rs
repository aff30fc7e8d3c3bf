//! The kernel spec: what a kernel is, needs and takes.

use crate::ctx::Ctx;
use crate::dtype::{DType, DTypeSet};
use crate::manifest::Manifest;
use crate::names::{Backend, DeviceKind};
use crate::packed::PackedFor;
use crate::platform::Platform;
use crate::reason::Reason;
use crate::requirement::Requirement;
use crate::tensor::Tensor;
use crate::view::View;
use std::fmt;

/// Everything about a kernel but its function. Written beside the function by [`crate::kernel!`].
#[derive(Clone, Copy)]
pub struct KernelSpec {
    /// The op, `"<group>.<name>"`.
    pub op: &'static str,
    /// Where the implementation comes from.
    pub backend: Backend,
    /// Which of the backend's implementations: `avx512`, `portable`.
    pub variant: &'static str,
    /// OR of clauses; empty: every device of the kind that the manifest's driver serves.
    pub requires: &'static [Requirement],
    /// Element types that it takes.
    pub formats: Formats,
    /// Higher is preferred, before specificity. 0 unless measured to be better or worse than its peers.
    pub priority: i32,
    /// Not to be chosen unless the policy allows it.
    pub experimental: bool,
    /// Same arguments, same bits.
    pub deterministic: bool,
    /// Rounds activations to 8-bit integers on its way, as the op's contract defines it, and is compared with a
    /// reference that does so too.
    pub quantises_activations: bool,
    /// A pure function of the key: whether the kernel takes such calls, in the gate's words if not.
    pub gate: Option<fn(&Key) -> Result<(), Reason>>,
    /// What else the kernel needs on a live device of the right kind: a library that compiles it. Asked once for each
    /// decision, not at each call.
    pub ready: Option<fn(&Platform) -> Result<(), Reason>>,
    /// Puts a weight into the kernel's own layout, as a tensor of bytes on the weight's device; see
    /// [`Packed`](crate::Packed). Unsafe as the kernel's function is.
    pub prepack: Option<Prepack>,
    /// The id of a kernel that this one replaces; without it, two kernels for one place are an error.
    pub replaces: Option<&'static str>,
    /// The crate that brings it.
    pub manifest: &'static Manifest,
    /// Where it is declared.
    pub origin: Origin,
}

/// A kernel's packing function.
pub type Prepack = unsafe fn(&Ctx, &View<'_>) -> Result<Tensor, crate::Error>;

/// Where something was declared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Crate.
    pub package: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Source file.
    pub file: &'static str,
    /// Line.
    pub line: u32,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({}:{})", self.package, self.version, self.file, self.line)
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The element types that a kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Formats {
    /// Of the op's main tensor.
    pub dtypes: DTypeSet,
    /// Of its second tensor (weight, cache); empty: the same type as the main one.
    pub weights: DTypeSet,
}

impl Formats {
    /// One type throughout, any of `dtypes`.
    pub const fn same(dtypes: DTypeSet) -> Formats {
        Formats { dtypes, weights: DTypeSet::of(&[]) }
    }

    /// Any of `dtypes` with any of `weights`.
    pub const fn mixed(dtypes: DTypeSet, weights: DTypeSet) -> Formats {
        Formats { dtypes, weights }
    }

    /// Whether calls with this key are taken.
    ///
    /// # Errors
    /// The type that is not.
    pub fn accept(&self, key: &Key) -> Result<(), Reason> {
        if !self.dtypes.contains(key.dtype) {
            return Err(Reason::DType { have: key.dtype, takes: self.dtypes.to_string() });
        }
        if self.weights.is_empty() {
            return match key.weight == key.dtype {
                true => Ok(()),
                false => Err(Reason::DType { have: key.weight, takes: format!("{0} with {0}", key.dtype) }),
            };
        }
        match self.weights.contains(key.weight) {
            true => Ok(()),
            false => Err(Reason::DType { have: key.weight, takes: self.weights.to_string() }),
        }
    }
}

impl fmt::Display for Formats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.weights.is_empty() {
            true => write!(f, "{}", self.dtypes),
            false => write!(f, "{}x{}", self.dtypes, self.weights),
        }
    }
}

/// The signature class of a call: all that selection may depend on. Small, so that a decision is cached
/// on it exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Element type of the op's main tensor.
    pub dtype: DType,
    /// Of its second one (weight, cache); the same as `dtype` where the op has no second type.
    pub weight: DType,
    /// The one number of the shape that kernels of this op may depend on (the op's contract says which:
    /// head_dim, or rows), saturated at [`Key::MAX_FACT`].
    pub fact: u16,
    /// For which kernel the weight is packed.
    pub packed: PackedFor,
}

impl Key {
    /// The largest shape fact; larger ones saturate.
    pub const MAX_FACT: u16 = (1 << 12) - 1;

    /// One type, no shape fact.
    pub fn of(dtype: DType) -> Key {
        Key { dtype, weight: dtype, fact: 0, packed: PackedFor::NOBODY }
    }

    /// With a second type.
    pub fn with_weight(self, weight: DType) -> Key {
        Key { weight, ..self }
    }

    /// With the shape fact.
    pub fn with_fact(self, fact: usize) -> Key {
        Key { fact: fact.min(Key::MAX_FACT as usize) as u16, ..self }
    }

    /// With the weight's packing.
    pub fn with_packed(self, packed: PackedFor) -> Key {
        Key { packed, ..self }
    }

    /// 26 bits that say all of it.
    #[inline]
    pub(crate) fn pack(self) -> u64 {
        self.packed.bits() << 22 | (self.dtype as u64) << 17 | (self.weight as u64) << 12 | self.fact as u64
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dtype)?;
        if self.weight != self.dtype {
            write!(f, " with {}", self.weight)?;
        }
        if self.fact > 0 {
            write!(f, ", shape fact {}", self.fact)?;
        }
        if let Some(kernel) = self.packed.kernel() {
            write!(f, ", weight packed for {kernel}")?;
        }
        Ok(())
    }
}

impl KernelSpec {
    /// A spec with the defaults for what most kernels leave out.
    pub const fn new(op: &'static str, manifest: &'static Manifest, origin: Origin) -> KernelSpec {
        KernelSpec {
            op,
            backend: Backend(""),
            variant: "",
            requires: &[],
            formats: Formats::same(DTypeSet::of(&[])),
            priority: 0,
            experimental: false,
            deterministic: true,
            quantises_activations: false,
            gate: None,
            ready: None,
            prepack: None,
            replaces: None,
            manifest,
            origin,
        }
    }

    /// `{backend}-{variant}-{op}-{formats}`, unique in a registry.
    pub fn id(&self) -> String {
        let variant = if self.variant.is_empty() { String::new() } else { format!("-{}", self.variant) };
        format!("{}{variant}-{}-{}", self.backend, self.op, self.formats)
    }

    /// The narrowest clause's specificity.
    pub fn specificity(&self) -> u32 {
        self.requires.iter().map(Requirement::specificity).max().unwrap_or(0)
    }

    /// The kinds of device that it runs on.
    pub fn kinds(&self) -> Vec<DeviceKind> {
        if self.requires.is_empty() {
            return vec![self.manifest.driver.kind()];
        }
        let mut kinds: Vec<_> = self.requires.iter().map(|r| r.kind).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }
}

impl fmt::Debug for KernelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.id(), self.origin)
    }
}
