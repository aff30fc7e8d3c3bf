//! Warm-up: find out which kernels some calls need without running them, and compile those in parallel.

use crate::jit::Jit;
use crate::program::{Options, Program};
use crate::runtime::Runtime;
use kernels_core::{Device, Error, RunError};
use std::cell::{Cell, RefCell};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A kernel that calls asked for.
pub struct Wanted {
    program: Program,
    device: Device,
    load: fn(&'static Jit, Device, Options) -> Result<usize, RunError>,
    jit: &'static Jit,
}

impl Wanted {
    /// What it is.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

thread_local! {
    static COLLECTING: Cell<bool> = const { Cell::new(false) };
    static WANTED: RefCell<Vec<Wanted>> = const { RefCell::new(Vec::new()) };
}

#[inline]
pub(crate) fn collecting() -> bool {
    COLLECTING.get()
}

#[cold]
pub(crate) fn want<R: Runtime>(jit: &'static Jit, options: Options, device: Device) {
    let same = |w: &Wanted| std::ptr::eq(w.jit, jit) && w.program.options == options && w.device == device;
    WANTED.with_borrow_mut(|all| {
        if !jit.has(device, options) && !all.iter().any(same) {
            let load = |jit: &'static Jit, device, options| jit.function::<R>(device, options);
            all.push(Wanted { program: jit.program(options), device, load, jit });
        }
    });
}

/// The kernels that `calls` would launch on GPUs and that are not loaded yet. Inside, no GPU kernel runs: outputs stay
/// as they are, and nothing may depend on them.
///
/// # Errors
/// What `calls` says.
pub fn wanted<E>(calls: impl FnOnce() -> Result<(), E>) -> Result<Vec<Wanted>, E> {
    /// Ends the collection also on a panic.
    struct End(bool);
    impl Drop for End {
        fn drop(&mut self) {
            COLLECTING.set(self.0);
        }
    }
    let _end = End(COLLECTING.replace(true));
    let outcome = calls();
    let found = WANTED.take();
    outcome.map(|()| found)
}

/// Compiles and loads on `threads` threads. `progress` hears (done, in all, the kernel that was done last).
///
/// # Errors
/// The first kernel that could not be made.
pub fn load(
    wanted: &[Wanted],
    threads: usize,
    progress: impl Fn(usize, usize, &str) + Sync,
) -> Result<(), Error> {
    let (next, done, failed) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(None));
    progress(0, wanted.len(), "");
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, wanted.len().max(1)) {
            scope.spawn(|| {
                while let Some(w) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match (w.load)(w.jit, w.device, w.program.options) {
                        Ok(_) => {
                            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                            progress(done, wanted.len(), &w.program.to_string());
                        }
                        Err(error) => {
                            failed.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
                        }
                    }
                }
            });
        }
    });
    match failed.into_inner().unwrap_or_else(|e| e.into_inner()) {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Compiles in parallel, and loads, what `calls` need on GPUs, so that no request pays for it. `calls` is what the
/// program will do, once; see [`wanted`]. Returns how many kernels were made.
///
/// # Errors
/// What `calls` says, or a kernel that could not be made.
pub fn warm_up<E: From<Error>>(
    calls: impl FnOnce() -> Result<(), E>,
    progress: impl Fn(usize, usize, &str) + Sync,
) -> Result<usize, E> {
    let wanted = wanted(calls)?;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    load(&wanted, threads, progress)?;
    Ok(wanted.len())
}
