//! Threads that change overrides while others call: never an ineligible kernel, and never one that a thread's own
//! scope or an earlier change of its own forbids.

mod linked;
mod who;

use kernels_core::*;
use linked::{BACKENDS, MANIFEST, call};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[test]
fn eight_threads_call_while_two_change_overrides() {
    let registry = Registry::linked().unwrap();
    let (stop, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    let rounds = if cfg!(miri) { 20 } else { 3_000 };
    std::thread::scope(|threads| {
        for t in 0..8usize {
            let (stop, calls) = (&stop, &calls);
            threads.spawn(move || {
                for i in t.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let (dtype, fact) = ([DType::F32, DType::BF16][i % 2], i / 2 % 4);
                    let ran = match t % 4 {
                        0 => registry
                            .scope(Policy::strict("*", Backend("plain")), || call(dtype, fact))
                            .unwrap(),
                        _ => call(dtype, fact),
                    };
                    calls.fetch_add(1, Ordering::Relaxed);
                    // The process may ask for what cannot run here: an error, never another kernel.
                    let Ok(number) = ran else { continue };
                    let backend = BACKENDS[number];
                    assert_ne!(backend, "gpu");
                    assert!(backend != "gated" || fact % 2 == 0, "gated ran with {fact}");
                    assert!(backend != "picky" || dtype == DType::F32, "picky ran with {dtype}");
                    assert!(t % 4 != 0 || backend == "plain", "{backend} ran in a scope that asks for plain");
                }
            });
        }
        let changers: Vec<_> = (0..2usize)
            .map(|c| {
                threads.spawn(move || {
                    for i in 0..rounds {
                        let backend = Backend(BACKENDS[(i + c) % BACKENDS.len()]);
                        let policy = match i % 3 {
                            0 => Policy::prefer("test.*", backend),
                            1 => Policy::strict("test.*", backend),
                            _ => Policy::default(),
                        };
                        registry.set_policy(policy).unwrap();
                        if i % 16 == 0 {
                            registry.quarantine("gated-test.who-float", Device::cpu(), "test").unwrap();
                            registry.release("gated-test.who-float", DeviceId::CPU);
                        }
                    }
                })
            })
            .collect();
        changers.into_iter().for_each(|c| c.join().unwrap());
        stop.store(true, Ordering::Relaxed);
    });
    registry.set_policy(Policy::default()).unwrap();
    assert_eq!(call(DType::F32, 2).unwrap(), 1, "what holds at the end is what was set last");
    assert_eq!(call(DType::F32, 3).unwrap(), 2);
    assert!(calls.load(Ordering::Relaxed) > 8);
}
