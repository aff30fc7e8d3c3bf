//! The kernels' own threads. Not rayon's: a rayon worker that waits may steal a job of its caller, which
//! may hold a lock.
//!
//! A worker has a mailbox. The caller puts the job in, does chunks itself, and takes the job back from
//! workers that have not opened it; so it never waits for a thread that is not awake. Workers spin for a
//! short while before they sleep, because the next op of a model comes within microseconds.
//!
//! Each thread has a share of the units that is the same from call to call, so that what it wrote in one op
//! lies in its cache for the next; who is done early takes chunks of the others' shares.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};
use std::thread::Thread;

/// Spins before a worker sleeps: about 50 µs.
const SPINS: u32 = 2_000;

/// Work for one thread below this is not worth handing over (in elements touched, some 4 µs).
const MIN_WORK: usize = 16 << 10;

/// How a call splits.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Independent units: rows, heads, tiles.
    pub units: usize,
    /// Elements that all units together touch, for deciding how many threads are worth it.
    pub work: usize,
}

/// A part of a call: which units, and which thread (below `threads`) does it.
pub type Part<'a> = &'a (dyn Fn(Range<usize>, usize) + Sync);

/// How many threads `plan` is worth.
pub fn width(plan: Plan, threads: usize) -> usize {
    threads.min(plan.units).min((plan.work / MIN_WORK).max(1)).max(1)
}

/// Runs `part` over all units, on up to `threads` threads.
#[inline]
pub fn split(plan: Plan, threads: usize, part: Part<'_>) {
    match width(plan, threads) {
        1 => part(0..plan.units, 0),
        width => shared(plan, width, part),
    }
}

struct Job {
    /// The part, its lifetime erased: `shared` does not return while a worker may use it.
    part: *const (dyn Fn(Range<usize>, usize) + Sync),
    /// The first unit that is not taken of the caller's share; a helper's is with the helper.
    next: AtomicUsize,
    helpers: *const [&'static Worker],
    units: usize,
    chunk: usize,
    panicked: AtomicBool,
}

impl Job {
    fn work(&self, thread: usize) {
        // SAFETY: `shared` keeps the list, as the part, until every worker is done.
        let helpers = unsafe { &*self.helpers };
        let width = helpers.len() + 1;
        for owner in (thread..width).chain(0..thread) {
            let next = owner.checked_sub(1).map_or(&self.next, |helper| &helpers[helper].next);
            let end = share(self.units, width, owner + 1);
            loop {
                let start = next.fetch_add(self.chunk, Ordering::Relaxed);
                if start >= end {
                    break;
                }
                // SAFETY: as above.
                unsafe { (*self.part)(start..(start + self.chunk).min(end), thread) };
            }
        }
    }
}

/// Where the share of thread `thread` of `width` begins.
fn share(units: usize, width: usize, thread: usize) -> usize {
    // In 128 bits, because units may be as many as elements.
    (units as u128 * thread as u128 / width as u128) as usize
}

const EMPTY: usize = 0;
const RUNNING: usize = 1;

/// Alone on its cache lines, because its thread watches it.
#[repr(align(128))]
struct Worker {
    /// EMPTY, RUNNING, or the address of a job to do.
    mail: AtomicUsize,
    /// The first unit of its share that nobody has taken.
    next: AtomicUsize,
    asleep: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

static WORKERS: RwLock<Vec<&'static Worker>> = RwLock::new(Vec::new());

/// One call at a time uses the workers; another that comes meanwhile works alone.
static BUSY: AtomicBool = AtomicBool::new(false);

#[cold]
fn grow(width: usize) {
    let mut workers = WORKERS.write().unwrap_or_else(|e| e.into_inner());
    while workers.len() + 1 < width {
        let worker: &'static Worker = Box::leak(Box::new(Worker {
            mail: AtomicUsize::new(EMPTY),
            next: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            thread: Mutex::new(None),
        }));
        let id = workers.len() + 1;
        let spawned =
            std::thread::Builder::new().name(format!("kernels-{id}")).spawn(move || serve(worker, id));
        // Without a thread the callers do the work themselves.
        let Ok(handle) = spawned else { return };
        *worker.thread.lock().unwrap_or_else(|e| e.into_inner()) = Some(handle.thread().clone());
        workers.push(worker);
    }
}

fn serve(worker: &Worker, id: usize) {
    let mut spins = 0;
    loop {
        let mail = worker.mail.load(Ordering::Acquire);
        if mail > RUNNING
            && worker.mail.compare_exchange(mail, RUNNING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            // SAFETY: RUNNING keeps the caller, and with it the job, until EMPTY is stored below.
            let job = unsafe { &*(mail as *const Job) };
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.work(id))).is_err() {
                job.panicked.store(true, Ordering::Relaxed);
            }
            worker.mail.store(EMPTY, Ordering::Release);
            spins = 0;
        } else if spins < SPINS {
            spins += 1;
            std::hint::spin_loop();
        } else {
            worker.asleep.store(true, Ordering::SeqCst);
            if worker.mail.load(Ordering::SeqCst) == EMPTY {
                std::thread::park();
            }
            worker.asleep.store(false, Ordering::SeqCst);
            spins = 0;
        }
    }
}

fn shared(plan: Plan, width: usize, part: Part<'_>) {
    if BUSY.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return part(0..plan.units, 0);
    }
    if WORKERS.read().unwrap_or_else(|e| e.into_inner()).len() + 1 < width {
        grow(width);
    }
    let workers = WORKERS.read().unwrap_or_else(|e| e.into_inner());
    let helpers = &workers[..workers.len().min(width - 1)];
    let width = helpers.len() + 1;
    // Four chunks a thread even out a slow one; fewer, larger ones stream better.
    let chunk = plan.units.div_ceil(width * 4).max(1);
    let job = Job {
        // SAFETY: only the lifetime changes, and `Recall` below outlives no borrow of it.
        part: unsafe { std::mem::transmute::<Part<'_>, Part<'static>>(part) },
        next: AtomicUsize::new(0),
        helpers,
        units: plan.units,
        chunk,
        panicked: AtomicBool::new(false),
    };
    let address = std::ptr::from_ref(&job).expose_provenance();
    for (i, worker) in helpers.iter().enumerate() {
        worker.next.store(share(plan.units, width, i + 1), Ordering::Relaxed);
    }
    for worker in helpers {
        worker.mail.store(address, Ordering::SeqCst);
        if worker.asleep.swap(false, Ordering::SeqCst)
            && let Some(thread) = &*worker.thread.lock().unwrap_or_else(|e| e.into_inner())
        {
            thread.unpark();
        }
    }
    /// Takes the job back from every worker, also when this thread's own part panics.
    struct Recall<'w>(&'w [&'static Worker], usize);
    impl Drop for Recall<'_> {
        fn drop(&mut self) {
            for worker in self.0 {
                if worker.mail.compare_exchange(self.1, EMPTY, Ordering::AcqRel, Ordering::Acquire).is_err() {
                    while worker.mail.load(Ordering::Acquire) != EMPTY {
                        std::hint::spin_loop();
                    }
                }
            }
            BUSY.store(false, Ordering::Release);
        }
    }
    let recall = Recall(helpers, address);
    job.work(0);
    drop(recall);
    assert!(!job.panicked.load(Ordering::Relaxed), "a kernel panicked on a worker thread");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn every_unit_is_done_once_whatever_the_width() {
        for threads in [1, 2, 3, 8] {
            for units in [0usize, 1, 2, 7, 1000] {
                let hits: Vec<AtomicU32> = (0..units).map(|_| AtomicU32::new(0)).collect();
                split(Plan { units, work: 1 << 20 }, threads, &|range, thread| {
                    assert!(thread < threads);
                    range.for_each(|i| _ = hits[i].fetch_add(1, Ordering::Relaxed));
                });
                assert!(
                    hits.iter().all(|h| h.load(Ordering::Relaxed) == 1),
                    "{threads} threads, {units} units"
                );
            }
        }
    }

    #[test]
    fn calls_from_many_threads_and_within_calls_do_not_wait_for_each_other() {
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..200 {
                        let sum = AtomicUsize::new(0);
                        let plan = Plan { units: 64, work: 1 << 20 };
                        split(plan, 4, &|range, _| {
                            split(Plan { units: 3, work: 1 << 20 }, 2, &|inner, _| {
                                sum.fetch_add(range.len() * inner.len(), Ordering::Relaxed);
                            });
                        });
                        assert_eq!(sum.into_inner(), 64 * 3);
                    }
                });
            }
        });
    }

    #[test]
    fn small_work_stays_on_the_caller() {
        assert_eq!(width(Plan { units: 8, work: 4096 }, 8), 1);
        assert_eq!(width(Plan { units: 8, work: 1 << 20 }, 8), 8);
        assert_eq!(width(Plan { units: 1, work: 1 << 20 }, 8), 1);
    }
}
