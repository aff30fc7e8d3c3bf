//! Functions of a source by device and options: looked up without a lock, compiled and loaded at first use.

use crate::cache::{Cache, Entry};
use crate::program::{Options, Program, Source};
use crate::runtime::{self, Runtime};
use kernels_core::{Device, RunError};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

/// A source, and what was made of it in this process.
pub struct Jit {
    source: Source,
    slots: [Slot; SLOTS],
    /// Functions that found no slot.
    overflow: Mutex<Option<HashMap<u64, usize>>>,
}

struct Slot {
    key: AtomicU64,
    function: AtomicUsize,
}

const SLOTS: usize = 128;
/// How far from its place a key may be.
const REACH: usize = 8;
/// Bits of one option in a key.
const OPTION_BITS: u32 = 14;

/// What some thread is compiling, so that another waits for it.
static BUSY: Mutex<Vec<(usize, u64)>> = Mutex::new(Vec::new());
static DONE: Condvar = Condvar::new();

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl Jit {
    /// Of a source; `options` are the macros that it takes, without their prefix.
    pub const fn new(name: &'static str, text: &'static str, options: &'static [&'static str]) -> Jit {
        Jit {
            source: Source { name, text, options },
            slots: [const { Slot { key: AtomicU64::new(0), function: AtomicUsize::new(0) } }; SLOTS],
            overflow: Mutex::new(None),
        }
    }

    /// The source's name.
    pub const fn name(&self) -> &'static str {
        self.source.name
    }

    /// The program of some options.
    pub fn program(&'static self, options: Options) -> Program {
        Program { source: &self.source, options }
    }

    /// The kernel's function on a device.
    ///
    /// # Errors
    /// It cannot be compiled or loaded.
    #[inline]
    pub fn function<R: Runtime>(&'static self, device: Device, options: Options) -> Result<usize, RunError> {
        let key = key_of(device, options);
        match self.known(key) {
            Some(function) => Ok(function),
            None => self.make::<R>(device, options, key),
        }
    }

    /// Whether the function is there already.
    pub fn has(&self, device: Device, options: Options) -> bool {
        self.known(key_of(device, options)).is_some()
    }

    #[inline]
    fn known(&self, key: u64) -> Option<usize> {
        for i in 0..REACH {
            let slot = &self.slots[(place(key) + i) % SLOTS];
            match slot.key.load(Ordering::Acquire) {
                k if k == key => return Some(slot.function.load(Ordering::Relaxed)),
                0 => return None,
                _ => {}
            }
        }
        lock(&self.overflow).as_ref().and_then(|o| o.get(&key).copied())
    }

    fn keep(&self, key: u64, function: usize) {
        // Writers take turns, so that a slot is claimed once.
        let mut overflow = lock(&self.overflow);
        for i in 0..REACH {
            let slot = &self.slots[(place(key) + i) % SLOTS];
            if slot.key.load(Ordering::Relaxed) == 0 {
                slot.function.store(function, Ordering::Relaxed);
                slot.key.store(key, Ordering::Release);
                return;
            }
        }
        overflow.get_or_insert_default().insert(key, function);
    }

    #[cold]
    fn make<R: Runtime>(
        &'static self,
        device: Device,
        options: Options,
        key: u64,
    ) -> Result<usize, RunError> {
        if usize::from(device.slot()) >= Device::SLOTS {
            // These share a slot, and a function is of one device.
            let source = format!("more than {} devices in one process", Device::SLOTS).into();
            return Err(RunError::LoadFailed {
                kernel: self.source.name.into(),
                device: device.id(),
                source,
            });
        }
        let mine = (std::ptr::from_ref(self).addr(), key);
        let mut busy = lock(&BUSY);
        while busy.contains(&mine) {
            busy = DONE.wait(busy).unwrap_or_else(|e| e.into_inner());
        }
        if let Some(function) = self.known(key) {
            return Ok(function);
        }
        busy.push(mine);
        drop(busy);
        /// Lets the others go on, also after a failure.
        struct Finish((usize, u64));
        impl Drop for Finish {
            fn drop(&mut self) {
                lock(&BUSY).retain(|b| *b != self.0);
                DONE.notify_all();
            }
        }
        let _finish = Finish(mine);
        let program = self.program(options);
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| RunError::LoadFailed {
            kernel: program.to_string(),
            device: device.id(),
            source,
        };
        let image = image::<R>(&program, device).map_err(failed)?;
        let function =
            runtime::load::<R::Vendor>(device, &image, self.source.name).map_err(|e| failed(e.into()))?;
        self.keep(key, function);
        Ok(function)
    }
}

/// A program's code for a device, from the cache or the compiler.
fn image<R: Runtime>(
    program: &Program,
    device: Device,
) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
    let platform = device.platform();
    let compiler = R::compiler();
    let entry = |compiler: &str| Entry {
        stem: program.stem(),
        arch: platform.arch.to_string(),
        digest: program.digest(platform.warp_width),
        compiler: compiler.into(),
    };
    let cache = Cache::of_user();
    let cache = cache.as_ref().ok();
    let found = match &compiler {
        Ok(compiler) => cache.and_then(|c| c.get(&entry(compiler))),
        // Without the compiler, what any version of it made of this very source will do.
        Err(_) => cache.and_then(|c| c.get_of_any_compiler(&entry(""))),
    };
    if let Some(image) = found {
        tracing::debug!(%program, "from the cache");
        return Ok(image);
    }
    let compiler = compiler.map_err(|reason| {
        let fix = reason.fix().map(|f| format!("\n  fix: {f}")).unwrap_or_default();
        format!("{reason}, and the cache has no such kernel for {}{fix}", platform.arch)
    })?;
    let start = Instant::now();
    let image = R::compile(program, platform)
        .map_err(|log| format!("{compiler} refused {program} for {}:\n{log}", platform.arch))?;
    tracing::info!(%program, %compiler, ms = start.elapsed().as_millis() as u64, "compiled");
    if let Some(cache) = cache {
        // A folder that cannot be written to costs time at the next start, nothing else.
        if let Err(error) = cache.put(&entry(&compiler), &image) {
            tracing::warn!(%error, folder = %cache.folder().display(), "compiled kernels are not kept");
        }
    }
    Ok(image)
}

#[inline]
fn key_of(device: Device, options: Options) -> u64 {
    let packed = options.iter().fold(0, |key, o| key << OPTION_BITS | u64::from(*o));
    1 << 63 | u64::from(device.slot()) << (4 * OPTION_BITS) | packed
}

#[inline]
fn place(key: u64) -> usize {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 57) as usize
}
