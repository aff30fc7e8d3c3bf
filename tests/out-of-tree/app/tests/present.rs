//! The device is there.

use app as _;
use kernel_registry::{Backend, DType, Recorder, Registry, Selector, Tensor, ops::layernorm::rmsnorm};

#[test]
fn it_registers_and_is_selected_for_its_tensors() {
    let registry = Registry::linked().unwrap();
    assert!(registry.backends().contains(&Backend("toy")) && registry.backends().contains(&Backend::SIMD));
    let toy = registry.device("toy:0").unwrap();
    let tensor = |v: &[f32], shape: &[usize]| Tensor::from_slice(v, shape).unwrap();
    let (x, w) = (tensor(&[3.0, 4.0], &[1, 2]), tensor(&[1.0, 2.0], &[2]));
    let (tx, tw) = (x.to_device(toy).unwrap(), w.to_device(toy).unwrap());
    let recorder = Recorder::start();
    let on_toy = rmsnorm(&tx, &tw, 0.0).unwrap();
    assert_eq!(recorder.records()[0].kernel, "toy-toy2-layernorm.rmsnorm-f32");
    assert_eq!(on_toy.device(), toy);
    let on_cpu = rmsnorm(&x, &w, 0.0).unwrap();
    for (a, b) in on_toy.to_f32_vec().unwrap().iter().zip(on_cpu.to_f32_vec().unwrap()) {
        assert!((a - b).abs() < 1e-6);
    }
    let strict = Selector::new(registry, toy).select("layernorm.rmsnorm").unwrap();
    assert_eq!(strict.spec().origin.package, "kernels-toy");
    // Nothing of the CPU's serves it: no silent way out.
    let half = Tensor::zeros(DType::F16, &[1, 2], toy).unwrap();
    let text = rmsnorm(&half, half.view().reshape(&[2]).unwrap(), 0.0).unwrap_err().to_string();
    assert!(text.contains("no backend usable on device \"toy:0\"") && text.contains("does not take f16 (takes f32)"), "{text}");
    let text = rmsnorm(&tx, &w, 0.0).unwrap_err().to_string();
    assert!(text.contains("\"x\" is on toy:0, \"weight\" is on cpu"), "{text}");
}

#[test]
fn it_passes_the_parity_suite_for_free() {
    kernels_harness::assert_parity(&[Backend("toy")]);
    // And all that is linked beside it runs.
    let norms = kernels_harness::Filter { ops: Some("layernorm.*".into()), ..Default::default() };
    let report = kernels_harness::parity(&norms, |_, _, _| {}).unwrap();
    report.verdict(&[Backend("toy"), Backend::SIMD, Backend::REFERENCE]).unwrap();
}
