//! The host's side of the CUDA backend against the stand-in: memory, copies, streams, graphs, the cache, and everything
//! that can go wrong, each with an error that says what to do.

mod common;

use common::device;
use kernels_core::{Backend, CallError, DType, Device, Error, Reason, RunError, SelectError, Stream, Tensor};
use kernels_cuda::{CUDA, capture, warm_up};
use kernels_gpu::cache::Cache;
use kernels_ops::activation::silu_and_mul_into;
use kernels_ops::elementwise::{add, add_into};
use kernels_ops::embeddings::embedding;
use kernels_ops::layernorm::{RmsNorm, rmsnorm, rmsnorm_into};
use kernels_standin::StandIn;

fn on_device(values: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape).unwrap().to_device(device()).unwrap()
}

/// What a process without this device says of it.
fn no_device() -> Reason {
    Device::of_driver(&CUDA).expect_err("there is no device").clone()
}

#[test]
fn tensors_go_there_and_back_and_ops_run() {
    if StandIn::new().test("tensors_go_there_and_back_and_ops_run") {
        // Larger than both parts of the staging memory, and odd.
        let values: Vec<f32> = (0..3_000_001).map(|i| i as f32).collect();
        assert_eq!(on_device(&values, &[3_000_001]).to_vec::<f32>().unwrap(), values);
        let zeros = Tensor::zeros(DType::F32, &[5], device()).unwrap();
        assert_eq!(zeros.to_vec::<f32>().unwrap(), [0.0; 5]);
        let (a, b) = (on_device(&[1.0, 2.0, 3.0], &[3]), on_device(&[10.0, 20.0, 30.0], &[3]));
        assert_eq!(add(&a, &b).unwrap().to_vec::<f32>().unwrap(), [11.0, 22.0, 33.0]);
        // Nothing to do is nothing, also where memory is concerned.
        let none = Tensor::zeros(DType::F32, &[0, 8], device()).unwrap();
        let weight = on_device(&[1.0; 8], &[8]);
        assert_eq!(rmsnorm(&none, &weight, 1e-5).unwrap().shape(), [0, 8]);
    }
}

#[test]
fn small_uploads_wait_for_nothing() {
    // The source may change as soon as the call returns, although nothing has run yet.
    if StandIn::new().test("small_uploads_wait_for_nothing") {
        let mut tensors = Vec::new();
        let mut buffer = vec![0f32; 1000];
        for i in 0..3000 {
            buffer.fill(i as f32);
            tensors.push(on_device(&buffer, &[1000]));
        }
        // Both parts of the staging memory were filled several times over.
        for (i, t) in tensors.iter().enumerate().step_by(199) {
            assert_eq!(t.to_vec::<f32>().unwrap(), vec![i as f32; 1000]);
        }
    }
}

#[test]
fn memory_comes_back_and_runs_out_with_a_fix() {
    for pools in [0, 1] {
        let stand_in = StandIn::new().set("MEMORY_MB", 64).set("POOLS", pools);
        if stand_in.test("memory_comes_back_and_runs_out_with_a_fix") {
            for _ in 0..50 {
                Tensor::zeros(DType::F32, &[4 << 20], device()).unwrap();
            }
            let error = Tensor::zeros(DType::F32, &[64 << 20], device()).unwrap_err();
            assert!(matches!(error, Error::Run(RunError::OutOfMemory { .. })), "{error}");
            let text = error.to_string();
            assert!(
                text.contains("cuda:0") && text.contains("268435456 bytes") && text.contains("fix:"),
                "{text}"
            );
            // And goes on.
            assert_eq!(on_device(&[1.0], &[1]).to_vec::<f32>().unwrap(), [1.0]);
            return;
        }
    }
}

#[test]
fn each_device_has_its_own_kernels() {
    if StandIn::new().set("DEVICES", 2).set("CC", "80,90").test("each_device_has_its_own_kernels") {
        let devices = Device::of_driver(&CUDA).unwrap();
        let archs: Vec<_> = devices.iter().map(|d| d.platform().arch.to_string()).collect();
        assert_eq!(archs, ["sm_80", "sm_90"]);
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

#[test]
fn no_library_no_device_an_old_driver() {
    if StandIn::new().without_driver().test("no_library_no_device_an_old_driver") {
        match no_device() {
            Reason::RuntimeMissing { library, tried, fix } => {
                assert!(library.contains("libcuda") && fix.contains("NVIDIA driver"), "{library} {fix}");
                assert!(tried.iter().any(|t| t == "libcuda.so.1"), "{tried:?}");
                assert!(tried.iter().any(|t| t.contains("LD_LIBRARY_PATH")), "{tried:?}");
            }
            other => panic!("{other}"),
        }
        // The explanation of a kernel says it too, on a CPU.
        let registry = kernels_core::Registry::linked().unwrap();
        let decision = registry.explain("layernorm.rmsnorm", Device::cpu().platform(), None, None).unwrap();
        let text = decision.to_string();
        assert!(text.contains("libcuda.so.1"), "{text}");
    }
}

#[test]
fn a_driver_without_a_gpu() {
    if StandIn::new().set("DEVICES", 0).test("a_driver_without_a_gpu") {
        assert!(matches!(no_device(), Reason::NoDevice { detail } if detail.contains("NO_DEVICE")));
    }
}

#[test]
fn a_driver_that_is_too_old() {
    if StandIn::new().set("DRIVER", 11080).test("a_driver_that_is_too_old") {
        let reason = no_device();
        assert_eq!(reason, Reason::DriverTooOld { have: "CUDA 11.8".into(), need: "CUDA 12.0".into() });
        assert!(reason.fix().unwrap().contains("update the driver"));
    }
}

#[test]
fn without_nvrtc_a_call_says_what_to_install() {
    let cache = tempfile::tempdir().unwrap();
    if StandIn::new().cache(cache.path()).without_nvrtc().test("without_nvrtc_a_call_says_what_to_install") {
        let a = on_device(&[1.0], &[1]);
        let error = add(&a, &a).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Select(SelectError::NoneUsable { .. })), "{text}");
        assert!(text.contains("libnvrtc.so.12") && text.contains("pip install nvidia-cuda-nvrtc"), "{text}");
        assert!(text.contains("op \"elementwise.add\" has no backend usable on device \"cuda:0\""), "{text}");
    }
}

#[test]
fn without_nvrtc_what_is_cached_runs() {
    let cache = std::env::temp_dir().join(format!("kernels-cached-{}", std::process::id()));
    if std::env::var_os("STANDIN_INSIDE").is_none() {
        StandIn::new().cache(&cache).test("without_nvrtc_what_is_cached_runs");
        StandIn::new()
            .cache(&cache)
            .without_nvrtc()
            .variable("WITHOUT", 1)
            .test("without_nvrtc_what_is_cached_runs");
        std::fs::remove_dir_all(&cache).unwrap();
        return;
    }
    let a = on_device(&[1.0, 2.0], &[2]);
    assert_eq!(add(&a, &a).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
    if std::env::var_os("WITHOUT").is_some() {
        // Another kernel of a source that the cache has: selection lets it through, the call says what is missing.
        let b = a.view().reshape(&[1, 2]).unwrap();
        let mut out = Tensor::zeros(DType::F32, &[2, 2], device()).unwrap();
        let wide = b.broadcast_to(&[2, 2]).unwrap();
        let error = add_into(wide, wide, &mut out).unwrap_err();
        assert!(matches!(error, Error::Run(RunError::LoadFailed { .. })), "{error}");
        assert!(error.to_string().contains("the cache has no such kernel for sm_80"), "{error}");
    }
}

#[test]
fn a_cache_that_cannot_be_written_costs_nothing_but_time() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let name = "a_cache_that_cannot_be_written_costs_nothing_but_time";
    if StandIn::new().cache(&file.path().join("not-a-folder")).test(name) {
        let a = on_device(&[1.0], &[1]);
        assert_eq!(add(&a, &a).unwrap().to_vec::<f32>().unwrap(), [2.0]);
    }
}

#[test]
fn a_kernel_is_compiled_once_for_all_processes() {
    let cache = tempfile::tempdir().unwrap();
    let name = "a_kernel_is_compiled_once_for_all_processes";
    // The second process would fail at its first compilation.
    for fail in ["", "nvrtcCompileProgram:1:6"] {
        if StandIn::new().cache(cache.path()).set("FAIL", fail).test(name) {
            let a = on_device(&[1.0], &[1]);
            assert_eq!(add(&a, &a).unwrap().to_vec::<f32>().unwrap(), [2.0]);
            let files = Cache::of_user().unwrap().list().unwrap();
            assert_eq!((files.len(), files[0].entry.arch.as_str()), (1, "sm_80"));
            return;
        }
    }
}

#[test]
fn a_compile_error_shows_the_compilers_log() {
    let cache = tempfile::tempdir().unwrap();
    let stand_in = StandIn::new().cache(cache.path()).set("MUTATE", "PK_ENTER(call);=>PK_ENTER(call); what;");
    if stand_in.test("a_compile_error_shows_the_compilers_log") {
        let a = on_device(&[1.0], &[1]);
        let text = add(&a, &a).unwrap_err().to_string();
        assert!(text.contains("nvrtc 13.0 refused elementwise") && text.contains("sm_80"), "{text}");
        assert!(text.contains("what") && text.contains("kernel.cu"), "{text}");
    }
}

#[test]
fn an_image_that_is_not_for_this_device() {
    let name = "an_image_that_is_not_for_this_device";
    if StandIn::new().set("FAIL", "cuModuleLoadData:1:200").test(name) {
        let a = on_device(&[1.0], &[1]);
        let text = add(&a, &a).unwrap_err().to_string();
        assert!(text.contains("could not be loaded on cuda:0") && text.contains("INVALID_IMAGE"), "{text}");
        // The next attempt is a new one.
        assert!(add(&a, &a).is_ok());
    }
}

#[test]
fn a_launch_that_the_driver_refuses() {
    if StandIn::new().set("FAIL", "cuLaunchKernel:1:1").test("a_launch_that_the_driver_refuses") {
        let a = on_device(&[1.0], &[1]);
        let text = add(&a, &a).unwrap_err().to_string();
        assert!(
            text.contains("\"elementwise.add\" failed on cuda:0") && text.contains("INVALID_VALUE"),
            "{text}"
        );
        assert_eq!(add(&a, &a).unwrap().to_vec::<f32>().unwrap(), [2.0]);
    }
}

#[test]
fn a_kernel_that_faults_is_named_by_whoever_waits() {
    // rmsnorm writes far behind its rows; the ops after it are innocent.
    let cache = tempfile::tempdir().unwrap();
    let fault =
        "o[i] = pk_to<T>::of(pk_load(a[i]) * scale=>o[i + (1ll << 40)] = pk_to<T>::of(pk_load(a[i]) * scale";
    let stand_in = StandIn::new().cache(cache.path()).set("MUTATE", fault);
    if stand_in.test("a_kernel_that_faults_is_named_by_whoever_waits") {
        let (x, w) = (on_device(&[1.0; 6], &[2, 3]), on_device(&[1.0; 3], &[3]));
        let mut out = Tensor::zeros(DType::F32, &[2, 3], device()).unwrap();
        rmsnorm_into(&x, &w, 1e-5, &mut out).expect("queued, and not run yet");
        let sum = add(&x, &x).expect("queued behind it");
        let error = sum.to_vec::<f32>().unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Run(RunError::LaunchFailed { .. })), "{text}");
        assert!(
            text.contains("\"layernorm.rmsnorm\" failed on cuda:0") && text.contains("ILLEGAL_ADDRESS"),
            "{text}"
        );
        // The error sticks, and later calls say whose it was.
        let text = add(&x, &x).unwrap_err().to_string();
        assert!(text.contains("layernorm.rmsnorm"), "{text}");
        assert!(device().synchronize().unwrap_err().to_string().contains("layernorm.rmsnorm"));
    }
}

#[test]
fn a_bad_index_is_reported_with_its_op_and_once() {
    if StandIn::new().test("a_bad_index_is_reported_with_its_op_and_once") {
        let table = on_device(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
        let ids = Tensor::from_slice(&[1i32, 7], &[2]).unwrap().to_device(device()).unwrap();
        let out = embedding(&ids, &table, DType::F32).unwrap();
        match out.to_vec::<f32>().unwrap_err() {
            Error::Call(CallError::OutOfRange { op, value, range, .. }) => {
                assert_eq!((op, value.as_str(), range.as_str()), ("embeddings.embedding", "7", "0..2"));
            }
            other => panic!("{other}"),
        }
        assert_eq!(out.to_vec::<f32>().unwrap(), [3.0, 4.0, 0.0, 0.0]);
    }
}

#[test]
fn a_stream_of_the_callers_own() {
    if StandIn::new().test("a_stream_of_the_callers_own") {
        use cudarc::driver::{result, sys};
        let x = on_device(&[1.0, 2.0], &[2]);
        let before = add(&x, &x).unwrap();
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
        // SAFETY: a live stream of the device, alive until the end.
        unsafe { device().set_stream(Stream(stream.expose_provenance())).unwrap() };
        assert_eq!(device().stream(), Stream(stream.addr()));
        // On the new stream, behind what the old one has queued and not run; freed memory too.
        let after = add(&before, &x).unwrap();
        drop(before);
        // SAFETY: as above.
        unsafe { device().set_stream(Stream(0)).unwrap() };
        let last = add(&after, &x).unwrap();
        drop(after);
        assert_eq!(last.to_vec::<f32>().unwrap(), [4.0, 8.0]);
        let _: sys::CUstream = stream;
    }
}

#[test]
fn a_graph_replays_what_it_captured() {
    if StandIn::new().test("a_graph_replays_what_it_captured") {
        let (x, w) = (on_device(&[2.0; 8], &[2, 4]), on_device(&[1.0; 4], &[4]));
        let mut normed = Tensor::zeros(DType::F32, &[2, 4], device()).unwrap();
        let mut gated = Tensor::zeros(DType::F32, &[2, 2], device()).unwrap();
        let step = |normed: &mut Tensor, gated: &mut Tensor| {
            rmsnorm_into(&x, &w, 0.0, &mut *normed)?;
            silu_and_mul_into(&*normed, gated)
        };
        // A kernel cannot be loaded inside a capture: the error says to run the calls before.
        let Err(error) = capture(device(), || step(&mut normed, &mut gated)) else {
            panic!("not loaded yet")
        };
        assert!(error.to_string().contains("warm_up"), "{error}");
        let made = warm_up(|| step(&mut normed, &mut gated), |_, _, _| {}).unwrap();
        assert_eq!(made, 2);
        let graph = capture(device(), || step(&mut normed, &mut gated)).unwrap();
        assert_eq!(gated.to_vec::<f32>().unwrap(), [0.0; 4], "captured, not run");
        // SAFETY: the tensors are alive, and nothing else uses them.
        unsafe { graph.launch().unwrap() };
        let expected = 1.0 / (1.0 + (-1f32).exp());
        for v in gated.to_vec::<f32>().unwrap() {
            assert!((v - expected).abs() < 1e-6, "{v}");
        }
        // Waiting inside is the caller's fault, and an error.
        let waits = capture(device(), || device().synchronize());
        assert!(waits.is_err());
        assert!(step(&mut normed, &mut gated).is_ok(), "the stream is usable again");
    }
}

#[test]
fn warm_up_compiles_what_calls_need_and_runs_nothing() {
    let cache = tempfile::tempdir().unwrap();
    if StandIn::new().cache(cache.path()).test("warm_up_compiles_what_calls_need_and_runs_nothing") {
        let x = on_device(&[1.0, 2.0], &[2]);
        let mut out = Tensor::zeros(DType::F32, &[2], device()).unwrap();
        let heard = std::sync::Mutex::new(Vec::new());
        let made = warm_up(
            || {
                add_into(&x, &x, &mut out)?;
                add_into(&x, &x, &mut out)
            },
            |done, all, _| heard.lock().unwrap().push((done, all)),
        );
        assert_eq!(made.unwrap(), 1);
        assert_eq!(*heard.lock().unwrap(), [(0, 1), (1, 1)]);
        assert_eq!(out.to_vec::<f32>().unwrap(), [0.0, 0.0]);
        add_into(&x, &x, &mut out).unwrap();
        assert_eq!(out.to_vec::<f32>().unwrap(), [2.0, 4.0]);
        // A kernel that cannot be made is an error of the warm-up.
        let made = warm_up(|| add_into(&x, &x, &mut out), |_, _, _| {});
        assert_eq!(made.unwrap(), 0, "all of it is there");
    }
}

#[test]
fn many_threads_share_a_device() {
    let cache = tempfile::tempdir().unwrap();
    if StandIn::new().cache(cache.path()).test("many_threads_share_a_device") {
        std::thread::scope(|scope| {
            for t in 0..6 {
                scope.spawn(move || {
                    let x = on_device(&[t as f32; 100], &[100]);
                    for _ in 0..10 {
                        let y = add(&x, &x).unwrap();
                        assert_eq!(y.to_vec::<f32>().unwrap(), [2.0 * t as f32; 100]);
                    }
                });
            }
        });
    }
}

#[test]
fn a_gpu_is_chosen_by_its_tensors_and_never_the_host() {
    if StandIn::new().test("a_gpu_is_chosen_by_its_tensors_and_never_the_host") {
        let (x, w) = (on_device(&[3.0, 4.0], &[1, 2]), on_device(&[1.0, 1.0], &[2]));
        let mut out = Tensor::zeros(DType::F32, &[1, 2], device()).unwrap();
        let mut checked =
            RmsNorm { x: x.view(), weight: w.view(), out: out.view_mut(), eps: 0.0 }.check().unwrap();
        checked.run_on(Backend::NVRTC).unwrap();
        let error = checked.run_on(Backend::REFERENCE).unwrap_err();
        assert!(matches!(error, Error::Select(SelectError::PinnedUnusable { .. })), "{error}");
    }
}

#[test]
fn a_product_goes_to_cublaslt_where_it_is() {
    use kernels_ops::gemm::linear;
    let product = || {
        let (x, w) = (on_device(&[1.0, 2.0, 3.0, 4.0], &[2, 2]), on_device(&[1.0, 0.0, 1.0, 1.0], &[2, 2]));
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
            .explain("gemm.linear", device().platform(), None, None)
            .unwrap();
        assert_eq!(decision.to_string().contains("libcublasLt.so.12"), missing, "{decision}");
        return;
    }
    StandIn::new().test(name);
    StandIn::new().without_cublaslt().variable("WITHOUT", 1).test(name);
}

#[test]
fn a_product_that_cublaslt_refuses() {
    if StandIn::new().set("FAIL", "cublasLtMatmul:1:1").test("a_product_that_cublaslt_refuses") {
        let x = on_device(&[1.0; 4], &[2, 2]);
        let text = kernels_ops::gemm::linear(&x, &x, None).unwrap_err().to_string();
        assert!(
            text.contains("cublaslt of gemm.linear") && text.contains("CUBLAS_STATUS_INTERNAL_ERROR"),
            "{text}"
        );
    }
}
