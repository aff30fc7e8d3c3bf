//! `--features cuda` and `--features rocm` as their users see them, on GPUs that the tests bring (see tests/standin).
#![cfg(any(feature = "cuda", feature = "rocm"))]

use kernels_standin::StandIn;
use serde_json::Value;
use std::process::{Command, Output};

/// What differs between vendors, as a user sees it.
struct Vendor {
    stand_in: StandIn,
    /// The same with two devices, and the second's architecture.
    two: StandIn,
    kind: &'static str,
    backend: &'static str,
    arch: &'static str,
    compiler: &'static str,
    /// The function that compiles.
    compile: &'static str,
    no_device: &'static str,
    /// Files that are looked for, and what to install.
    driver: [&'static str; 2],
    compiler_file: &'static str,
    compiler_fix: &'static str,
}

impl Vendor {
    fn device(&self) -> String {
        format!("{}:0", self.kind)
    }
}

fn vendors() -> Vec<Vendor> {
    let cuda = || Vendor {
        stand_in: StandIn::cuda(),
        two: StandIn::cuda().set("DEVICES", 2).set("CC", "80,90"),
        kind: "cuda",
        backend: "nvrtc-",
        arch: "sm_80",
        compiler: "nvrtc_13.0",
        compile: "nvrtcCompileProgram",
        no_device: "NO_DEVICE",
        driver: ["libcuda.so.1", "install the NVIDIA driver"],
        compiler_file: "libnvrtc.so.13",
        compiler_fix: "pip install nvidia-cuda-nvrtc",
    };
    let rocm = || Vendor {
        stand_in: StandIn::rocm(),
        two: StandIn::rocm().set("DEVICES", 2).set("GFX", "gfx942,gfx1100"),
        kind: "rocm",
        backend: "hiprtc-",
        arch: "gfx942",
        compiler: "hiprtc_6.3.42134",
        compile: "hiprtcCompileProgram",
        no_device: "hipErrorNoDevice",
        driver: ["libamdhip64.so.7", "install ROCm"],
        compiler_file: "libhiprtc.so.7",
        compiler_fix: "install hipRTC",
    };
    let linked = [cfg!(feature = "cuda").then(cuda), cfg!(feature = "rocm").then(rocm)];
    linked.into_iter().flatten().collect()
}

/// The command on the stand-in.
fn kernels(stand_in: &StandIn, args: &[&str]) -> Output {
    let mut command = stand_in.command(env!("CARGO_BIN_EXE_kernels"));
    command.args(args).env_remove("KERNELS_BACKEND").output().unwrap()
}

fn out(stand_in: &StandIn, args: &[&str]) -> String {
    let output = kernels(stand_in, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(stand_in: &StandIn, args: &[&str]) -> Value {
    serde_json::from_str(&out(stand_in, args)).unwrap()
}

/// Standard error of a command that fails with code 1: an error, and no panic.
fn fails(stand_in: &StandIn, args: &[&str]) -> String {
    let output = kernels(stand_in, args);
    let text = String::from_utf8_lossy(&output.stderr).to_string();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {text}");
    assert!(!text.contains("panicked"), "{text}");
    text
}

/// Greedy tokens of each of the demo models are the CPU's, one prompt and several at once.
#[test]
fn a_model_generates_the_cpus_tokens() {
    for architecture in ["llama", "qwen2", "qwen3", "gemma3"] {
        let mut args = vec!["demo", "--architecture", architecture, "--max-tokens", "12", "--json"];
        args.extend(["--prompt", "The capital of France is", "--prompt", "Two", "--ignore-eos"]);
        let on_cpu = json(&StandIn::both(), &[args.as_slice(), &["--backend", "reference"]].concat());
        for vendor in vendors() {
            let on_gpu = json(&vendor.stand_in, &[args.as_slice(), &["--device", &vendor.device()]].concat());
            for (gpu, cpu) in on_gpu.as_array().unwrap().iter().zip(on_cpu.as_array().unwrap()) {
                assert_eq!(gpu["tokens"], cpu["tokens"], "{architecture}");
                assert_eq!(gpu["tokens"].as_array().unwrap().len(), 12);
                let kernels = gpu["kernels"].as_array().unwrap();
                let mine = |k: &Value| k["kernel"].as_str().unwrap().starts_with(vendor.backend);
                assert!(kernels.iter().all(mine), "{gpu}");
                // All of them were there before the first token.
                assert!(gpu["kernels_compiled"].as_u64().unwrap() as usize >= kernels.len(), "{gpu}");
            }
        }
    }
}

#[test]
fn a_cold_start_is_shown_and_a_warm_one_compiles_nothing() {
    for vendor in vendors() {
        let cache = tempfile::tempdir().unwrap();
        let stand_in = vendor.stand_in.clone().cache(cache.path());
        let device = vendor.device();
        let args = ["demo", "--device", &device, "--max-tokens", "2"];
        let text = String::from_utf8(kernels(&stand_in, &args).stderr).unwrap();
        assert!(text.contains("kernels were compiled or loaded before that, in "), "{text}");
        // The second process would fail if it compiled.
        out(&stand_in.clone().set("FAIL", format!("{}:1:6", vendor.compile)), &args);
        let list = json(&stand_in, &["cache", "list", "--json"]);
        let all = list["kernels"].as_array().unwrap();
        let mine = |k: &Value| k["arch"] == vendor.arch && k["compiler"] == vendor.compiler;
        assert!(all.len() > 10 && all.iter().all(mine), "{list}");
        assert!(out(&stand_in, &["cache", "list"]).contains("KERNELS_CACHE_DIR"));
        assert!(out(&stand_in, &["cache", "clear"]).contains(&format!("removed {} kernels", all.len())));
        assert_eq!(json(&stand_in, &["cache", "list", "--json"])["kernels"].as_array().unwrap().len(), 0);
        let off = stand_in.variable("KERNELS_CACHE_DIR", "off");
        assert!(fails(&off, &["cache", "list"]).contains("KERNELS_CACHE_DIR is off"));
        out(&off, &args);
    }
}

#[test]
fn doctor_list_explain_and_check_know_the_device() {
    for vendor in vendors() {
        let (first, second) = (vendor.device(), format!("{}:1", vendor.kind));
        let doctor = json(&vendor.two, &["doctor", "--json"]);
        let devices: Vec<_> = doctor["devices"].as_array().unwrap().iter().map(|d| &d["device"]).collect();
        assert_eq!(devices, ["cpu", &first, &second]);
        assert!(doctor["ops"].as_array().unwrap().is_empty(), "every op has a kernel on each: {doctor}");
        assert!(
            !out(&vendor.two, &["list", "--markdown"]).contains("|  |"),
            "a backend has a kernel, or not"
        );
        let explain = json(&vendor.two, &["explain", "attention.decode", "--device", &second, "--json"]);
        assert!(explain["chosen"].as_str().unwrap().starts_with(vendor.backend), "{explain}");
        let check = ["check", "--device", &second, "--op", "activation.*", "--json"];
        let report = json(&vendor.two, &check);
        let ran = report["kernels"].as_array().unwrap();
        assert!(ran.len() == 7 && ran.iter().all(|k| k["device"] == second), "{report}");
        let bench = ["bench", "--device", &first, "--op", "sampling.apply_mask", "--json"];
        assert!(json(&vendor.two, &bench)[0]["median_us"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn what_is_missing_is_said_and_nothing_panics() {
    for vendor in vendors() {
        let stand_in = || vendor.stand_in.clone();
        let device = vendor.device();
        let check = ["check", "--device", &device];
        let text = fails(&stand_in().without_driver(), &check);
        assert!(vendor.driver.iter().all(|said| text.contains(said)), "{text}");
        assert!(fails(&stand_in().set("DEVICES", 0), &check).contains(vendor.no_device));
        let cache = tempfile::tempdir().unwrap();
        let no_compiler = stand_in().without_compiler().cache(cache.path());
        let text = fails(&no_compiler, &["demo", "--device", &device]);
        assert!(text.contains(vendor.compiler_file) && text.contains(vendor.compiler_fix), "{text}");
        assert!(fails(&no_compiler, &check).contains(vendor.compiler_file));
        // On the CPU's side, each of its kernels says which library was looked for.
        let nothing = stand_in().without_driver().without_compiler().cache(cache.path());
        let explain = kernels(&nothing, &["explain", "gemm.linear_gguf"]);
        let text = String::from_utf8(explain.stdout).unwrap();
        let line = text.lines().find(|l| l.contains(vendor.backend)).unwrap();
        assert!(line.contains(&format!("runs on {}, not on cpu", vendor.kind)), "{line}");
        assert!(line.contains(vendor.driver[0]) && line.contains(vendor.compiler_file), "{line}");
    }
    #[cfg(feature = "cuda")]
    {
        let old = StandIn::cuda().set("DRIVER", 11_040);
        assert!(fails(&old, &["check", "--device", "cuda:0"]).contains("CUDA 11.4 is too old"));
    }
}

/// A layer on each of two vendors' devices in one process, with the CPU's results.
#[cfg(all(feature = "cuda", feature = "rocm"))]
#[test]
fn two_vendors_in_one_process() {
    use kernel_registry::{DType, Registry, Tensor, ops};
    if !StandIn::both().test("two_vendors_in_one_process") {
        return;
    }
    let registry = Registry::linked().unwrap();
    let values = |n: usize| (0..n).map(|i| ((i * 7 + 3) % 11) as f32 / 8.0 - 0.6).collect::<Vec<_>>();
    let mut results = Vec::new();
    for name in ["cpu", "cuda:0", "rocm:0"] {
        let device = registry.device(name).unwrap();
        let tensor = |shape: &[usize]| {
            let all = values(shape.iter().product());
            Tensor::from_f32(&all, DType::F32, shape).unwrap().to_device(device).unwrap()
        };
        let ids = Tensor::from_slice(&[3i32, 0, 5], &[3]).unwrap().to_device(device).unwrap();
        let recorder = kernel_registry::Recorder::start();
        let x = ops::embeddings::embedding(&ids, &tensor(&[8, 16]), DType::F32).unwrap();
        let h = ops::layernorm::rmsnorm(&x, &tensor(&[16]), 1e-5).unwrap();
        let h = ops::gemm::linear(&h, &tensor(&[2 * 24, 16]), None).unwrap();
        let h = ops::gemm::linear(&ops::activation::silu_and_mul(&h).unwrap(), &tensor(&[16, 24]), None);
        let y = ops::elementwise::add(&x, &h.unwrap()).unwrap();
        assert!(recorder.records().iter().all(|r| r.device.to_string() == name), "{name}");
        results.push(y.to_vec::<f32>().unwrap());
    }
    for (gpu, cpu) in results[1..].iter().flat_map(|gpu| gpu.iter().zip(&results[0])) {
        assert!((gpu - cpu).abs() <= 1e-5 * cpu.abs().max(1.0), "{gpu} and {cpu}");
    }
}

/// Devices that a variable hides, and one that cannot be described, are said; the others are in use.
#[test]
fn hidden_and_failing_devices_are_reported() {
    for vendor in vendors() {
        let (first, second) = (vendor.device(), format!("{}:1", vendor.kind));
        let (variable, describe) = match vendor.kind {
            "cuda" => ("CUDA_VISIBLE_DEVICES", "cuDeviceGetName"),
            _ => ("HIP_VISIBLE_DEVICES", "hipGetDevicePropertiesR0600"),
        };
        let ids = |stand_in: &StandIn| {
            let doctor = json(stand_in, &["doctor", "--json"]);
            let row =
                |d: &Value| format!("{} {}", d["device"].as_str().unwrap(), d["arch"].as_str().unwrap());
            doctor["devices"].as_array().unwrap().iter().map(row).skip(1).collect::<Vec<_>>()
        };
        let both = ids(&vendor.two);
        assert_eq!(both.len(), 2);
        let one = vendor.two.clone().variable(variable, 1);
        let hidden: Vec<_> = both[1..].iter().map(|d| d.replace(&second, &first)).collect();
        assert_eq!(ids(&one), hidden, "the one that is left is the first");
        assert!(out(&one, &["doctor"]).contains(&format!("{variable}=1")));
        let text = fails(&one, &["check", "--device", &second]);
        assert!(
            text.contains(&format!("there are 1 such devices; {variable}=\"1\" may hide others")),
            "{text}"
        );
        assert!(text.contains(&format!("fix: change or unset {variable}")), "{text}");
        let none = vendor.two.clone().variable(variable, "");
        let text = fails(&none, &["check", "--device", &first]);
        assert!(text.contains(vendor.no_device) && text.contains(&format!("{variable}=\"\"")), "{text}");

        let broken = vendor.two.clone().set("FAIL", format!("{describe}:2:999"));
        let doctor = kernels(&broken, &["doctor"]);
        let text = String::from_utf8_lossy(&doctor.stdout);
        assert_eq!(doctor.status.code(), Some(1), "a device that fails is a fault: {text}");
        assert!(text.contains(&format!("fault: {second}: no device")) && text.contains(&first), "{text}");
        assert!(fails(&broken, &["check", "--device", &second]).contains("no device"));
        out(&broken, &["explain", "layernorm.rmsnorm", "--device", &first]);
    }
}

/// Four unlike devices: each call resolves for the device of its arguments, and none moves them.
#[cfg(all(feature = "cuda", feature = "rocm"))]
#[test]
fn unlike_devices_in_one_process() {
    use kernel_registry::{
        Backend, CallError, DType, Error, Key, Policy, Recorder, Registry, Selector, Tensor, ops,
    };
    let a_box = StandIn::both().set("DEVICES", 2).set("CC", "80,90").set("GFX", "gfx942,gfx1100");
    if !a_box.test("unlike_devices_in_one_process") {
        return;
    }
    let registry = Registry::linked().unwrap();
    const NAMES: [(&str, &str); 4] =
        [("cuda:0", "sm_80"), ("cuda:1", "sm_90"), ("rocm:0", "gfx942"), ("rocm:1", "gfx1100")];
    let devices: Vec<_> = NAMES.iter().map(|(name, _)| registry.device(name).unwrap()).collect();
    let arch = |i: usize| devices[i].platform().arch.to_string();
    (0..4).for_each(|i| assert_eq!(arch(i), NAMES[i].1));

    // Turn about, so that what is kept for one device would show on the next.
    let host = Tensor::from_slice(&[3.0f32, 4.0], &[1, 2]).unwrap();
    let weight = Tensor::from_slice(&[1.0f32, 2.0], &[2]).unwrap();
    let on: Vec<_> =
        devices.iter().map(|d| (host.to_device(*d).unwrap(), weight.to_device(*d).unwrap())).collect();
    let recorder = Recorder::start();
    for _ in 0..2 {
        for (device, (x, w)) in devices.iter().zip(&on) {
            let y = ops::layernorm::rmsnorm(x, w, 0.0).unwrap();
            assert_eq!(y.device(), *device);
            let y = y.to_f32_vec().unwrap();
            assert!((y[0] - 0.848_528).abs() < 1e-5 && (y[1] - 2.262_741).abs() < 1e-5, "{y:?}");
        }
    }
    for (i, record) in recorder.records().iter().enumerate() {
        assert_eq!(record.device.to_string(), NAMES[i % 4].0);
        assert!(record.kernel.starts_with(if i % 4 < 2 { "nvrtc-" } else { "hiprtc-" }), "{}", record.kernel);
    }

    // A kernel of one architecture is chosen there and nowhere else.
    let key = Key::of(DType::BF16).with_weight(DType::F8E4M3).with_fact(3);
    let chosen = |i: usize| {
        let decision = Selector::new(registry, devices[i]).explain("gemm.fp8_scaled_mm", Some(&key), None);
        decision.unwrap().chosen().unwrap().backend
    };
    let backends: Vec<_> = (0..4).map(chosen).collect();
    assert_eq!(backends, [Backend::NVRTC, Backend::CUBLASLT, Backend::HIPRTC, Backend::HIPRTC]);

    // Tensors of two devices in one call, of one kind or of two.
    for (a, b) in [(0, 1), (1, 2), (3, 0)] {
        let error = ops::layernorm::rmsnorm(&on[a].0, &on[b].1, 0.0).unwrap_err();
        let Error::Call(CallError::DeviceMismatch { device, other, .. }) = &error else { panic!("{error}") };
        assert_eq!((device.to_string().as_str(), other.to_string().as_str()), (NAMES[a].0, NAMES[b].0));
        assert!(error.to_string().contains("nothing is moved implicitly"), "{error}");
    }

    // What a scope asks for holds on each device, and fails where that cannot serve.
    let nvrtc = Policy::strict("layernorm.*", Backend::NVRTC);
    let ran = registry.scope(nvrtc, || {
        on.iter().map(|(x, w)| ops::layernorm::rmsnorm(x, w, 0.0).is_ok()).collect::<Vec<_>>()
    });
    assert_eq!(ran.unwrap(), [true, true, false, false]);

    // A quarantine is of one device.
    registry.quarantine("nvrtc-layernorm.rmsnorm-float", devices[1], "test").unwrap();
    let ran: Vec<_> = on.iter().map(|(x, w)| ops::layernorm::rmsnorm(x, w, 0.0).map(|_| ())).collect();
    assert!(ran[0].is_ok() && ran[2].is_ok() && ran[3].is_ok());
    let text = ran[1].as_ref().unwrap_err().to_string();
    assert!(text.contains("device \"cuda:1\"") && text.contains("is quarantined: test"), "{text}");
}

/// The binary itself asks the loader for none of the vendors' libraries.
#[test]
fn the_binary_needs_no_gpu_library() {
    let output = Command::new("ldd").arg(env!("CARGO_BIN_EXE_kernels")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    for library in ["cuda", "nvrtc", "cublas", "amdhip", "hiprtc"] {
        assert!(!text.contains(library), "{text}");
    }
}
