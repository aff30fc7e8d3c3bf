//! The same on a real GPU. Without one these say so, loudly, and check nothing.

use crate::cases::{PARITY, kernels_for, load_all};
use crate::{Suite, hostile};
use kernels_core::Device;
use kernels_gpu::Runtime;
use kernels_harness::{Filter, bench, parity};

/// Whether there is a GPU; says why not.
fn gpu<S: Suite>() -> bool {
    match Device::of_driver(S::driver()) {
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

pub fn every_kernel_agrees_on_the_gpu<S: Suite>() {
    if gpu::<S>() {
        load_all(&kernels_for::<S>("*", PARITY, |_| true));
        let filter = Filter { backend: Some(S::Runtime::BACKEND), ..Filter::default() };
        let report = parity(&filter, |_, _, _| {}).unwrap();
        report.verdict(&[S::Runtime::BACKEND]).unwrap_or_else(|e| panic!("{e}"));
        assert!(report.unusable.is_empty(), "{:?}", report.unusable);
    }
}

pub fn hostile_arguments_on_the_gpu<S: Suite>() {
    if gpu::<S>() {
        hostile::check::<S>(5);
    }
}

pub fn every_kernel_can_be_timed<S: Suite>() {
    if gpu::<S>() {
        let backend = Some(S::Runtime::BACKEND);
        let filter = Filter { ops: Some("activation.*".into()), backend, ..Filter::default() };
        let rows = bench(&filter, &mut [], |_, _, _| {}).unwrap();
        assert!(!rows.is_empty() && rows.iter().all(|r| r.median_us > 0.0));
    }
}
