//! What only CUDA has: cuBLASLt, and versions of the driver.

mod mine;

use kernels_core::{Backend, Device, Reason};
use kernels_cuda::CUDA;
use kernels_gpu_suite::{device, on_device};
use kernels_standin::StandIn;
use mine::Cuda;

#[test]
fn a_driver_that_is_too_old() {
    if StandIn::cuda().set("DRIVER", 11080).test("a_driver_that_is_too_old") {
        let reason = Device::of_driver(&CUDA).unwrap_err().clone();
        assert_eq!(reason, Reason::DriverTooOld { have: "CUDA 11.8".into(), need: "CUDA 12.0".into() });
        assert!(reason.fix().unwrap().contains("update the driver"));
    }
}

#[test]
fn a_product_goes_to_cublaslt_where_it_is() {
    use kernels_ops::gemm::linear;
    let product = || {
        let (x, w) = (
            on_device::<Cuda>(&[1.0, 2.0, 3.0, 4.0], &[2, 2]),
            on_device::<Cuda>(&[1.0, 0.0, 1.0, 1.0], &[2, 2]),
        );
        let recorder = kernels_core::Recorder::start();
        let y = linear(&x, &w, None).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(y, [1.0, 3.0, 3.0, 7.0]);
        recorder.records()[0].kernel.clone()
    };
    let name = "a_product_goes_to_cublaslt_where_it_is";
    let missing = std::env::var_os("WITHOUT").is_some();
    if std::env::var_os("STANDIN_INSIDE").is_some() {
        let kernel = product();
        assert!(kernel.starts_with(if missing { "nvrtc-" } else { "cublaslt-" }), "{kernel}");
        let decision = kernels_core::Registry::linked()
            .unwrap()
            .explain("gemm.linear", device::<Cuda>().platform(), None, None)
            .unwrap();
        assert_eq!(decision.to_string().contains("libcublasLt.so.12"), missing, "{decision}");
        return;
    }
    StandIn::cuda().test(name);
    StandIn::cuda().without_libraries().variable("WITHOUT", 1).test(name);
}

#[test]
fn a_product_that_cublaslt_refuses() {
    if StandIn::cuda().set("FAIL", "cublasLtMatmul:1:1").test("a_product_that_cublaslt_refuses") {
        let x = on_device::<Cuda>(&[1.0; 4], &[2, 2]);
        let text = kernels_ops::gemm::linear(&x, &x, None).unwrap_err().to_string();
        assert!(
            text.contains("cublaslt of gemm.linear") && text.contains("CUBLAS_STATUS_INTERNAL_ERROR"),
            "{text}"
        );
    }
}

#[test]
fn products_by_cublaslt() {
    // 8-bit products are for sm_90 alone.
    if StandIn::cuda().set("CC", "90").test("products_by_cublaslt") {
        kernels_gpu_suite::parity::of_library(Backend::CUBLASLT, 3, 28);
    }
}

#[test]
fn eight_bit_products_by_cublaslt_where_it_has_them() {
    use kernels_core::{DType, Registry, Tensor};
    let name = "eight_bit_products_by_cublaslt_where_it_has_them";
    for (cc, version) in [("90", 130_000), ("90", 120_800), ("100", 130_000)] {
        if !StandIn::cuda().set("CC", cc).set("CUBLASLT", version).test(name) {
            continue;
        }
        let has = cc_is(90) && std::env::var("STANDIN_CUBLASLT").unwrap() == "130000";
        let product = |features: usize, out: DType| {
            let eight = |rows: usize| {
                let all = Tensor::from_f32(&vec![0.5; rows * 32], DType::F8E4M3, &[rows, 32]).unwrap();
                all.to_device(device::<Cuda>()).unwrap()
            };
            let scales = |n: usize| on_device::<Cuda>(&vec![2.0; n], &[n]);
            let recorder = kernels_core::Recorder::start();
            let y = kernels_ops::gemm::fp8_scaled_mm(
                &eight(3),
                &eight(features),
                &scales(3),
                &scales(features),
                None,
                out,
            );
            assert_eq!(y.unwrap().to_f32_vec().unwrap(), vec![32.0; 3 * features]);
            recorder.records()[0].kernel.starts_with("cublaslt-")
        };
        assert_eq!(product(16, DType::BF16), has);
        // What the library does not take goes to a kernel that does.
        assert!(!product(17, DType::BF16) && !product(16, DType::F32));
        let platform = device::<Cuda>().platform();
        let decision =
            Registry::linked().unwrap().explain("gemm.fp8_scaled_mm", platform, None, None).unwrap();
        assert_eq!(
            decision.to_string().contains("cuBLASLt 12.9 is needed"),
            version_is(120_800),
            "{decision}"
        );
        return;
    }
}

fn cc_is(cc: u32) -> bool {
    device::<Cuda>().platform().arch.to_string() == format!("sm_{cc}")
}

fn version_is(version: u32) -> bool {
    std::env::var("STANDIN_CUBLASLT").unwrap() == version.to_string()
}
