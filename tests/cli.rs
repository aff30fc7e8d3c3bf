//! The command as its users see it.

use serde_json::Value;
use std::process::{Command, Output};

fn kernels(args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kernels"));
    for name in ["KERNELS_BACKEND", "KERNELS_POLICY", "KERNELS_QUARANTINE", "KERNELS_CPU_FEATURES"] {
        command.env_remove(name);
    }
    command.args(args).envs(env.iter().copied()).output().unwrap()
}

fn out(args: &[&str]) -> String {
    let output = kernels(args, &[]);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error of a command that must fail with code 1.
fn fails(args: &[&str], env: &[(&str, &str)]) -> String {
    let output = kernels(args, env);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&out(args)).unwrap()
}

#[test]
fn doctor_says_what_is_there_and_what_is_missing() {
    let text = out(&["doctor"]);
    assert!(text.contains("link integrity: ok") && text.contains("healthy"), "{text}");
    let value = json(&["doctor", "--json"]);
    assert_eq!(value["devices"][0]["device"], "cpu");
    for kind in ["cuda", "rocm"] {
        let here = value["devices"]
            .as_array()
            .unwrap()
            .iter()
            .any(|d| d["device"].as_str().unwrap().starts_with(kind));
        let absent = value["absent"].as_array().unwrap().iter().any(|a| a["kind"] == kind && a["why"] != "");
        let off = value["features_off"].as_array().unwrap().iter().any(|f| f == kind);
        assert!(here || absent || off, "{kind}: {value}");
    }
    out(&["doctor", "--require", "layernorm.rmsnorm"]);
    let output = kernels(&["doctor", "--require", "layernorm.nothing"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("unknown op \"layernorm.nothing\""));
}

#[test]
fn list_filters_and_knows_its_formats() {
    assert!(out(&["list"]).contains("layernorm.rmsnorm"));
    let value = json(&["list", "--op", "layernorm.*", "--json"]);
    assert_eq!(value.as_array().unwrap().len(), 7);
    let table = out(&["list", "--markdown"]);
    assert!(table.starts_with("| op | what it does |") && table.contains(" reference |"));
    assert!(out(&["list", "--kernels", "--backend", "reference"]).contains("kernels-ops 0.1.0"));
    if cfg!(feature = "cpu") {
        assert!(out(&["list", "--markdown", "--op", "attention.decode"]).contains("amx (experimental)"));
        assert!(out(&["list", "--kernels", "--op", "attention.decode"]).contains(", experimental"));
    }
    assert!(
        fails(&["list", "--op", "layernorm.rmsnrm"], &[]).contains("did you mean \"layernorm.rmsnorm\"?")
    );
    assert!(fails(&["list", "--backend", "referense"], &[]).contains("did you mean \"reference\"?"));
}

#[test]
fn explain_decides_as_calls_do() {
    let value = json(&["explain", "layernorm.rmsnorm", "--dtype", "bf16", "--json"]);
    let best = if cfg!(feature = "cpu") { "simd" } else { "reference" };
    assert!(value["chosen"].as_str().unwrap().starts_with(best), "{value}");
    let value = json(&["explain", "layernorm.rmsnorm", "--platform", "portable", "--json"]);
    let avx: Vec<_> = value["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|c| c["kernel"].as_str().unwrap().contains("avx"))
        .collect();
    assert!(avx.iter().all(|c| c["reasons"][0].as_str().unwrap().starts_with("needs avx")), "{value}");
    let output = kernels(&["explain", "layernorm.rmsnorm", "--platform", "sm_90"], &[]);
    let cuda = cfg!(feature = "cuda");
    assert_eq!(output.status.code(), Some(if cuda { 0 } else { 1 }), "nothing else runs there");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("runs on cpu, not on cuda") && text.contains("runs nvrtc-") == cuda, "{text}");
    assert!(
        fails(&["explain", "layernorm.rmsnorm", "--platform", "sm90"], &[]).contains("is not a platform")
    );
    assert!(fails(&["explain", "layernorm.rmsnorm", "--dtype", "f8"], &[]).contains("one of: f32"));
    assert!(
        fails(&["explain", "layernorm.rmsnorm", "--device", "cuda:99"], &[]).contains("is not available")
    );
}

#[test]
fn the_environment_pins_backends_and_takes_features_away() {
    let chosen = |env: &[(&str, &str)]| {
        let output = kernels(&["explain", "layernorm.rmsnorm", "--dtype", "f32", "--json"], env);
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        value["chosen"].as_str().unwrap().to_string()
    };
    assert_eq!(chosen(&[("KERNELS_BACKEND", "layernorm.*=reference")]), "reference-layernorm.rmsnorm-float");
    if cfg!(feature = "cpu") {
        assert_eq!(chosen(&[("KERNELS_CPU_FEATURES", "portable")]), "simd-portable-layernorm.rmsnorm-float");
    }
    assert!(fails(&["list"], &[("KERNELS_BACKEND", "refernce")]).contains("did you mean \"reference\"?"));
    assert!(fails(&["list"], &[("KERNELS_BACKEND", "layernrm.*=reference")]).contains("unknown op"));
    assert!(
        fails(&["list"], &[("KERNELS_CPU_FEATURES", "avx9000")])
            .contains("KERNELS_CPU_FEATURES: \"avx9000\" is not a tier")
    );
}

#[test]
fn policies_come_from_the_environment() {
    let wrong = fails(&["list"], &[("KERNELS_POLICY", "self-tset")]);
    assert!(wrong.contains("did you mean \"self-test\"?"), "{wrong}");
    // The reference is not for ranked calls then; whoever names it has it.
    let no_reference = [("KERNELS_POLICY", "no-reference,deterministic")];
    let explain = ["explain", "layernorm.rmsnorm", "--dtype", "f32"];
    let ranked = kernels(&explain, &no_reference);
    assert_eq!(ranked.status.success(), cfg!(feature = "cpu"), "without simd there is nothing else");
    assert!(String::from_utf8_lossy(&ranked.stdout).contains("counts only when named"));
    let named = [&explain[..], &["--backend", "reference"]].concat();
    assert!(kernels(&named, &no_reference).status.success());
    assert!(
        String::from_utf8_lossy(&kernels(&["doctor"], &no_reference).stdout)
            .contains("KERNELS_POLICY=no-ref")
    );
    // Every kernel of a model passes its test before its first use.
    let tested = kernels(&["demo", "--max-tokens", "4", "--json"], &[("KERNELS_POLICY", "self-test")]);
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr));
    let tested: Value = serde_json::from_slice(&tested.stdout).unwrap();
    assert_eq!(tested["tokens"], json(&["demo", "--max-tokens", "4", "--json"])["tokens"]);
}

#[test]
fn a_quarantine_list_keeps_kernels_out_and_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("wrong.tsv");
    let file = list.to_str().unwrap();
    let missing = fails(&["doctor"], &[("KERNELS_QUARANTINE", file)]);
    assert!(
        missing.contains("KERNELS_QUARANTINE") && missing.contains("`kernels check --quarantine FILE`"),
        "{missing}"
    );
    // What passes is not listed.
    out(&["check", "--op", "layernorm.rmsnorm", "--quarantine", file]);
    let text = std::fs::read_to_string(&list).unwrap();
    assert!(text.starts_with("# kernel\tdevice") && text.lines().count() == 1, "{text}");

    let value = json(&["explain", "layernorm.rmsnorm", "--dtype", "f32", "--json"]);
    let best = value["chosen"].as_str().unwrap().to_string();
    let name = json(&["doctor", "--json"])["devices"][0]["name"].as_str().unwrap().to_string();
    let entry =
        |name: &str| std::fs::write(&list, format!("{best}\tcpu\t{name}\tcase \"x\" differs\n")).unwrap();
    let chosen = || {
        let output = kernels(
            &["explain", "layernorm.rmsnorm", "--dtype", "f32", "--json"],
            &[("KERNELS_QUARANTINE", file)],
        );
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["chosen"].clone()
    };
    entry(&name);
    assert_ne!(chosen(), *best);
    let doctor = kernels(&["doctor"], &[("KERNELS_QUARANTINE", file)]);
    let text = String::from_utf8_lossy(&doctor.stdout);
    assert!(text.contains(&format!("in quarantine:\n  {best} on cpu: case \"x\" differs")), "{text}");
    let forced = ["explain", "layernorm.rmsnorm", "--dtype", "f32"];
    let output = kernels(&forced, &[("KERNELS_QUARANTINE", file)]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("is quarantined: case \"x\" differs"));
    // On another product the list says nothing, and a check here leaves its entries alone.
    entry("some other processor");
    assert_eq!(chosen(), *best);
    out(&["check", "--op", "layernorm.rmsnorm", "--quarantine", file]);
    assert!(std::fs::read_to_string(&list).unwrap().contains("some other processor"));
    // The check runs it nevertheless, and takes it off.
    entry(&name);
    let output = kernels(
        &["check", "--op", "layernorm.rmsnorm", "--quarantine", file],
        &[("KERNELS_QUARANTINE", file)],
    );
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains(&best));
    assert_eq!(chosen(), *best);
}

#[test]
fn counters_are_prometheus_text() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("counters.prom");
    out(&["demo", "--max-tokens", "2", "--backend", "reference", "--metrics", file.to_str().unwrap()]);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("# TYPE kernels_calls counter") && text.ends_with("# EOF\n"), "{text}");
    let line = text.lines().find(|l| l.starts_with("kernels_calls_total{op=\"layernorm.rmsnorm\"")).unwrap();
    assert!(
        line.contains("backend=\"reference\"") && line.contains("kernel=\"reference-layernorm.rmsnorm-"),
        "{line}"
    );
    assert!(line.rsplit(' ').next().unwrap().parse::<u64>().unwrap() > 1, "{line}");
    assert!(!text.contains("kernels_fallbacks_total"), "a named reference is no fallback: {text}");
    let preferred =
        ["demo", "--max-tokens", "2", "--backend", "layernorm.*=prefer:reference", "--metrics", "-"];
    assert!(out(&preferred).contains("kernels_calls_total{op=\"layernorm."));
}

#[test]
fn a_new_backend_needs_a_name_and_a_free_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert!(fails(&["new-backend", "A b", "--path", path], &[]).contains("cannot be a backend's name"));
    assert!(fails(&["new-backend", "reference", "--path", path], &[]).contains("take another name"));
    assert!(out(&["new-backend", "kernels-my-npu", "--path", path]).contains("cargo test"));
    let test = std::fs::read_to_string(folder.path().join("kernels-my-npu/tests/parity.rs")).unwrap();
    assert!(test.contains("kernels_my_npu::BACKEND"), "{test}");
    assert!(fails(&["new-backend", "my-npu", "--path", path], &[]).contains("is there already"));
}

#[test]
fn check_fails_where_a_backend_that_was_asked_for_is_not_there() {
    assert!(out(&["check", "--op", "layernorm.rmsnorm"]).contains("0 failed"));
    let value = json(&["check", "--op", "layernorm.rmsnorm", "--backend", "reference", "--json"]);
    assert_eq!(value["kernels"][0]["failures"].as_array().unwrap().len(), 0);
    assert!(
        fails(&["check", "--backend", "nobody"], &[]).contains("no kernel of backend \"nobody\" is linked")
    );
}

#[test]
fn bench_reports_medians_and_shares() {
    let value = json(&[
        "bench",
        "--op",
        "embeddings.rope",
        "--backend",
        if cfg!(feature = "cpu") { "simd" } else { "reference" },
        "--json",
    ]);
    let row = &value[0];
    assert!(
        row["median_us"].as_f64().unwrap() > 0.0 && row["share_of_roofline"].as_f64().unwrap() > 0.0,
        "{row}"
    );
}

/// A peer as a shell script, which answers calls and times as `scripts/peers/protocol.py` says.
#[cfg(all(unix, feature = "cpu"))]
#[test]
fn bench_times_peers_in_turns() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let answers = |call: &str, time: &str| {
        format!(
            "while read -r line; do case $line in *'\"call\"'*) echo '{call}';; *) echo '{time}';; esac; done"
        )
    };
    let hello = |name: &str| format!("echo '{{\"peer\": \"{name}\"}}'\n");
    script("peer-slow", &(hello("slow 1.0") + &answers(r#"{"note": "sleeps"}"#, r#"{"seconds": 0.5}"#)));
    script(
        "peer-other",
        &(hello("other") + &answers(r#"{"error": "no such op"}"#, r#"{"error": "nothing"}"#)),
    );
    script("peer-absent", r#"echo '{"error": "ImportError: no module"}'"#);
    script("helper", "exit 1");
    let path = folder.path().to_str().unwrap();
    let args = ["bench", "--op", "elementwise.add", "--cases", "f32", "--threads", "1", "--peers", path];

    let output = kernels(&[&args[..], &["--json"]].concat(), &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("peer-absent: ImportError: no module"), "{said}");
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    for row in rows.as_array().unwrap() {
        let peer =
            |i: usize| (row["peers"][i]["peer"].as_str().unwrap(), row["peers"][i]["note"].as_str().unwrap());
        assert_eq!((peer(0), row["peers"][0]["median_us"].as_f64()), (("slow 1.0", "sleeps"), Some(5e5)));
        assert_eq!((peer(1), row["peers"][1]["median_us"].as_f64()), (("other", "no such op"), None));
    }
    let csv = out(&[&args[..], &["--csv"]].concat());
    assert!(
        csv.starts_with("op,case,who,threads,median_us,") && csv.contains("slow 1.0 (sleeps),1,500000.000,"),
        "{csv}"
    );
    assert!(out(&args).contains("slow 1.0"));
    let error = fails(&["bench", "--peers", "/nowhere"], &[]);
    assert!(error.contains("/nowhere"), "{error}");
    let error = fails(&["bench", "--op", "elementwise.add", "--cases", "f99"], &[]);
    assert!(error.contains("contains \"f99\""), "{error}");
}

#[test]
fn demo_and_generate() {
    let value = json(&["demo", "--max-tokens", "8", "--json"]);
    assert_eq!(value["tokens"].as_array().unwrap().len(), 8);
    assert!(value["decode_tokens_per_s"].as_f64().unwrap() > 0.0);
    let reference = json(&["demo", "--max-tokens", "8", "--backend", "reference", "--json"]);
    assert_eq!(reference["tokens"], value["tokens"], "the reference says the same");
    assert!(
        reference["kernels"]
            .as_array()
            .unwrap()
            .iter()
            .all(|k| k["kernel"].as_str().unwrap().starts_with("reference"))
    );

    let trace = std::env::temp_dir().join(format!("kernels-trace-{}.jsonl", std::process::id()));
    out(&["demo", "--max-tokens", "2", "--trace", trace.to_str().unwrap()]);
    let lines = std::fs::read_to_string(&trace).unwrap();
    std::fs::remove_file(&trace).unwrap();
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((&first["op"], &first["tensors"][0]["name"]), (&"embeddings.embedding".into(), &"ids".into()));

    assert!(
        fails(&["generate", "--model", "/nowhere.gguf"], &[])
            .contains("cannot open model file /nowhere.gguf")
    );
    assert!(fails(&["demo", "--prompt", ""], &[]).contains("the prompt has no tokens"));
    assert!(fails(&["demo", "--top-p", "2"], &[]).contains("top_p is 2, outside above 0, to 1"));
    assert!(fails(&["demo", "--device", "tpu:0"], &[]).contains("no linked crate serves \"tpu\" devices"));
}
