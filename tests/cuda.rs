//! `--features cuda` as its users see it, on a GPU that the tests bring (see tests/standin).

use kernels_standin::StandIn;
use serde_json::Value;
use std::process::{Command, Output};

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
    let stand_in = StandIn::new();
    for architecture in ["llama", "qwen2", "qwen3", "gemma3"] {
        let mut args = vec!["demo", "--architecture", architecture, "--max-tokens", "12", "--json"];
        args.extend(["--prompt", "The capital of France is", "--prompt", "Two", "--ignore-eos"]);
        let on_gpu = json(&stand_in, &[args.as_slice(), &["--device", "cuda:0"]].concat());
        let on_cpu = json(&stand_in, &[args.as_slice(), &["--backend", "reference"]].concat());
        for (gpu, cpu) in on_gpu.as_array().unwrap().iter().zip(on_cpu.as_array().unwrap()) {
            assert_eq!(gpu["tokens"], cpu["tokens"], "{architecture}");
            assert_eq!(gpu["tokens"].as_array().unwrap().len(), 12);
            let kernels = gpu["kernels"].as_array().unwrap();
            assert!(kernels.iter().all(|k| k["kernel"].as_str().unwrap().starts_with("nvrtc-")), "{gpu}");
            // All of them were there before the first token.
            assert!(gpu["kernels_compiled"].as_u64().unwrap() as usize >= kernels.len(), "{gpu}");
        }
    }
}

#[test]
fn a_cold_start_is_shown_and_a_warm_one_compiles_nothing() {
    let cache = tempfile::tempdir().unwrap();
    let stand_in = StandIn::new().cache(cache.path());
    let args = ["demo", "--device", "cuda:0", "--max-tokens", "2"];
    let text = String::from_utf8(kernels(&stand_in, &args).stderr).unwrap();
    assert!(text.contains("kernels were compiled or loaded before that, in "), "{text}");
    // The second process would fail if it compiled.
    out(&stand_in.clone().set("FAIL", "nvrtcCompileProgram:1:6"), &args);
    let list = json(&stand_in, &["cache", "list", "--json"]);
    let all = list["kernels"].as_array().unwrap();
    assert!(
        all.len() > 10 && all.iter().all(|k| k["arch"] == "sm_80" && k["compiler"] == "nvrtc_13.0"),
        "{list}"
    );
    assert!(out(&stand_in, &["cache", "list"]).contains("KERNELS_CACHE_DIR"));
    assert!(out(&stand_in, &["cache", "clear"]).contains(&format!("removed {} kernels", all.len())));
    assert_eq!(json(&stand_in, &["cache", "list", "--json"])["kernels"].as_array().unwrap().len(), 0);
    let off = stand_in.variable("KERNELS_CACHE_DIR", "off");
    assert!(fails(&off, &["cache", "list"]).contains("KERNELS_CACHE_DIR is off"));
    out(&off, &args);
}

#[test]
fn doctor_list_explain_and_check_know_the_device() {
    let stand_in = StandIn::new().set("DEVICES", 2).set("CC", "80,90");
    let doctor = json(&stand_in, &["doctor", "--json"]);
    let devices: Vec<_> = doctor["devices"].as_array().unwrap().iter().map(|d| &d["device"]).collect();
    assert_eq!(devices, ["cpu", "cuda:0", "cuda:1"]);
    assert!(doctor["ops"].as_array().unwrap().is_empty(), "every op has a kernel on each: {doctor}");
    let explain = json(&stand_in, &["explain", "attention.decode", "--device", "cuda:1", "--json"]);
    assert!(explain["chosen"].as_str().unwrap().starts_with("nvrtc-"), "{explain}");
    let check = ["check", "--device", "cuda:1", "--op", "activation.*", "--json"];
    let report = json(&stand_in, &check);
    let ran = report["kernels"].as_array().unwrap();
    assert!(ran.len() == 6 && ran.iter().all(|k| k["device"] == "cuda:1"), "{report}");
    let bench = ["bench", "--device", "cuda:0", "--op", "sampling.apply_mask", "--json"];
    assert!(json(&stand_in, &bench)[0]["median_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn what_is_missing_is_said_and_nothing_panics() {
    let check = ["check", "--device", "cuda:0"];
    let text = fails(&StandIn::new().without_driver(), &check);
    assert!(text.contains("libcuda.so.1") && text.contains("install the NVIDIA driver"), "{text}");
    assert!(fails(&StandIn::new().set("DEVICES", 0), &check).contains("NO_DEVICE"));
    assert!(fails(&StandIn::new().set("DRIVER", 11_040), &check).contains("CUDA 11.4 is too old"));
    let cache = tempfile::tempdir().unwrap();
    let no_compiler = StandIn::new().without_nvrtc().cache(cache.path());
    let text = fails(&no_compiler, &["demo", "--device", "cuda:0"]);
    assert!(text.contains("NVRTC") && text.contains("pip install nvidia-cuda-nvrtc"), "{text}");
    assert!(fails(&no_compiler, &check).contains("NVRTC"));
    // On the CPU's side, each CUDA kernel says which library was looked for.
    let nothing = StandIn::new().without_driver().without_nvrtc().cache(cache.path());
    let explain = kernels(&nothing, &["explain", "gemm.linear_gguf"]);
    let text = String::from_utf8(explain.stdout).unwrap();
    let line = text.lines().find(|l| l.contains("nvrtc-")).unwrap();
    assert!(line.contains("runs on cuda, not on cpu") && line.contains("tried libcuda.so"), "{line}");
    assert!(line.contains("libnvrtc.so.13"), "{line}");
}

/// The binary itself asks the loader for none of NVIDIA's libraries.
#[test]
fn the_binary_needs_no_cuda_library() {
    let output = Command::new("ldd").arg(env!("CARGO_BIN_EXE_kernels")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("cuda") && !text.contains("nvrtc"), "{text}");
}
