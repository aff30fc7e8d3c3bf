//! Two kernels for one place, found when their crate is compiled.

use crate::names::Backend;
use crate::spec::Formats;

/// Implemented by [`kernel!`](crate::kernel!) once for each place of a crate, so that a second kernel there is an error
/// of the compiler, and this name its text. Twins of two crates are found when the registry is built.
pub trait TwoKernelsOfOneOpAndBackendNeedDifferentVariantsOrFormats<const PLACE: u64> {}

/// A number of op, backend, variant and element types.
pub const fn place(op: &str, backend: Backend, variant: &str, formats: Formats) -> u64 {
    let mut hash = fnv(0xcbf2_9ce4_8422_2325, op.as_bytes());
    hash = fnv(hash, backend.0.as_bytes());
    hash = fnv(hash, variant.as_bytes());
    hash = fnv(hash, &formats.dtypes.bits().to_le_bytes());
    fnv(hash, &formats.weights.bits().to_le_bytes())
}

/// FNV-1a, with an end mark that no name has.
const fn fnv(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i <= bytes.len() {
        let byte = if i < bytes.len() { bytes[i] } else { 0xff };
        hash = (hash ^ byte as u64).wrapping_mul(0x0100_0000_01b3);
        i += 1;
    }
    hash
}
