//! Memory, copies and calls: tensors on the device, many threads, several devices.

use crate::{Suite, device, on_device};
use kernels_core::{Backend, CallError, DType, Device, Error, RunError, SelectError, Tensor};
use kernels_gpu::Runtime;
use kernels_ops::elementwise::add;
use kernels_ops::layernorm::{RmsNorm, rmsnorm};

pub fn tensors_go_there_and_back_and_ops_run<S: Suite>() {
    if S::stand_in().test("tensors_go_there_and_back_and_ops_run") {
        // Larger than both parts of the staging memory, and odd.
        let values: Vec<f32> = (0..3_000_001).map(|i| i as f32).collect();
        assert_eq!(on_device::<S>(&values, &[3_000_001]).to_vec::<f32>().unwrap(), values);
        let zeros = Tensor::zeros(DType::F32, &[5], device::<S>()).unwrap();
        assert_eq!(zeros.to_vec::<f32>().unwrap(), [0.0; 5]);
        let (a, b) = (on_device::<S>(&[1.0, 2.0, 3.0], &[3]), on_device::<S>(&[10.0, 20.0, 30.0], &[3]));
        assert_eq!(add(&a, &b).unwrap().to_vec::<f32>().unwrap(), [11.0, 22.0, 33.0]);
        // Nothing to do is nothing, also where memory is concerned.
        let none = Tensor::zeros(DType::F32, &[0, 8], device::<S>()).unwrap();
        let weight = on_device::<S>(&[1.0; 8], &[8]);
        assert_eq!(rmsnorm(&none, &weight, 1e-5).unwrap().shape(), [0, 8]);
    }
}

pub fn small_uploads_wait_for_nothing<S: Suite>() {
    // The source may change as soon as the call returns, although nothing has run yet.
    if S::stand_in().test("small_uploads_wait_for_nothing") {
        let mut tensors = Vec::new();
        let mut buffer = vec![0f32; 1000];
        for i in 0..3000 {
            buffer.fill(i as f32);
            tensors.push(on_device::<S>(&buffer, &[1000]));
        }
        // Both parts of the staging memory were filled several times over.
        for (i, t) in tensors.iter().enumerate().step_by(199) {
            assert_eq!(t.to_vec::<f32>().unwrap(), vec![i as f32; 1000]);
        }
    }
}

pub fn memory_comes_back_and_runs_out_with_a_fix<S: Suite>() {
    for pools in [0, 1] {
        let stand_in = S::stand_in().set("MEMORY_MB", 64).set("POOLS", pools);
        if stand_in.test("memory_comes_back_and_runs_out_with_a_fix") {
            for _ in 0..50 {
                Tensor::zeros(DType::F32, &[4 << 20], device::<S>()).unwrap();
            }
            let error = Tensor::zeros(DType::F32, &[64 << 20], device::<S>()).unwrap_err();
            assert!(matches!(error, Error::Run(RunError::OutOfMemory { .. })), "{error}");
            let text = error.to_string();
            assert!(
                text.contains(&device::<S>().id().to_string())
                    && text.contains("268435456 bytes")
                    && text.contains("fix:"),
                "{text}"
            );
            // And goes on.
            assert_eq!(on_device::<S>(&[1.0], &[1]).to_vec::<f32>().unwrap(), [1.0]);
            return;
        }
    }
}

pub fn many_threads_share_a_device<S: Suite>() {
    let cache = tempfile::tempdir().unwrap();
    if S::stand_in().cache(cache.path()).test("many_threads_share_a_device") {
        std::thread::scope(|scope| {
            for t in 0..6 {
                scope.spawn(move || {
                    let x = on_device::<S>(&[t as f32; 100], &[100]);
                    for _ in 0..10 {
                        let y = add(&x, &x).unwrap();
                        assert_eq!(y.to_vec::<f32>().unwrap(), [2.0 * t as f32; 100]);
                    }
                });
            }
        });
    }
}

pub fn a_gpu_is_chosen_by_its_tensors_and_never_the_host<S: Suite>() {
    if S::stand_in().test("a_gpu_is_chosen_by_its_tensors_and_never_the_host") {
        let (x, w) = (on_device::<S>(&[3.0, 4.0], &[1, 2]), on_device::<S>(&[1.0, 1.0], &[2]));
        let mut out = Tensor::zeros(DType::F32, &[1, 2], device::<S>()).unwrap();
        let mut checked =
            RmsNorm { x: x.view(), weight: w.view(), out: out.view_mut(), eps: 0.0 }.check().unwrap();
        checked.run_on(S::Runtime::BACKEND).unwrap();
        let error = checked.run_on(Backend::REFERENCE).unwrap_err();
        assert!(matches!(error, Error::Select(SelectError::PinnedUnusable { .. })), "{error}");
    }
}

pub fn each_device_has_its_own_kernels<S: Suite>() {
    let stand_in = S::stand_in().set("DEVICES", 2).set(S::ARCH, S::TWO_ARCHS.join(","));
    if stand_in.test("each_device_has_its_own_kernels") {
        let devices = Device::of_driver(S::driver()).unwrap();
        let archs: Vec<_> = devices.iter().map(|d| d.platform().arch.to_string()).collect();
        assert_eq!(archs, S::TWO_NAMES);
        for device in devices {
            let a = Tensor::from_slice(&[1f32, 2.0], &[2]).unwrap().to_device(*device).unwrap();
            assert_eq!(add(&a, &a).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
        }
        // Two devices in one call are an error.
        let a = Tensor::zeros(DType::F32, &[2], devices[0]).unwrap();
        let b = Tensor::zeros(DType::F32, &[2], devices[1]).unwrap();
        assert!(matches!(add(&a, &b), Err(Error::Call(CallError::DeviceMismatch { .. }))));
    }
}
