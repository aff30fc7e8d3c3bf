//! What only ROCm has: HIP 5's one library and layout, a device that is current on each thread, wavefronts of two widths, and
//! the real runtime on a machine without a GPU.

mod mine;

use kernels_core::{Backend, Device, Reason};
use kernels_gpu_suite::{device, on_device};
use kernels_ops::elementwise::add;
use kernels_rocm::ROCM;
use kernels_standin::StandIn;
use mine::Rocm;
use std::process::Command;

#[test]
fn hip_5_with_one_library_and_the_old_layout() {
    if StandIn::hip5().set("MEMORY_MB", 64).test("hip_5_with_one_library_and_the_old_layout") {
        let platform = device::<Rocm>().platform();
        assert_eq!((platform.arch.to_string().as_str(), platform.warp_width), ("gfx942", 64));
        assert_eq!((platform.memory, platform.cores), (64 << 20, 8));
        assert_eq!(platform.driver_version, "HIP 5.6.31061");
        // Without memory in stream order: what is freed waits for the device.
        for _ in 0..50 {
            let a = on_device::<Rocm>(&[1.0; 1 << 20], &[1 << 20]);
            assert_eq!(add(&a, &a).unwrap().to_vec::<f32>().unwrap()[7], 2.0);
        }
    }
}

/// A device that a program has made current on a thread is current after our calls, those that fail too.
#[test]
fn the_callers_device_comes_back() {
    if StandIn::rocm().set("DEVICES", 2).set("MEMORY_MB", 64).test("the_callers_device_comes_back") {
        // SAFETY: the stand-in's own functions; the first writes one integer.
        let (get, set) = unsafe {
            let hip = libloading::Library::new("libamdhip64.so.7").unwrap();
            let get = *hip.get::<unsafe extern "C" fn(*mut i32) -> i32>(b"hipGetDevice").unwrap();
            let set = *hip.get::<unsafe extern "C" fn(i32) -> i32>(b"hipSetDevice").unwrap();
            std::mem::forget(hip);
            (get, set)
        };
        let current = || {
            let mut device = -1;
            // SAFETY: as above.
            unsafe { get(&mut device) };
            device
        };
        let devices = Device::of_driver(&ROCM).unwrap();
        for (mine, other) in [(0, 1), (1, 0)] {
            // SAFETY: as above.
            unsafe { set(mine) };
            let x = kernels_core::Tensor::from_slice(&[1f32, 2.0], &[2]).unwrap().to_device(devices[other]);
            let x = x.unwrap();
            assert_eq!(add(&x, &x).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
            let shape = [1 << 30];
            assert!(kernels_core::Tensor::zeros(kernels_core::DType::F32, &shape, devices[other]).is_err());
            assert_eq!(current(), mine);
        }
    }
}

/// A kernel for wavefronts of another width is refused, not run: the width comes from the device, goes to the compiler, and
/// the source asserts it.
#[test]
fn a_device_of_each_width_gets_kernels_of_its_own() {
    let stand_in = StandIn::rocm().set("DEVICES", 2).set("GFX", "gfx1100,gfx90a:sramecc+:xnack-");
    if stand_in.test("a_device_of_each_width_gets_kernels_of_its_own") {
        let devices = Device::of_driver(&ROCM).unwrap();
        let widths: Vec<_> = devices.iter().map(|d| d.platform().warp_width).collect();
        assert_eq!(widths, [32, 64]);
        for device in devices {
            let x =
                kernels_core::Tensor::from_slice(&[3f32, 4.0], &[1, 2]).unwrap().to_device(*device).unwrap();
            let w = kernels_core::Tensor::from_slice(&[1f32, 1.0], &[2]).unwrap().to_device(*device).unwrap();
            let y = kernels_ops::layernorm::rmsnorm(&x, &w, 0.0).unwrap().to_vec::<f32>().unwrap();
            assert!((y[0] - 3.0 / 12.5f32.sqrt()).abs() < 1e-6, "{y:?}");
        }
    }
}

/// Families read 8-bit floats by instructions of their own, some in another format than ours: each value, on each.
#[test]
fn every_8_bit_float_is_read_right_by_each_family() {
    use kernels_core::{DType, Tensor};
    for gfx in ["gfx942", "gfx950", "gfx1100", "gfx1201"] {
        if !StandIn::rocm().set("GFX", gfx).test("every_8_bit_float_is_read_right_by_each_family") {
            continue;
        }
        // OCP 8-bit floating point specification: e4m3, bias 7, 0x7f and 0xff are NaN.
        let value = |code: u8| {
            let (e, m) = (i32::from(code >> 3 & 15), f32::from(code & 7));
            let a = if e == 0 { m / 8.0 * 2f32.powi(-6) } else { (1.0 + m / 8.0) * 2f32.powi(e - 7) };
            let a = if code & 0x7f == 0x7f { f32::NAN } else { a };
            if code & 0x80 != 0 { -a } else { a }
        };
        let expected: Vec<f32> = (0..=255).map(value).collect();
        let eight = Tensor::from_f32(&expected, DType::F8E4M3, &[256]).unwrap();
        let eight = eight.to_device(device::<Rocm>()).unwrap();
        let read = kernels_ops::elementwise::cast(&eight, DType::F32).unwrap().to_vec::<f32>().unwrap();
        for (read, expected) in read.iter().zip(&expected) {
            assert!(
                read.to_bits() == expected.to_bits() || read.is_nan() && expected.is_nan(),
                "{read} {expected}"
            );
        }
        return;
    }
}

#[test]
fn products_by_hipblaslt() {
    if StandIn::rocm().test("products_by_hipblaslt") {
        kernels_gpu_suite::parity::of_library(Backend::HIPBLASLT, 1, 20);
    }
}

/// Where the library is not, or has no kernels for the device, or is that of ROCm 5, the portable product runs.
#[test]
fn a_product_goes_to_hipblaslt_where_it_is() {
    let name = "a_product_goes_to_hipblaslt_where_it_is";
    let portable = std::env::var_os("PORTABLE").is_some();
    if std::env::var_os("STANDIN_INSIDE").is_some() {
        let (x, w) = (on_device::<Rocm>(&[1.0, 2.0], &[1, 2]), on_device::<Rocm>(&[3.0, 4.0], &[1, 2]));
        let recorder = kernels_core::Recorder::start();
        assert_eq!(kernels_ops::gemm::linear(&x, &w, None).unwrap().to_vec::<f32>().unwrap(), [11.0]);
        let kernel = recorder.records()[0].kernel.clone();
        assert!(kernel.starts_with(if portable { "hiprtc-" } else { "hipblaslt-" }), "{kernel}");
        return;
    }
    StandIn::rocm().test(name);
    let without =
        [StandIn::rocm().without_libraries(), StandIn::rocm().set("GFX", "gfx1030"), StandIn::hip5()];
    for stand_in in without {
        stand_in.variable("PORTABLE", 1).test(name);
    }
}

/// AMD's own runtime on a machine without a GPU: `scripts/fetch-hiprtc` brings it.
#[test]
fn the_real_runtime_without_a_gpu() {
    let Some(folder) = std::env::var_os("KERNELS_TEST_HIPRTC").filter(|f| !f.is_empty()) else {
        eprintln!("SKIPPED: KERNELS_TEST_HIPRTC is not set; `scripts/fetch-hiprtc` says to what");
        return;
    };
    let name = "the_real_runtime_without_a_gpu";
    if std::env::var_os("REAL_RUNTIME").is_none() {
        let mut me = Command::new(std::env::current_exe().unwrap());
        me.args([name, "--exact", "--nocapture"]).env("LD_LIBRARY_PATH", folder).env("REAL_RUNTIME", "1");
        let output = me.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    match Device::of_driver(&ROCM) {
        Err(Reason::NoDevice { detail }) => assert!(detail.contains("hipErrorNoDevice"), "{detail}"),
        Err(other) => panic!("{other}"),
        Ok(devices) => println!("this machine has {} of them", devices.len()),
    }
}
