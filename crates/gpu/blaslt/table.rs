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

crate::entry_points! {
    /// The entry points, by what follows `cublasLt` or `hipblasLt` in their names. A status of 0 is success everywhere.
    pub struct Api {
        Create: fn(*mut Handle) -> c_int,
        MatmulDescCreate: fn(*mut Handle, c_int, c_int) -> c_int,
        MatmulDescSetAttribute: fn(Handle, c_int, C, usize) -> c_int,
        MatmulDescDestroy: fn(Handle) -> c_int,
        MatrixLayoutCreate: fn(*mut Handle, c_int, u64, u64, i64) -> c_int,
        MatrixLayoutDestroy: fn(Handle) -> c_int,
        MatmulPreferenceCreate: fn(*mut Handle) -> c_int,
        MatmulPreferenceSetAttribute: fn(Handle, c_int, C, usize) -> c_int,
        MatmulPreferenceDestroy: fn(Handle) -> c_int,
        MatmulAlgoGetHeuristic: fn(Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Heuristic, *mut c_int) -> c_int,
        Matmul: fn(Handle, Handle, C, C, Handle, C, Handle, C, C, Handle, Handle, Handle, *const Heuristic, Handle, usize, Handle) -> c_int,
    }
}

/// A library: its functions, its numbers, and a handle for each device.
pub struct Table {
    pub(crate) name: &'static str,
    pub(crate) constants: Constants,
    pub(crate) api: Api,
    handles: [OnceLock<Result<usize, String>>; Table::DEVICES],
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
    const DEVICES: usize = 64;

    /// Of a library by its name in words.
    pub fn new(name: &'static str, constants: Constants, api: Api) -> Table {
        Table { name, constants, api, handles: [const { OnceLock::new() }; Table::DEVICES] }
    }

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
            self.check("creation", unsafe { (self.api.Create)(&mut handle) })?;
            Ok(handle.expose_provenance())
        };
        slot.get_or_init(make).clone().map(std::ptr::with_exposed_provenance_mut)
    }
}
