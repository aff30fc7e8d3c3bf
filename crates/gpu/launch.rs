//! A launch: geometry, parameters, and the way from an op's arguments to the device.

use crate::host::Context;
use crate::jit::Jit;
use crate::program::Options;
use crate::runtime::{self, Runtime};
use crate::warm;
use kernels_core::{Ctx, RunError, View, ViewMut};
use std::ffi::c_void;
use std::marker::PhantomData;

/// Blocks and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks along x, y, z.
    pub blocks: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Shared memory beyond what the kernel declares, in bytes.
    pub shared: u32,
}

impl Grid {
    /// Blocks in one dimension. Kernels that may get more items than a grid has blocks go round in a loop.
    pub fn of(blocks: usize, threads: u32) -> Grid {
        Grid { blocks: [blocks.clamp(1, 1 << 30) as u32, 1, 1], threads, shared: 0 }
    }

    /// With a second and a third dimension; `None` where a grid cannot have them.
    pub fn by(self, y: usize, z: usize) -> Option<Grid> {
        let (y, z) = (u16::try_from(y).ok()?, u16::try_from(z).ok()?);
        Some(Grid { blocks: [self.blocks[0], y.into(), z.into()], ..self })
    }
}

/// A kernel's parameters, by value.
pub struct Params {
    words: [u64; Params::WORDS],
    used: usize,
    starts: [u8; Params::MOST],
    len: usize,
}

impl Params {
    const WORDS: usize = 72;
    const MOST: usize = 48;

    /// None yet.
    pub fn new() -> Params {
        Params { words: [0; Params::WORDS], used: 0, starts: [0; Params::MOST], len: 0 }
    }

    /// One more.
    pub fn push(&mut self, param: &impl Param) {
        self.starts[self.len] = self.used as u8;
        self.len += 1;
        param.put(self);
    }

    pub(crate) fn word(&mut self, word: u64) {
        self.words[self.used] = word;
        self.used += 1;
    }
}

impl Default for Params {
    fn default() -> Params {
        Params::new()
    }
}

/// A value that a kernel takes: pointers, 64-bit integers, floats, flags.
pub trait Param {
    /// Appends its words.
    fn put(&self, params: &mut Params);
}

macro_rules! params_of {
    ($($t:ty => |$v:ident| $word:expr),* $(,)?) => { $(
        impl Param for $t {
            fn put(&self, params: &mut Params) {
                let $v = self;
                params.word($word);
            }
        }
    )* };
}
params_of!(
    View<'_> => |v| v.as_ptr::<u8>().addr() as u64,
    ViewMut<'_> => |v| v.as_mut_ptr::<u8>().addr() as u64,
    Option<View<'_>> => |v| v.as_ref().map_or(0, |v| v.as_ptr::<u8>().addr() as u64),
    Option<ViewMut<'_>> => |v| v.as_ref().map_or(0, |v| v.as_mut_ptr::<u8>().addr() as u64),
    *mut u8 => |v| v.addr() as u64,
    usize => |v| *v as u64,
    u64 => |v| *v,
    i64 => |v| *v as u64,
    // The kernel reads the low half, which comes first.
    f32 => |v| v.to_bits().into(),
    f64 => |v| v.to_bits(),
    i32 => |v| *v as u32 as u64,
    bool => |v| u64::from(*v),
);

impl<const N: usize> Param for [usize; N] {
    fn put(&self, params: &mut Params) {
        self.iter().for_each(|v| params.word(*v as u64));
    }
}

/// A kernel's parameters from values.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {{
        let mut params = $crate::Params::new();
        $( params.push(&$value); )*
        params
    }};
}

/// A call of an op on a GPU.
pub struct Gpu<'c, R> {
    ctx: &'c Ctx,
    op: &'static str,
    number: u32,
    runtime: PhantomData<fn() -> R>,
}

/// `pk_call` of `pk.h`.
#[repr(C)]
struct Call {
    report: u64,
    op: u32,
}

impl<'c, R: Runtime> Gpu<'c, R> {
    /// A call of `op`, whose number (`op_number(op)`) is a constant of the caller's.
    pub fn new(ctx: &'c Ctx, op: &'static str, number: u32) -> Self {
        Gpu { ctx, op, number, runtime: PhantomData }
    }

    /// The op.
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// Its context.
    pub fn ctx(&self) -> &'c Ctx {
        self.ctx
    }

    /// Warps in a block of so many threads on this device.
    pub fn warps(&self, threads: u32) -> usize {
        (threads / self.ctx.device.platform().warp_width) as usize
    }

    /// Queues the kernel that `jit` makes for `options`, compiling it where that was not done before.
    ///
    /// # Safety
    /// The parameters are what the kernel takes after its `pk_call`, and name memory that is valid for it.
    ///
    /// # Errors
    /// The kernel cannot be compiled, loaded or launched.
    pub unsafe fn launch(
        &self,
        jit: &'static Jit,
        options: Options,
        grid: Grid,
        params: &Params,
    ) -> Result<(), RunError> {
        let device = self.ctx.device;
        if warm::collecting() {
            warm::want::<R>(jit, options, device);
            return Ok(());
        }
        let failed = |detail| RunError::LaunchFailed { kernel: self.op.into(), device: device.id(), detail };
        let function = jit.function::<R>(device, options)?;
        let context = Context::<R::Vendor>::of(device.id().index).map_err(failed)?;
        let call = Call { report: context.report_on_device(), op: self.number };
        let mut pointers = [std::ptr::null_mut::<c_void>(); Params::MOST + 1];
        pointers[0] = (&raw const call).cast_mut().cast();
        for i in 0..params.len {
            pointers[i + 1] = params.words[params.starts[i] as usize..].as_ptr().cast_mut().cast();
        }
        // SAFETY: the function is this device's; the pointers name live words; the rest by contract.
        unsafe { runtime::launch(context, self.ctx, function, &grid, &mut pointers[..params.len + 1]) }
            .map_err(failed)
    }
}
