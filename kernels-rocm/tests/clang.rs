//! A second compiler over the same sources, as it is and without any part of ROCm: `clang++-19` with `lld-19` (Debian has
//! both). Without it this says so and checks nothing. What hipRTC's own headers bring comes from `header_free.h`.

mod mine;

use kernels_gpu::HEADERS;
use kernels_gpu_suite::cases::{BENCHES, kernels_for};
use kernels_gpu_suite::device;
use kernels_standin::StandIn;
use mine::Rocm;
use std::collections::BTreeSet;
use std::process::Command;

#[test]
fn clang_compiles_every_source_without_rocm() {
    if Command::new("clang++-19").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no clang++-19 here (Debian: apt install clang-19 lld-19)");
        return;
    }
    if !StandIn::rocm().test("clang_compiles_every_source_without_rocm") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in HEADERS {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    std::fs::write(folder.path().join("header_free.h"), include_str!("header_free.h")).unwrap();
    let (mut sources, mut failed) = (BTreeSet::new(), Vec::new());
    for wanted in kernels_for::<Rocm>("*", BENCHES, |_| true) {
        let program = wanted.program();
        // One kernel of each source, on one of two architectures: hipRTC has them all.
        if !sources.insert(program.source.name) {
            continue;
        }
        let (gfx, width) = if sources.len() % 2 == 0 { ("gfx942", 64) } else { ("gfx1100", 32) };
        std::fs::write(folder.path().join("kernel.cu"), program.source.text).unwrap();
        let mut clang = Command::new("clang++-19");
        clang.current_dir(&folder).args(["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output"]);
        clang.args(["-nogpuinc", "-nogpulib", "-O3", "-include", "header_free.h", "-o", "kernel.o"]);
        clang.arg(format!("--offload-arch={gfx}"));
        // The driver takes "-std=", where hipRTC takes both spellings.
        clang.args(program.flags(width).iter().map(|f| f.replace("--std", "-std")));
        let output = clang.arg("kernel.cu").output().unwrap();
        if !output.status.success() {
            failed.push(format!("{program} for {gfx}:\n{}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    println!("{} sources on {}", sources.len(), device::<Rocm>().platform().name);
    assert!(failed.is_empty(), "{} failed, the first:\n{}", failed.len(), failed[0]);
    assert!(sources.len() > 20, "{sources:?}");
}
