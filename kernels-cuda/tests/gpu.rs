//! The same suite on a real GPU: `cargo test -p kernels-cuda --features gpu-tests`. Without one it says so, loudly, and
//! checks nothing.

mod common;

use kernels_core::{Backend, Device};
use kernels_cuda::CUDA;
use kernels_harness::{Filter, bench, parity};
use kernels_ops::Outcome;

/// Whether there is a GPU; says why not.
fn gpu() -> bool {
    match Device::of_driver(&CUDA) {
        Ok(devices) => {
            devices
                .iter()
                .for_each(|d| eprintln!("{}: {} ({})", d.id(), d.platform().name, d.platform().arch));
            true
        }
        Err(reason) => {
            eprintln!("SKIPPED, THERE IS NO GPU: {reason}");
            false
        }
    }
}

#[test]
fn every_kernel_agrees_with_the_reference() {
    if !gpu() {
        return;
    }
    common::load_all(&common::kernels_for(Backend::NVRTC, "*", false));
    let report =
        parity(&Filter { backend: Some(Backend::NVRTC), ..Filter::default() }, |_, _, _| {}).unwrap();
    report.verdict(&[Backend::NVRTC]).unwrap_or_else(|e| panic!("{e}"));
    assert!(report.unusable.is_empty(), "{:?}", report.unusable);
}

#[test]
fn hostile_arguments() {
    if !gpu() {
        return;
    }
    let mut wrong = Vec::new();
    common::each_case(Backend::NVRTC, "*", |kernel, case| {
        for seed in 0..5 {
            match case.run_mutated(kernel, common::device(), seed) {
                Ok(Outcome::Ran { worst, at }) if worst > 1.0 => {
                    wrong.push(format!("{} {}, seed {seed}: {at}", kernel.spec().op, case.name()));
                }
                Ok(_) => {}
                Err(error) => {
                    wrong.push(format!("{} {}, seed {seed}: {error}", kernel.spec().op, case.name()))
                }
            }
        }
        Ok(())
    })
    .unwrap();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_kernel_can_be_timed() {
    if !gpu() {
        return;
    }
    let filter =
        Filter { ops: Some("activation.*".into()), backend: Some(Backend::NVRTC), ..Filter::default() };
    let rows = bench(&filter, |_, _, _| {}).unwrap();
    assert!(!rows.is_empty() && rows.iter().all(|r| r.median_us > 0.0));
}
