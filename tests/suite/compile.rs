//! Every kernel through the vendor's own compiler, for every architecture: it needs no GPU. A script brings the library
//! from PyPI, and a variable says where it is; without it this says so and checks nothing. `KERNELS_TEST_ARCHS` asks for
//! the grid of all kernels on the architectures that it lists; without it, some kernels are compiled for some of them.

use crate::Suite;
use crate::cases::{BENCHES, PARITY, kernels_for};
use kernels_core::Platform;
use kernels_gpu::{Runtime, Wanted};
use kernels_standin::StandIn;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The real compiler beside the stand-in's driver, so that there is a device to ask for kernels; without that compiler
/// this says so.
pub fn with_real_compiler<S: Suite>() -> Option<StandIn> {
    let folder = std::env::var_os(S::REAL.variable).filter(|f| !f.is_empty());
    if folder.is_none() {
        eprintln!("SKIPPED: {} is not set; `{}` says to what", S::REAL.variable, S::REAL.script);
    }
    folder.map(|folder| S::stand_in().real_compiler(folder.into()))
}

pub fn every_kernel_compiles<S: Suite>() {
    if !with_real_compiler::<S>().is_some_and(|s| s.test("every_kernel_compiles")) {
        return;
    }
    let (parity, benched) =
        (kernels_for::<S>("*", PARITY, |_| true), kernels_for::<S>("*", BENCHES, |_| true));
    let new = |w: &&Wanted| parity.iter().all(|v| v.program().stem() != w.program().stem());
    let wanted: Vec<&Wanted> = parity.iter().chain(benched.iter().filter(new)).collect();
    let grid = std::env::var("KERNELS_TEST_ARCHS").ok().filter(|g| !g.is_empty());
    let mut jobs: Vec<(&str, &Wanted)> = Vec::new();
    match &grid {
        Some(grid) => jobs.extend(grid.split(',').flat_map(|arch| wanted.iter().map(move |w| (arch, *w)))),
        None => {
            jobs.extend(S::REAL.all.iter().flat_map(|arch| wanted.iter().map(move |w| (*arch, *w))));
            let (others, each) = S::REAL.some;
            for (i, arch) in others.iter().enumerate() {
                jobs.extend(benched.iter().skip(i % each).step_by(each).map(|w| (*arch, w)));
            }
        }
    }
    // Nobody asks for kernels of tensor cores where there are none.
    jobs.retain(|(arch, w)| (S::REAL.has_mma)(arch) || !w.program().source.name.contains("mma"));
    let archs: std::collections::BTreeSet<_> = jobs.iter().map(|(arch, _)| *arch).collect();
    println!("{}: {} of {} kernels on {archs:?}", S::Runtime::compiler().unwrap(), jobs.len(), wanted.len());
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                while let Some((arch, wanted)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let platform = Platform::described(arch).expect("an architecture");
                    let image = S::Runtime::compile(wanted.program(), &platform);
                    // Code for the device itself: the driver has nothing left to compile.
                    let fault = match image {
                        Ok(image) if image.starts_with(b"\x7fELF") && image[18..20] == S::REAL.machine => {
                            continue;
                        }
                        Ok(_) => "no code for a device".to_string(),
                        Err(log) => log,
                    };
                    failures.lock().unwrap().push(format!("{} for {arch}:\n{fault}", wanted.program()));
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    let first = failures[..failures.len().min(5)].join("\n");
    assert!(failures.is_empty(), "{} of {} failed, the first:\n{first}", failures.len(), jobs.len());
    println!("{} compilations, none failed", jobs.len());
}

/// Kernels that every token goes through keep what they work on in registers: no spills, no arrays in local memory.
pub fn hot_kernels_stay_in_registers<S: Suite>() {
    if !with_real_compiler::<S>().is_some_and(|s| s.test("hot_kernels_stay_in_registers")) {
        return;
    }
    let (mut wrong, mut seen) = (Vec::new(), 0);
    let hot = ["layernorm.fused_add_rmsnorm", "activation.silu_and_mul", "kvcache.rope_and_cache"];
    for op in [&hot[..], &["attention.*", "gemm.*"]].concat() {
        // What benches use: sizes of real models.
        for wanted in kernels_for::<S>(op, BENCHES, |_| true) {
            for arch in S::REAL.tuned {
                let platform = Platform::described(arch).expect("an architecture");
                let r = S::Runtime::resources(wanted.program(), &platform).unwrap();
                println!("{} for {arch}: {r:?}", wanted.program());
                seen += 1;
                if r.local > 0 {
                    wrong.push(format!("{} for {arch}: {r:?}", wanted.program()));
                }
            }
        }
    }
    assert!(seen > 30, "only {seen} kernels");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
