//! Every kernel, executed on the stand-in: parity with the reference over all cases, under several schedules, under
//! AddressSanitizer, and with faults put in that must be found.

mod common;

use kernels_core::{Backend, DType, Registry};
use kernels_cuda as _;
use kernels_harness::{Filter, parity};
use kernels_ops::{AnyCase, Outcome};
use kernels_standin::StandIn;

/// Parity of all kernels; says how many there were.
fn check(least_cases: usize) {
    common::load_all(&common::kernels_for(Backend::NVRTC, "*", false));
    let report =
        parity(&Filter { backend: Some(Backend::NVRTC), ..Filter::default() }, |_, _, _| {}).unwrap();
    report.verdict(&[Backend::NVRTC]).unwrap_or_else(|e| panic!("{e}"));
    let cases: usize = report.kernels.iter().map(|k| k.cases).sum();
    println!("{} kernels, {cases} cases", report.kernels.len());
    assert!(cases >= least_cases, "only {cases} cases");
    assert_eq!(report.unusable.len(), 0, "{:?}", report.unusable);
    // No op is without a kernel.
    let ops = Registry::linked().unwrap().ops().count();
    assert_eq!(report.kernels.iter().map(|k| k.op).collect::<std::collections::BTreeSet<_>>().len(), ops);
}

#[test]
fn every_kernel_agrees_with_the_reference() {
    if StandIn::new().test("every_kernel_agrees_with_the_reference") {
        check(1900);
    }
}

#[test]
fn products_by_cublaslt() {
    if StandIn::new().test("products_by_cublaslt") {
        let report =
            parity(&Filter { backend: Some(Backend::CUBLASLT), ..Filter::default() }, |_, _, _| {}).unwrap();
        report.verdict(&[Backend::CUBLASLT]).unwrap_or_else(|e| panic!("{e}"));
        let cases: usize = report.kernels.iter().map(|k| k.cases).sum();
        assert!(report.kernels.len() == 2 && cases >= 20, "{cases} cases");
    }
}

#[test]
fn whatever_the_schedule() {
    // The seed turns the order of warps, of lanes and of blocks.
    for seed in [3, 77, 12345] {
        if StandIn::new().set("SEED", seed).test("whatever_the_schedule") {
            check(1900);
            return;
        }
    }
}

#[test]
fn under_address_sanitizer() {
    if !StandIn::new().sanitized().set("SEED", 5).test("under_address_sanitizer") {
        return;
    }
    // One type is enough for addresses, and 2-byte elements leave the oddest ends.
    let bf16 = |case: &dyn AnyCase| case.key().is_ok_and(|k| k.dtype == DType::BF16);
    let wanted = kernels_gpu::wanted(|| {
        common::each_case(Backend::NVRTC, "*", |kernel, case| match bf16(case) {
            true => case.time(kernel, common::device(), 1).map(|_| ()),
            false => Ok(()),
        })
    });
    common::load_all(&wanted.unwrap());
    let mut cases = 0;
    common::each_case(Backend::NVRTC, "*", |kernel, case| {
        if bf16(case)
            && let Outcome::Ran { worst, at } = case.run(kernel, common::device())?
        {
            assert!(worst <= 1.0, "{} {}: {at}", kernel.spec().id(), case.name());
            cases += 1;
        }
        Ok(())
    })
    .unwrap();
    println!("{cases} cases");
    assert!(cases > 400, "only {cases} cases");
}

/// Faults, each in a kernel or a header, with the op whose parity must then fail.
const MUTANTS: &[(&str, &str, &str, &str)] = &[
    (
        "a block's sum read before it is written",
        "layernorm.rmsnorm",
        "scratch[warp] = v;\n    PK_SYNC();",
        "scratch[warp] = v;",
    ),
    (
        "scratch used again while others read it",
        "layernorm.layernorm",
        "v = pk_warp_reduce<R>(v);\n    PK_SYNC();",
        "v = pk_warp_reduce<R>(v);",
    ),
    (
        "a barrier that half of a block reaches",
        "layernorm.rmsnorm",
        "float sum = 0.f;",
        "float sum = 0.f; if (threadIdx.x < 32) PK_SYNC();",
    ),
    (
        "a shuffle that half of a warp reaches",
        "layernorm.rmsnorm",
        "float sum = 0.f;",
        "float sum = 0.f; if (threadIdx.x < 16) sum += pk_shfl_xor(0.f, 1);",
    ),
    (
        "threads that leave before a barrier",
        "layernorm.rmsnorm",
        "float sum = 0.f;",
        "float sum = 0.f; if ((i64)threadIdx.x >= cols) return;",
    ),
    (
        "a write behind the end of a row",
        "layernorm.rmsnorm",
        "i < cols; i += blockDim.x)\n            o[i]",
        "i < cols + 16; i += blockDim.x)\n            o[i]",
    ),
    ("half a warp summed", "layernorm.rmsnorm", "int m = PK_WARP / 2; m > 0", "int m = PK_WARP / 4; m > 0"),
    ("tiles read while they travel", "gemm.linear", "pk_async_wait<1>();", "pk_async_wait<2>();"),
    (
        "tiles overwritten while others multiply",
        "gemm.linear_gguf",
        "        PK_SYNC();\n    }\n#pragma unroll\n    for (int j = 0; j < 16",
        "    }\n#pragma unroll\n    for (int j = 0; j < 16",
    ),
    ("the fifth bit forgotten", "gemm.linear_gguf", "high |= (", "high |= 0 & ("),
    (
        "a window one token too wide",
        "attention.decode",
        "length - options.window",
        "length - options.window - 1",
    ),
    (
        "parts joined without their factor",
        "attention.decode",
        "state[1][g] * factor + sum",
        "state[1][g] + sum",
    ),
    (
        "a row that sees its future",
        "attention.prefill",
        "s.kv_len + i + 1 - s.rows, 0)",
        "s.kv_len + i + 2 - s.rows, 0)",
    ),
    ("a hidden NaN let in", "attention.prefill", "if (w < 0.f) continue;", ""),
    ("equals counted from the end", "sampling.top_k_renorm", "rank < cut.ties", "rank + 1 < cut.ties"),
    ("ties of 8-bit floats rounded up", "elementwise.cast", "0x7ffffu + (bits >> 20 & 1u)", "0x80000u"),
    (
        "an id that is not looked at",
        "embeddings.embedding",
        "if (id >= 0 && id < table_rows)",
        "if (id >= 0)",
    ),
];

#[test]
fn faults_in_kernels_are_found() {
    let inside = std::env::var("STANDIN_MUTATE").is_ok();
    for (what, op, from, to) in MUTANTS {
        let cache = tempfile::tempdir().unwrap();
        let mutation = format!("{from}=>{to}");
        // A schedule that lets the last warp go first shows what the first one would hide.
        let stand_in = StandIn::new().cache(cache.path()).set("MUTATE", &mutation).set("SEED", 1);
        if inside && std::env::var("STANDIN_MUTATE").as_deref() != Ok(&mutation) {
            continue;
        }
        if stand_in.test("faults_in_kernels_are_found") {
            common::load_all(&common::kernels_for(Backend::NVRTC, op, false));
            let filter =
                Filter { backend: Some(Backend::NVRTC), ops: Some(op.to_string()), ..Filter::default() };
            let mut failed = parity(&filter, |_, _, _| {}).unwrap().verdict(&[Backend::NVRTC]).is_err();
            if *op == "embeddings.embedding" {
                // No case of the contract has a bad id: those are in the suite of hostile arguments.
                failed |= hostile(op);
            }
            assert!(failed, "{what} was not found");
            return;
        }
    }
}

/// Whether the kernels of an op fail on changed arguments.
fn hostile(op: &str) -> bool {
    let registry = Registry::linked().unwrap();
    let contract = kernels_ops::contracts().into_iter().find(|c| c.op() == op).unwrap();
    let kernel =
        registry.kernels().find(|k| k.spec().op == op && k.spec().backend == Backend::NVRTC).unwrap();
    let mut cases = contract.cases().into_iter();
    cases.any(|case| (0..20).any(|seed| case.run_mutated(kernel, common::device(), seed).is_err()))
}
