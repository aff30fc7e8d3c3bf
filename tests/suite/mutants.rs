//! Faults put into kernels and headers: the suite must find each.

use crate::cases::{PARITY, kernels_for, load_all};
use crate::{Suite, device};
use kernels_core::Registry;
use kernels_gpu::Runtime;
use kernels_harness::{Filter, parity};

/// How many of the list have to do with warps and blocks.
const OF_WARPS: usize = 7;

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
    ("the fifth bit forgotten", "gemm.linear_gguf", " | high0 << 4", ""),
    (
        "offsets times no activations",
        "gemm.linear_gguf",
        "sums[m] += e.offset * block.sum",
        "sums[m] += e.offset * block.scale",
    ),
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

pub fn faults_in_kernels_are_found<S: Suite>() {
    let inside = std::env::var("STANDIN_MUTATE").is_ok();
    let mutants = if S::ALL_MUTANTS { MUTANTS } else { &MUTANTS[..OF_WARPS] };
    for (what, op, from, to) in mutants {
        let cache = tempfile::tempdir().unwrap();
        let mutation = format!("{from}=>{to}");
        // A schedule that lets the last warp go first shows what the first one would hide.
        let stand_in = S::stand_in().cache(cache.path()).set("MUTATE", &mutation).set("SEED", 1);
        if inside && std::env::var("STANDIN_MUTATE").as_deref() != Ok(&mutation) {
            continue;
        }
        if stand_in.test("faults_in_kernels_are_found") {
            load_all(&kernels_for::<S>(op, PARITY, |_| true));
            let backend = S::Runtime::BACKEND;
            let filter = Filter { backend: Some(backend), ops: Some(op.to_string()), ..Filter::default() };
            let mut failed = parity(&filter, |_, _, _| {}).unwrap().verdict(&[backend]).is_err();
            if *op == "embeddings.embedding" {
                // No case of the contract has a bad id: those are in the suite of hostile arguments.
                failed |= hostile::<S>(op);
            }
            assert!(failed, "{what} was not found");
            return;
        }
    }
}

/// Whether the kernels of an op fail on changed arguments.
fn hostile<S: Suite>(op: &str) -> bool {
    let registry = Registry::linked().unwrap();
    let contract = kernels_ops::contracts().into_iter().find(|c| c.op() == op).unwrap();
    let mut kernels = registry.kernels().filter(|k| k.spec().op == op);
    let kernel = kernels.find(|k| k.spec().backend == S::Runtime::BACKEND).unwrap();
    let mut cases = contract.cases().into_iter();
    cases.any(|case| (0..20).any(|seed| case.run_mutated(kernel, device::<S>(), seed).is_err()))
}
