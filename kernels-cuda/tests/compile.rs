//! Every kernel through the real NVRTC, for every architecture: it needs no GPU. `scripts/fetch-nvrtc` brings the library
//! from PyPI and says where it is (`KERNELS_TEST_NVRTC`); without it this test says so and checks nothing.
//! `KERNELS_TEST_ARCHS=75,80,..` asks for other architectures than sm_80 and sm_90.

mod common;

use kernels_core::Platform;
use kernels_cuda::Nvrtc;
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
    let wanted = common::kernels_for(Nvrtc::BACKEND, "*", true);
    let archs = std::env::var("KERNELS_TEST_ARCHS").unwrap_or_else(|_| "80,90".into());
    let archs: Vec<String> = archs.split(',').map(|a| format!("sm_{a}")).collect();
    let jobs: Vec<_> = archs.iter().flat_map(|arch| wanted.iter().map(move |w| (arch, w))).collect();
    println!("{} for {} kernels on {}", Nvrtc::compiler().unwrap(), wanted.len(), archs.join(", "));
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                while let Some((arch, wanted)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
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
