//! Every kernel through the real NVRTC, for every architecture: it needs no GPU. `scripts/fetch-nvrtc` brings the library
//! from PyPI and says where it is (`KERNELS_TEST_NVRTC`); without it this test says so and checks nothing.
//! `KERNELS_TEST_ARCHS=75,80,86,89,90,100,120` asks for the grid of all kernels on these
//! architectures; without it, all on sm_80, and on sm_90 those of the bench cases.

mod common;

use kernels_core::Platform;
use kernels_cuda::{Nvrtc, resources};
use kernels_gpu::Runtime;
use kernels_standin::StandIn;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn every_kernel_compiles() {
    let Some(folder) = std::env::var_os("KERNELS_TEST_NVRTC").filter(|f| !f.is_empty()) else {
        eprintln!("SKIPPED: KERNELS_TEST_NVRTC is not set; `scripts/fetch-nvrtc` says to what");
        return;
    };
    // The driver is the stand-in, so that there is a device to ask for kernels; the compiler is NVIDIA's.
    if !StandIn::new().real_nvrtc(folder.into()).test("every_kernel_compiles") {
        return;
    }
    // All that the cases need; for architectures after the first, unless the grid is asked for, what the benches need.
    let (wanted, benched) =
        (common::kernels_for(Nvrtc::BACKEND, "*", true), common::kernels_for_benches(Nvrtc::BACKEND, "*"));
    let grid = std::env::var("KERNELS_TEST_ARCHS");
    let archs = grid.as_deref().unwrap_or("80,90").split(',');
    let archs: Vec<String> = archs.map(|a| format!("sm_{a}")).collect();
    let of = |i: usize| if i == 0 || grid.is_ok() { &wanted } else { &benched };
    let jobs: Vec<_> =
        archs.iter().enumerate().flat_map(|(i, arch)| of(i).iter().map(move |w| (arch, w))).collect();
    println!("{} for {} kernels on {}", Nvrtc::compiler().unwrap(), wanted.len(), archs.join(", "));
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                while let Some((arch, wanted)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // Tensor cores of this kind came with sm_80: nobody asks for these kernels before.
                    if *arch == "sm_75" && wanted.program().source.name.contains("mma") {
                        continue;
                    }
                    let platform = Platform::described(arch).expect("an architecture");
                    let image = Nvrtc::compile(wanted.program(), &platform);
                    // A cubin, which is ELF of NVIDIA's machine number: the driver has nothing left to compile.
                    let fault = match image {
                        Ok(image) if image.starts_with(b"\x7fELF") && image[18..20] == [190, 0] => continue,
                        Ok(_) => "no cubin".to_string(),
                        Err(log) => log,
                    };
                    failures.lock().unwrap().push(format!("{} for {arch}:\n{fault}", wanted.program()));
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} failed:\n{}", failures.len(), jobs.len(), failures.join("\n"));
    println!("{} compilations, none failed", jobs.len());
}

/// Kernels that every token goes through keep what they work on in registers: no spills, no arrays in local memory.
#[test]
fn hot_kernels_stay_in_registers() {
    let Some(folder) = std::env::var_os("KERNELS_TEST_NVRTC").filter(|f| !f.is_empty()) else {
        eprintln!("SKIPPED: KERNELS_TEST_NVRTC is not set; `scripts/fetch-nvrtc` says to what");
        return;
    };
    if !StandIn::new().real_nvrtc(folder.into()).test("hot_kernels_stay_in_registers") {
        return;
    }
    let platform = Platform::described("sm_80").expect("an architecture");
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for op in [
        "layernorm.fused_add_rmsnorm",
        "activation.silu_and_mul",
        "kvcache.rope_and_cache",
        "attention.*",
        "gemm.*",
    ] {
        // What benches use: sizes of real models.
        let all = common::kernels_for_benches(Nvrtc::BACKEND, op);
        for wanted in &all {
            let r = resources(wanted.program(), &platform).unwrap();
            println!("{}: {r:?}", wanted.program());
            seen += 1;
            if r.local > 0 {
                wrong.push(format!("{}: {r:?}", wanted.program()));
            }
        }
    }
    assert!(seen > 30, "only {seen} kernels");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
