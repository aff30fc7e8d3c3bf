//! A library's entry points, and the numbers of its interface.

use crate::host::{Handle, Vendor};
use kernels_core::{Backend, Reason};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// A library of products.
pub trait BlasLt: Send + Sync + 'static {
    /// Whose devices it runs on.
    type Vendor: Vendor;
    /// The backend.
    const BACKEND: Backend;

    /// The library, loaded once.
    ///
    /// # Errors
    /// Why there is none.
    fn table() -> Result<&'static Table, Reason>;
}

type C = *const c_void;
type Make = unsafe extern "C" fn(*mut Handle) -> c_int;
type Drop = unsafe extern "C" fn(Handle) -> c_int;
type Set = unsafe extern "C" fn(Handle, c_int, C, usize) -> c_int;

/// The entry points. A status of 0 is success everywhere.
pub struct Table {
    /// The library's name.
    pub name: &'static str,
    /// Its numbers.
    pub constants: Constants,
    /// A handle.
    pub create: Make,
    /// An operation: compute type, scale type.
    pub operation: unsafe extern "C" fn(*mut Handle, c_int, c_int) -> c_int,
    /// Sets an attribute of an operation.
    pub set_operation: Set,
    /// Gives an operation back.
    pub drop_operation: Drop,
    /// A matrix: type, rows, columns, stride of a column.
    pub matrix: unsafe extern "C" fn(*mut Handle, c_int, u64, u64, i64) -> c_int,
    /// Gives a matrix back.
    pub drop_matrix: Drop,
    /// What algorithms may do.
    pub preference: Make,
    /// Sets an attribute of a preference.
    pub set_preference: Set,
    /// Gives a preference back.
    pub drop_preference: Drop,
    /// Handle, operation, a, b, c, d, preference, how many algorithms are wanted; those found, and how many.
    pub heuristic: unsafe extern "C" fn(
        Handle,
        Handle,
        Handle,
        Handle,
        Handle,
        Handle,
        Handle,
        c_int,
        *mut Heuristic,
        *mut c_int,
    ) -> c_int,
    /// Handle, operation, alpha, a, its matrix, b, .., beta, c, .., d, .., algorithm, workspace, its size, stream.
    pub product: unsafe extern "C" fn(
        Handle,
        Handle,
        C,
        C,
        Handle,
        C,
        Handle,
        C,
        C,
        Handle,
        Handle,
        Handle,
        *const Heuristic,
        Handle,
        usize,
        Handle,
    ) -> c_int,
    /// Handles of devices.
    pub handles: [OnceLock<Result<usize, String>>; Table::DEVICES],
}

/// Types of elements, in both libraries: f32, f16, bf16, f8_e4m3.
pub const R_32F: c_int = 0;
pub const R_16F: c_int = 2;
pub const R_16BF: c_int = 14;
pub const R_8F_E4M3: c_int = 28;
/// The epilogue that adds a value for each row of the (column-major) result.
pub const EPILOGUE_BIAS: c_int = 4;
/// Scales in f32 for each row of both operands.
pub const OUTER_VECTORS: c_int = 3;

/// Numbers in which the libraries differ.
pub struct Constants {
    /// Sums in f32, and no shorter products.
    pub compute_32f: c_int,
    /// The transposed operand.
    pub op_t: c_int,
    /// Whether the first operand is transposed, an attribute of an operation.
    pub transpose_a: c_int,
    /// What is done to the sums, an attribute of an operation.
    pub epilogue: c_int,
    /// Where the bias is, an attribute of an operation.
    pub bias_pointer: c_int,
    /// Its type, an attribute of an operation.
    pub bias_type: c_int,
    /// Attributes of the scales of both operands: modes, pointers.
    pub scales: Option<[[c_int; 2]; 2]>,
    /// The most scratch memory, an attribute of a preference.
    pub workspace: c_int,
    /// How parts of a sum meet, and the value that lets them do so in f32 only.
    pub reduction: Option<[c_int; 2]>,
    /// What addresses of a, b, c, d are multiples of.
    pub alignment: Option<[c_int; 4]>,
    /// 8-byte words of an algorithm; the size of its scratch memory follows them.
    pub algorithm_words: usize,
    /// A status in the library's words.
    pub status: fn(c_int) -> &'static str,
}

/// An algorithm, what it needs, and room for what later versions write.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Heuristic(pub(crate) [u64; 32]);

impl Table {
    /// More devices than a machine has.
    pub const DEVICES: usize = 64;

    /// An answer as an error.
    pub(crate) fn check(&self, what: &str, status: c_int) -> Result<(), String> {
        match status {
            0 => Ok(()),
            _ => Err(format!("{} of {}: {} ({status})", what, self.name, (self.constants.status)(status))),
        }
    }

    /// The handle of a device, made at its first use while that is current.
    pub(crate) fn handle(&self, device: u32) -> Result<Handle, String> {
        let slot = self.handles.get(device as usize).ok_or("more devices than this backend serves")?;
        let make = || {
            let mut handle = std::ptr::null_mut();
            // SAFETY: writes one pointer.
            self.check("creation", unsafe { (self.create)(&mut handle) })?;
            Ok(handle.expose_provenance())
        };
        slot.get_or_init(make).clone().map(std::ptr::with_exposed_provenance_mut)
    }
}
