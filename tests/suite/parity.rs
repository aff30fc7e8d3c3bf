//! Every kernel, executed: parity with the reference over all cases, under several schedules and under AddressSanitizer.

use crate::cases::{PARITY, each, kernels_for, load_all};
use crate::{Suite, device};
use kernels_core::{Backend, DType, Registry};
use kernels_gpu::Runtime;
use kernels_harness::{Filter, parity};
use kernels_ops::{AnyCase, Outcome};

/// Parity of all kernels; says how many there were.
fn check<S: Suite>() {
    load_all(&kernels_for::<S>("*", PARITY, |_| true));
    let filter = Filter { backend: Some(S::Runtime::BACKEND), ..Filter::default() };
    let report = parity(&filter, |_, _, _| {}).unwrap();
    report.verdict(&[S::Runtime::BACKEND]).unwrap_or_else(|e| panic!("{e}"));
    let cases: usize = report.kernels.iter().map(|k| k.cases).sum();
    let width = device::<S>().platform().warp_width;
    println!("{} kernels, {cases} cases, warps of {width}", report.kernels.len());
    assert!(cases >= 1900, "only {cases} cases");
    // Those of one architecture have tests on a stand-in of that kind.
    assert!(report.unusable.iter().all(|(_, why)| why.contains("needs exactly")), "{:?}", report.unusable);
    // No op is without a kernel.
    let ops = Registry::linked().unwrap().ops().count();
    assert_eq!(report.kernels.iter().map(|k| k.op).collect::<std::collections::BTreeSet<_>>().len(), ops);
}

/// Parity of a library's kernels, of which there are so many, over that many cases.
pub fn of_library(backend: Backend, kernels: usize, least_cases: usize) {
    let report = parity(&Filter { backend: Some(backend), ..Filter::default() }, |_, _, _| {}).unwrap();
    report.verdict(&[backend]).unwrap_or_else(|e| panic!("{e}"));
    let cases: usize = report.kernels.iter().map(|k| k.cases).sum();
    assert!(
        report.kernels.len() == kernels && cases >= least_cases,
        "{} kernels, {cases} cases",
        report.kernels.len()
    );
}

pub fn every_kernel_agrees_with_the_reference<S: Suite>() {
    for arch in S::WIDTHS {
        if S::stand_in().set(S::ARCH, arch).test("every_kernel_agrees_with_the_reference") {
            return check::<S>();
        }
    }
}

/// The seed turns the order of warps, of lanes and of blocks.
pub fn whatever_the_schedule<S: Suite>() {
    for (seed, arch) in S::SEEDS.iter().zip(S::WIDTHS.iter().cycle()) {
        if S::stand_in().set(S::ARCH, arch).set("SEED", seed).test("whatever_the_schedule") {
            return check::<S>();
        }
    }
}

pub fn under_address_sanitizer<S: Suite>() {
    if !S::stand_in().sanitized().set("SEED", 5).test("under_address_sanitizer") {
        return;
    }
    // One type is enough for addresses, and 2-byte elements leave the oddest ends.
    let bf16 = |case: &dyn AnyCase| case.key().is_ok_and(|k| k.dtype == DType::BF16);
    let mut cases = 0;
    let (ops, least) = S::SANITIZED;
    for ops in ops {
        load_all(&kernels_for::<S>(ops, PARITY, bf16));
        each::<S>(ops, PARITY, |kernel, case| {
            if bf16(case)
                && let Outcome::Ran { worst, at } = case.run(kernel, device::<S>())?
            {
                assert!(worst <= 1.0, "{} {}: {at}", kernel.spec().id(), case.name());
                cases += 1;
            }
            Ok(())
        })
        .unwrap();
    }
    println!("{cases} cases");
    assert!(cases > least, "only {cases} cases");
}
