//! Calls as they should not be: every op with changed shapes, types, values and indices, on every kernel that is
//! here, against the reference; and shapes whose sizes no machine has.

use kernel_registry::ops::{self, Outcome};
use kernel_registry::{DType, Device, Registry, Result, Tensor, View};
use kernels_harness::unusable_on;

/// Changed calls of each kernel.
const CALLS: u64 = if cfg!(debug_assertions) { 150 } else { 2000 };

#[test]
fn changed_calls_get_an_error_or_the_right_answer() {
    let (registry, device) = (Registry::linked().unwrap(), Device::cpu());
    let (mut ran, mut refused) = (0, 0);
    for contract in ops::contracts() {
        let cases = contract.cases();
        for kernel in registry.kernels().filter(|k| k.spec().op == contract.op()) {
            if unusable_on(registry, kernel, device).unwrap().is_some() {
                continue;
            }
            let mut served = 0;
            for seed in 0..CALLS {
                let case = &cases[(seed * 7919) as usize % cases.len()];
                match case.run_mutated(kernel, device, seed) {
                    Ok(Outcome::Ran { worst, at }) => {
                        served += 1;
                        let (id, name) = (kernel.spec().id(), case.name());
                        assert!(worst <= 1.0, "{id}: {name}, seed {seed}: {worst} times the tolerance, {at}");
                    }
                    Ok(_) => refused += 1,
                    Err(error) => panic!("{}: {}, seed {seed}: {error}", kernel.spec().id(), case.name()),
                }
            }
            assert!(served > 0, "no changed call reached {}", kernel.spec().id());
            ran += served;
        }
    }
    println!("{ran} changed calls ran, {refused} were refused");
}

/// One element, repeated to a shape of 2⁵⁰ rows.
fn endless<'a>(one: &'a Tensor, shape: &[usize]) -> View<'a> {
    one.view().broadcast_to(shape).unwrap()
}

#[test]
fn shapes_that_no_machine_holds_are_errors() {
    let one = Tensor::from_slice(&[1f32], &[1, 1]).unwrap();
    let row = Tensor::from_slice(&[1f32; 8], &[1, 8]).unwrap();
    let weight = Tensor::from_slice(&[1f32; 8], &[8]).unwrap();
    let rows = 1 << 50;
    let wide = |cols: usize| row.view().narrow(1, 0, cols).unwrap().broadcast_to(&[rows, cols]).unwrap();
    let refused = |result: Result<Tensor>| {
        let text = result.expect_err("an error").to_string();
        assert!(text.contains("out of memory") || text.contains("expected"), "{text}");
    };
    // Every op with an output of its own; those in place have no such output to be given.
    refused(ops::layernorm::rmsnorm(wide(8), &weight, 1e-5));
    refused(ops::layernorm::gemma_rmsnorm(wide(8), &weight, 1e-5));
    refused(ops::layernorm::layernorm(wide(8), &weight, None, 1e-5));
    refused(ops::activation::silu_and_mul(wide(8)));
    refused(ops::activation::gelu_and_mul(wide(8)));
    refused(ops::activation::gelu_tanh_and_mul(wide(8)));
    refused(ops::activation::gelu_quick(wide(8)));
    refused(ops::activation::relu2(wide(8)));
    refused(ops::elementwise::add(wide(8), wide(8)));
    refused(ops::elementwise::mul(wide(8), wide(8)));
    refused(ops::elementwise::scale(wide(8), 2.0));
    refused(ops::elementwise::cast(wide(8), DType::F16));
    refused(ops::elementwise::copy(endless(&one, &[1 << 20, 1 << 20, 1 << 15])));
    refused(ops::gemm::linear(wide(8), &row, None));
    refused(ops::gemm::linear_gguf(wide(8), &row, None));
    refused(ops::sampling::softmax(wide(8), 1.0));
    refused(ops::sampling::sample(wide(8), ops::sampling::Draw::GREEDY));
    refused(ops::sampling::top_k_renorm(wide(8), &weight));
    refused(ops::sampling::top_p_renorm(wide(8), &weight));
    refused(ops::quantization::per_token_quant_int8(wide(8)).map(|r| r.0));
    refused(ops::quantization::per_token_quant_fp8(wide(8)).map(|r| r.0));
    refused(ops::quantization::per_token_group_quant(wide(8), DType::I8, 4, 1e-10).map(|r| r.0));
    refused(ops::quantization::dequantize_gguf(wide(8), DType::F32));
    let id = Tensor::from_slice(&[0i64], &[1]).unwrap();
    refused(ops::embeddings::embedding(endless(&id, &[rows]), &row, DType::F32));
    let byte = Tensor::from_slice(&[1i8], &[1, 1]).unwrap();
    let bytes = endless(&byte, &[rows, 8]);
    refused(ops::gemm::int8_scaled_mm(bytes, endless(&byte, &[64, 8]), &weight, &weight, None, DType::F32));
    let small = Tensor::from_f32(&[1.0], DType::F8E4M3, &[1, 1]).unwrap();
    let smalls = endless(&small, &[rows, 8]);
    refused(ops::gemm::fp8_scaled_mm(smalls, endless(&small, &[64, 8]), &weight, &weight, None, DType::F32));
    let (q, cache) = (endless(&one, &[rows, 2, 8]), endless(&one, &[1 << 20, 1 << 20, 2, 8]));
    let (table, lens) = (endless(&id, &[rows, 1 << 9]), endless(&id, &[rows]));
    let options = ops::attention::Options::scaled(1.0);
    refused(ops::attention::decode(q, cache, cache, table, lens, options));
    refused(ops::attention::prefill(q, cache, cache, table, lens, lens, options, true));
    refused(ops::attention::merge_state(q, lens, q, lens).map(|r| r.0));
    assert!(one.view().broadcast_to(&[1 << 40, 1 << 40]).is_none(), "a product beyond 64 bits is no view");
    assert!(Tensor::zeros(DType::F32, &[usize::MAX, 2], Device::cpu()).is_err());
    assert!(Tensor::zeros(DType::Q4K, &[usize::MAX / 256 * 256], Device::cpu()).is_err());
}
