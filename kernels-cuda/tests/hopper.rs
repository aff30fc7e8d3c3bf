//! What is for sm_90a alone, on a stand-in of that kind: parity in several schedules, faults that must be found, and
//! NVIDIA's own compiler.

mod mine;

use kernels_core::Platform;
use kernels_cuda::Nvrtc;
use kernels_gpu::Runtime;
use kernels_gpu_suite::cases::{BENCHES, PARITY, each, kernels_for};
use kernels_gpu_suite::compile::with_real_compiler;
use kernels_gpu_suite::device;
use kernels_ops::Outcome;
use kernels_standin::StandIn;
use mine::Cuda;

const HOPPER: &str = "90";

/// Runs the kernel's cases, each as it is and with arguments changed by so many seeds; what it got wrong is an error.
fn verdict(changes: u64) -> Result<(), String> {
    let mut cases = 0;
    let held = |outcome: kernels_core::Result<Outcome>, what: &str| match outcome {
        Ok(Outcome::Ran { worst, at }) if worst > 1.0 => Err(format!("{what}: {at}")),
        Ok(outcome) => Ok(usize::from(matches!(outcome, Outcome::Ran { .. }))),
        Err(error) => Err(format!("{what}: {error}")),
    };
    let mut wrong = Ok(());
    each::<Cuda>("gemm.linear", PARITY, |kernel, case| {
        if kernel.spec().variant == "sm90a" && wrong.is_ok() {
            let changed = (0..changes).try_for_each(|seed| {
                held(case.run_mutated(kernel, device::<Cuda>(), seed), case.name()).map(drop)
            });
            wrong = changed
                .and_then(|()| held(case.run(kernel, device::<Cuda>()), case.name()).map(|n| cases += n));
        }
        Ok(())
    })
    .unwrap();
    assert!(wrong.is_err() || cases >= 6, "only {cases} cases");
    wrong
}

#[test]
fn products_of_four_warps() {
    // Copies land late under the first two, at once under the third, and both ways under the last.
    for seed in [0, 1, 2, 12345] {
        if StandIn::cuda().set("CC", HOPPER).set("SEED", seed).test("products_of_four_warps") {
            return verdict(20).unwrap();
        }
    }
}

#[test]
fn products_of_four_warps_under_address_sanitizer() {
    let name = "products_of_four_warps_under_address_sanitizer";
    if StandIn::cuda().sanitized().set("CC", HOPPER).set("SEED", 5).test(name) {
        verdict(0).unwrap();
    }
}

#[test]
fn faults_in_products_of_four_warps_are_found() {
    const NAME: &str = "faults_in_products_of_four_warps_are_found";
    let mutants = [
        ("pieces that keep their places", "(piece ^ row % 8) * 8", "piece * 8"),
        (
            "a tile multiplied while it travels",
            "pk_async_wait<STAGES - 3>();",
            "pk_async_wait<STAGES - 2>();",
        ),
        ("a tile overwritten before it was read", "sums.template wait<1>();", "sums.template wait<3>();"),
        ("a tile that others have not brought", "pk_publish();\n            PK_SYNC();", "pk_publish();"),
        ("sums taken while products run", "sums.template wait<0>();", "sums.template wait<1>();"),
    ];
    for (what, from, to) in mutants {
        let cache = tempfile::tempdir().unwrap();
        let mutation = format!("{from}=>{to}");
        let stand_in =
            StandIn::cuda().cache(cache.path()).set("CC", HOPPER).set("MUTATE", &mutation).set("SEED", 2);
        match std::env::var("STANDIN_MUTATE") {
            Ok(mine) if mine != mutation => continue,
            _ => {}
        }
        if stand_in.test(NAME) {
            assert!(verdict(0).is_err(), "{what} was not found");
            return;
        }
    }
}

#[test]
fn nvidias_compiler_takes_products_of_four_warps() {
    let name = "nvidias_compiler_takes_products_of_four_warps";
    if !with_real_compiler::<Cuda>().is_some_and(|s| s.set("CC", HOPPER).test(name)) {
        return;
    }
    let platform = Platform::described("sm_90").unwrap();
    let wanted = kernels_for::<Cuda>("gemm.linear", BENCHES, |_| true);
    let mine: Vec<_> = wanted.iter().filter(|w| w.program().source.name == "wgmma").collect();
    assert_eq!(mine.len(), 2, "f16 and bf16");
    for wanted in mine {
        let used = Nvrtc::resources(wanted.program(), &platform).unwrap();
        println!("{}: {used:?}", wanted.program());
        assert_eq!(used.local, 0, "{}: {used:?}", wanted.program());
    }
}
