//! Weights in a kernel's own layout, made ahead of the calls.
#![cfg(feature = "cpu")]

use kernel_registry::ops::gemm::{linear, prepack_linear};
use kernel_registry::{Backend, DType, Policy, Registry, Tensor};

fn numbers(seed: usize, dtype: DType, shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| ((i * 37 + seed) % 101) as f32 / 50.0 - 1.0).collect();
    Tensor::from_f32(&values, dtype, shape).unwrap()
}

#[test]
fn a_packed_weight_gives_what_the_plain_one_gives() {
    let (x, weight) = (numbers(1, DType::F32, &[5, 70]), numbers(2, DType::F32, &[37, 70]));
    let packed = prepack_linear(&weight, DType::F32).unwrap().expect("kernels of vectors pack");
    assert!(packed.kernel().starts_with("simd-"), "{}", packed.kernel());
    assert!(packed.bytes() >= weight.bytes());
    let [plain, fast] = [weight.view(), packed.view()].map(|w| linear(&x, w, None).unwrap());
    for (a, b) in plain.to_f32_vec().unwrap().iter().zip(fast.to_f32_vec().unwrap()) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
}

#[test]
fn a_packed_weight_belongs_to_its_kernel() {
    let (x, weight) = (numbers(1, DType::F32, &[5, 70]), numbers(2, DType::F32, &[37, 70]));
    let packed = prepack_linear(&weight, DType::F32).unwrap().unwrap();
    let reference = Policy::strict("gemm.linear", Backend::REFERENCE);
    let error = Registry::linked().unwrap().scope(reference, || linear(&x, packed.view(), None)).unwrap();
    let text = error.err().unwrap().to_string();
    assert!(text.contains(&format!("packed for {}", packed.kernel())), "{text}");
    // The layout is nobody's business: no part of it can be cut out.
    assert!(packed.view().narrow(0, 0, 1).is_none());
}

#[test]
fn what_is_no_weight_is_not_packed() {
    let bytes = numbers(1, DType::F32, &[70]);
    let text = prepack_linear(&bytes, DType::F32).err().unwrap().to_string();
    assert!(text.contains("gemm.linear") && text.contains("weight"), "{text}");
}
