//! Selection over registries made in the test: stand-in devices, and kernels that only have a spec.

mod host_box;

use host_box::{HostBox, platform};
use kernels_core::*;
use std::sync::Arc;

kernels_core::op! {
    /// A toy.
    pub struct Toy = "toy.op" {
        /// `[n]`
        reads x,
        /// `[n]`
        writes out,
    }
}

impl Toy<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        let key = Key::of(self.x.dtype()).with_packed(self.x.packed());
        Ok(Valid { key, empty: self.x.dim(0) == 0 })
    }
}

unsafe fn copy(_: &Ctx, a: &Toy<'_>) -> Result<(), RunError> {
    // SAFETY: both have x's elements, f32.
    unsafe { a.out.as_mut_ptr::<f32>().copy_from(a.x.as_ptr(), a.x.dim(0)) };
    Ok(())
}

/// A box with devices of these architectures, or none for a reason.
fn stand_in(name: &'static str, kind: DeviceKind, archs: Result<Vec<Arch>, Reason>) -> &'static dyn Driver {
    let probe = move || {
        let archs = archs.clone()?;
        Ok((0..).zip(archs).map(|(i, arch)| platform(kind, i, arch)).collect())
    };
    leak(HostBox { kind, name, probe })
}

const CUDA_BOX: [Arch; 3] =
    [Arch::Cuda { major: 8, minor: 0 }, Arch::Cuda { major: 9, minor: 0 }, Arch::Unknown];

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn cuda() -> &'static dyn Driver {
    stand_in("stand-in", DeviceKind::CUDA, Ok(CUDA_BOX.to_vec()))
}

fn manifest(
    package: &'static str,
    backends: &[&'static str],
    driver: &'static dyn Driver,
) -> &'static Manifest {
    let backends: Vec<Backend> = backends.iter().map(|b| Backend(b)).collect();
    leak(Manifest { package, version: "1.0.0", backends: leak(backends), driver })
}

fn spec(manifest: &'static Manifest, backend: &'static str, line: u32) -> KernelSpec {
    let origin = Origin { package: manifest.package, version: "1.0.0", file: "kernel.rs", line };
    KernelSpec {
        backend: Backend(backend),
        formats: Formats::same(DTypeSet::FLOAT),
        ..KernelSpec::new("toy.op", manifest, origin)
    }
}

fn kernel(spec: KernelSpec) -> &'static dyn AnyKernel {
    // SAFETY: `copy` needs nothing of the device.
    leak(unsafe { Kernel::<Toy<'static>>::new(spec, copy, None) })
}

fn toy_op() -> &'static OpInfo {
    let linked = Parts::linked();
    linked.ops.into_iter().find(|o| o.name == "toy.op").expect("the op registered itself at link time")
}

fn registry(manifests: &[&'static Manifest], specs: &[KernelSpec]) -> Result<Registry, BuildError> {
    let kernels = specs.iter().map(|s| kernel(*s)).collect();
    Registry::build(Parts { ops: vec![toy_op()], kernels, manifests: manifests.to_vec(), features: vec![] })
}

fn chosen(registry: &Registry, platform: &str, key: Option<Key>) -> Option<String> {
    let platform = Platform::described(platform).unwrap();
    registry.explain("toy.op", &platform, key.as_ref(), None).unwrap().chosen().map(|s| s.id())
}

#[test]
fn capability_windows_are_inclusive_at_both_ends() {
    let m = manifest("k", &["a"], cuda());
    let r = registry(&[m], &[KernelSpec { requires: leak([Requirement::cuda(80, 90)]), ..spec(m, "a", 1) }])
        .unwrap();
    for (arch, fits) in
        [("sm_75", false), ("sm_80", true), ("sm_86", true), ("sm_90", true), ("sm_100", false)]
    {
        assert_eq!(chosen(&r, arch, None).is_some(), fits, "{arch}");
    }
}

#[test]
fn exact_sets_do_not_reach_later_architectures() {
    let m = manifest("k", &["a"], cuda());
    let r =
        registry(&[m], &[KernelSpec { requires: leak([Requirement::cuda_exact(&[90])]), ..spec(m, "a", 1) }])
            .unwrap();
    assert!(chosen(&r, "sm_90", None).is_some() && chosen(&r, "sm_100", None).is_none());
}

#[test]
fn clauses_have_or_meaning_across_kinds() {
    let m = manifest("k", &["a"], cuda());
    let requires = leak([Requirement::cuda(90, u32::MAX), Requirement::gfx(&["gfx942", "gfx950"])]);
    let r = registry(&[m], &[KernelSpec { requires, ..spec(m, "a", 1) }]).unwrap();
    for (platform, fits) in
        [("sm_90", true), ("gfx942", true), ("sm_80", false), ("gfx1100", false), ("avx2", false)]
    {
        assert_eq!(chosen(&r, platform, None).is_some(), fits, "{platform}");
    }
}

#[test]
fn no_clause_means_every_device_of_the_drivers_kind_and_no_other() {
    let m = manifest("k", &["a"], cuda());
    let r = registry(&[m], &[spec(m, "a", 1)]).unwrap();
    assert!(chosen(&r, "sm_75", None).is_some());
    assert!(chosen(&r, "gfx942", None).is_none() && chosen(&r, "avx512", None).is_none());
}

#[test]
fn an_unknown_architecture_never_satisfies_a_bound() {
    let m = manifest("k", &["a", "b"], cuda());
    let bounded =
        KernelSpec { requires: leak([Requirement::cuda(0, u32::MAX)]), priority: 9, ..spec(m, "a", 1) };
    let r = registry(&[m], &[bounded, spec(m, "b", 2)]).unwrap();
    let device = r.device("cuda:2").unwrap();
    let decision = Selector::new(&r, device).explain("toy.op", None, None).unwrap();
    assert_eq!(decision.chosen().unwrap().backend, Backend("b"));
    assert!(matches!(decision.candidates[0].reasons[..], [Reason::ArchUnknown { .. }]), "{decision}");
}

#[test]
fn several_usable_backends_are_ambiguous_for_the_strict_form_and_ranked_for_calls() {
    let m = manifest("k", &["a", "b"], &HOST);
    let r = registry(&[m], &[spec(m, "b", 1), spec(m, "a", 2)]).unwrap();
    let s = Selector::new(&r, Device::cpu());
    let Err(Error::Select(SelectError::Ambiguous { usable, .. })) = s.select("toy.op") else {
        panic!("not ambiguous")
    };
    assert_eq!(usable, [Backend("a"), Backend("b")]);
    assert_eq!(chosen(&r, "portable", None).unwrap(), "a-toy.op-float", "of equals the first by name");
}

#[test]
fn variants_of_one_backend_are_not_ambiguous_and_the_narrower_wins() {
    let m = manifest("k", &["a"], &HOST);
    let wide = KernelSpec { variant: "portable", ..spec(m, "a", 1) };
    let narrow = KernelSpec {
        variant: "avx2",
        requires: leak([Requirement::cpu(CpuFeatures::AVX2_TIER)]),
        ..spec(m, "a", 2)
    };
    let r = registry(&[m], &[wide, narrow]).unwrap();
    assert_eq!(chosen(&r, "avx512", None).unwrap(), "a-avx2-toy.op-float");
    assert_eq!(chosen(&r, "portable", None).unwrap(), "a-portable-toy.op-float");
    assert!(Selector::new(&r, Device::cpu()).select("toy.op").is_ok());
}

#[test]
fn rank_is_priority_then_specificity_then_name_with_reference_last() {
    let m = manifest("k", &["a", "b", "c", "reference"], &HOST);
    let specs = [
        KernelSpec { priority: 99, ..spec(m, "reference", 1) },
        spec(m, "b", 2),
        KernelSpec { requires: leak([Requirement::cpu(CpuFeatures::AVX2)]), ..spec(m, "c", 3) },
        KernelSpec { priority: 1, ..spec(m, "a", 4) },
    ];
    let r = registry(&[m], &specs).unwrap();
    let order: Vec<_> = r.specs().map(|s| s.backend.0).collect();
    assert_eq!(order, ["a", "c", "b", "reference"]);
}

#[test]
fn the_result_does_not_depend_on_link_order() {
    let m = manifest("k", &["a", "b", "c"], &HOST);
    let mut specs = vec![spec(m, "a", 1), spec(m, "b", 2), spec(m, "c", 3)];
    let expected: Vec<_> = registry(&[m], &specs).unwrap().specs().map(|s| s.id()).collect();
    for _ in 0..3 {
        specs.rotate_left(1);
        assert_eq!(registry(&[m], &specs).unwrap().specs().map(|s| s.id()).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_named_backend_never_falls_back() {
    let (host, gpu) = (manifest("h", &["a"], &HOST), manifest("g", &["b"], cuda()));
    let r = registry(&[host, gpu], &[spec(host, "a", 1), spec(gpu, "b", 2)]).unwrap();
    let s = Selector::new(&r, Device::cpu());
    assert_eq!(s.select_backend("toy.op", Backend("a")).unwrap().spec().backend, Backend("a"));
    let error = s.select_backend("toy.op", Backend("b")).err().unwrap();
    assert!(matches!(error, Error::Select(SelectError::PinnedUnusable { .. })), "{error}");
    let text = error.to_string();
    assert!(text.contains("toy.op") && text.contains("\"cpu\"") && text.contains("runs on cuda"), "{text}");
}

#[test]
fn unknown_names_are_errors_with_the_nearest_right_name() {
    let m = manifest("k", &["simd"], &HOST);
    let r = registry(&[m], &[spec(m, "simd", 1)]).unwrap();
    let s = Selector::new(&r, Device::cpu());
    let text = s.select("toy.opp").err().unwrap().to_string();
    assert!(text.contains("did you mean \"toy.op\"?"), "{text}");
    let text = s.select_backend("toy.op", Backend("smid")).err().unwrap().to_string();
    assert!(text.contains("did you mean \"simd\"?"), "{text}");
    let text = Policy::parse("tyo.*=simd", &r).unwrap_err().to_string();
    assert!(text.contains("unknown op \"tyo.*\""), "{text}");
}

#[test]
fn none_usable_says_the_sentence_each_reason_and_the_fix() {
    let gpu = manifest("g", &["nvrtc"], cuda());
    let host = manifest("h", &["simd", "reference"], &HOST);
    let avx =
        KernelSpec { requires: leak([Requirement::cpu(CpuFeatures::AVX512_TIER)]), ..spec(host, "simd", 1) };
    let r = registry(&[gpu, host], &[avx, spec(gpu, "nvrtc", 2), spec(host, "reference", 3)]).unwrap();
    let rocm = stand_in("r", DeviceKind::ROCM, Ok(vec![Arch::Gfx("gfx942".into())]));
    let device = Device::of_driver(rocm).unwrap()[0];
    let error = Selector::new(&r, device).select("toy.op").err().unwrap();
    let text = error.to_string();
    let sentence = "op \"toy.op\" has no backend usable on device \"rocm:0\" (registered: [\"nvrtc\", \"reference\", \"simd\"])";
    assert!(text.starts_with(sentence), "{text}");
    assert!(text.contains("simd-toy.op-float       runs on cpu, not on rocm"), "{text}");
    assert!(text.contains("fix: "), "{text}");
}

#[test]
fn reference_counts_for_the_strict_form_only_when_named() {
    let m = manifest("k", &["reference"], &HOST);
    let r = registry(&[m], &[spec(m, "reference", 1)]).unwrap();
    let s = Selector::new(&r, Device::cpu());
    let text = s.select("toy.op").err().unwrap().to_string();
    assert!(text.contains("counts only when named"), "{text}");
    assert!(s.select_backend("toy.op", Backend::REFERENCE).is_ok());
    assert!(chosen(&r, "portable", None).is_some(), "a ranked call falls to it");
}

#[test]
fn element_types_and_gates_reject_with_their_reason() {
    fn even(key: &Key) -> Result<(), Reason> {
        match key.fact % 2 {
            0 => Ok(()),
            _ => Err(Reason::Shape { detail: format!("takes an even size, not {}", key.fact) }),
        }
    }
    let m = manifest("k", &["a"], &HOST);
    let only = KernelSpec {
        formats: Formats::same(DTypeSet::of(&[DType::F32])),
        gate: Some(even),
        ..spec(m, "a", 1)
    };
    let r = registry(&[m], &[only]).unwrap();
    assert!(chosen(&r, "portable", Some(Key::of(DType::F32).with_fact(4))).is_some());
    assert!(chosen(&r, "portable", Some(Key::of(DType::F32).with_fact(3))).is_none());
    let platform = Platform::described("portable").unwrap();
    let decision = r.explain("toy.op", &platform, Some(&Key::of(DType::BF16).with_fact(3)), None).unwrap();
    let reasons: Vec<_> = decision.candidates[0].reasons.iter().map(|r| r.to_string()).collect();
    assert_eq!(
        reasons,
        ["does not take bf16 (takes f32)", "takes an even size, not 3"],
        "all reasons, not the first"
    );
}

#[test]
fn the_policy_decides_about_experimental_kernels_and_pins_backends() {
    let m = manifest("k", &["a", "b"], &HOST);
    let r =
        registry(&[m], &[KernelSpec { experimental: true, priority: 5, ..spec(m, "a", 1) }, spec(m, "b", 2)])
            .unwrap();
    assert_eq!(chosen(&r, "portable", None).unwrap(), "b-toy.op-float");
    r.set_policy(Policy { experimental: true, ..Policy::default() }).unwrap();
    assert_eq!(chosen(&r, "portable", None).unwrap(), "a-toy.op-float");
    r.set_policy(Policy::parse("toy.*=b", &r).unwrap()).unwrap();
    assert_eq!(chosen(&r, "portable", None).unwrap(), "b-toy.op-float");
    // A pinned backend that cannot run is an error; a preferred one gives way.
    r.set_policy(Policy::parse("a", &r).unwrap()).unwrap();
    assert!(matches!(
        Selector::new(&r, Device::cpu()).require(&["toy.op"]),
        Err(Error::Select(SelectError::Required { .. }))
    ));
    r.set_policy(Policy::parse("*=prefer:a", &r).unwrap()).unwrap();
    assert_eq!(chosen(&r, "portable", None).unwrap(), "b-toy.op-float");
    assert_eq!(Policy::default(), *Arc::new(Policy::default()));
}

#[test]
fn only_forbidden_kernels_left_is_an_error_of_its_own() {
    let m = manifest("k", &["a"], &HOST);
    let deterministic = Policy { deterministic: true, ..Policy::default() };
    let full_precision = Policy { full_precision: true, ..Policy::default() };
    for (kernel, policy, says) in [
        (KernelSpec { deterministic: false, ..spec(m, "a", 1) }, deterministic, "is not deterministic"),
        (KernelSpec { quantises_activations: true, ..spec(m, "a", 1) }, full_precision, "8 bits"),
    ] {
        let r = registry(&[m], &[kernel]).unwrap();
        assert!(Selector::new(&r, Device::cpu()).require(&["toy.op"]).is_ok());
        r.set_policy(policy).unwrap();
        let error = Selector::new(&r, Device::cpu()).select("toy.op").err().unwrap();
        assert!(matches!(error, Error::Select(SelectError::PolicyForbids { .. })), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn two_kernels_for_one_place_are_an_error_that_names_both_sites() {
    let m = manifest("k", &["a"], &HOST);
    let error = registry(&[m], &[spec(m, "a", 11), spec(m, "a", 22)]).err().unwrap();
    let text = error.to_string();
    assert!(matches!(error, BuildError::DuplicateKernel { .. }));
    assert!(
        text.contains("kernel.rs:11") && text.contains("kernel.rs:22") && text.contains("replaces"),
        "{text}"
    );
    let apart = KernelSpec { formats: Formats::same(DTypeSet::of(&[DType::I8])), ..spec(m, "a", 22) };
    assert!(registry(&[m], &[spec(m, "a", 11), apart]).is_ok(), "other element types are another place");
}

#[test]
fn replacing_a_kernel_is_explicit() {
    let m = manifest("k", &["a"], &HOST);
    let better = KernelSpec { replaces: Some("a-toy.op-float"), ..spec(m, "a", 22) };
    let r = registry(&[m], &[spec(m, "a", 11), better]).unwrap();
    assert_eq!(r.specs().map(|s| s.origin.line).collect::<Vec<_>>(), [22]);
    let error = registry(&[m], &[KernelSpec { variant: "v", ..better }]).err().unwrap();
    assert!(error.to_string().contains("not registered"), "{error}");
}

#[test]
fn link_integrity_has_words_for_each_missing_half() {
    let m = manifest("kernels-foo", &["a"], &HOST);
    let fail = |manifests: &[&'static Manifest],
                specs: &[KernelSpec],
                on: &'static [(&'static str, &'static str)]| {
        let kernels = specs.iter().map(|s| kernel(*s)).collect();
        let features = vec![leak(FeatureReport { package: "facade", on, off: &[] })];
        let parts = Parts { ops: vec![toy_op()], kernels, manifests: manifests.to_vec(), features };
        Registry::build(parts).err().map(|e| e.to_string()).unwrap_or_default()
    };
    let text = fail(&[], &[], &[("foo", "kernels-foo")]);
    assert!(text.contains("\"foo\" is on") && text.contains("use kernels_foo as _;"), "{text}");
    let text = fail(&[m], &[], &[]);
    assert!(text.contains("promises \"a\" kernels, and none is in the binary"), "{text}");
    let text = fail(&[], &[spec(m, "a", 1)], &[]);
    assert!(text.contains("its manifest is not"), "{text}");
    assert_eq!(fail(&[m], &[spec(m, "a", 1)], &[("foo", "kernels-foo")]), "");
}

#[test]
fn a_spec_that_cannot_be_right_is_refused() {
    let m = manifest("k", &["a", "b c"], &HOST);
    let orphan = KernelSpec { op: "toy.nothing", ..spec(m, "a", 1) };
    for (spec, what) in [
        (orphan, "is not registered"),
        (KernelSpec { formats: Formats::same(DTypeSet::of(&[])), ..spec(m, "a", 1) }, "no element type"),
        (spec(m, "b c", 1), "cannot be a backend's name"),
    ] {
        let mut all = vec![spec];
        all.extend([self::spec(m, "a", 2), self::spec(m, "b c", 3)]);
        let text = registry(&[m], &all).err().unwrap().to_string();
        assert!(text.contains(what), "{text}");
    }
}

#[test]
fn asking_for_a_device_probes_no_driver_of_another_kind() {
    let unasked =
        leak(HostBox { kind: DeviceKind("other"), name: "unasked", probe: || panic!("it was probed") });
    let (host, other) = (manifest("h", &["a"], &HOST), manifest("o", &["b"], unasked));
    let r = registry(&[host, other], &[spec(host, "a", 1), spec(other, "b", 2)]).unwrap();
    assert_eq!(r.device("cpu").unwrap(), Device::cpu());
    assert!(r.device("cpu:7").is_err());
}

#[test]
fn devices_resolve_by_name_and_their_absence_has_words() {
    let missing = Reason::RuntimeMissing {
        library: "libnpu".into(),
        tried: vec!["libnpu.so".into()],
        fix: "install it".into(),
    };
    let broken = stand_in("broken", DeviceKind("npu"), Err(missing));
    let (gpu, npu) = (manifest("g", &["a"], cuda()), manifest("n", &["b"], broken));
    let r = registry(&[gpu, npu], &[spec(gpu, "a", 1), spec(npu, "b", 2)]).unwrap();
    assert_eq!(r.device("cuda:1").unwrap().id().to_string(), "cuda:1");
    for (name, words) in [
        ("cuda:7", "there are 3 such devices"),
        ("npu:0", "libnpu is not installed (tried libnpu.so)"),
        ("rocm:0", "no linked crate serves \"rocm\" devices"),
        ("cuda:x", "is not a device"),
    ] {
        let text = r.device(name).err().unwrap().to_string();
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn each_device_of_a_mixed_box_resolves_by_itself() {
    let m = manifest("k", &["old", "new"], cuda());
    let specs = [
        KernelSpec { requires: leak([Requirement::cuda(70, 80)]), ..spec(m, "old", 1) },
        KernelSpec { requires: leak([Requirement::cuda_exact(&[90])]), ..spec(m, "new", 2) },
    ];
    let r = registry(&[m], &specs).unwrap();
    for (device, backend) in [("cuda:0", "old"), ("cuda:1", "new")] {
        let s = Selector::new(&r, r.device(device).unwrap());
        assert_eq!(s.select("toy.op").unwrap().spec().backend, Backend(backend));
    }
}

#[test]
fn a_selection_calls_only_arguments_of_its_device_and_class() {
    let m = manifest("k", &["a"], cuda());
    let r = registry(
        &[m],
        &[KernelSpec { formats: Formats::same(DTypeSet::of(&[DType::F32])), ..spec(m, "a", 1) }],
    )
    .unwrap();
    let (first, second) = (r.device("cuda:0").unwrap(), r.device("cuda:1").unwrap());
    let selected = Selector::new(&r, first).select("toy.op").unwrap().typed::<Toy<'static>>().unwrap();
    let run = |dtype, device: Device| -> Result<Vec<f32>> {
        let x = Tensor::from_f32(&[1.0, 2.0], dtype, &[2])?.to_device(device)?;
        let mut out = Tensor::zeros(dtype, &[2], device)?;
        selected.call(&mut Toy { x: x.view(), out: out.view_mut() }.check()?)?;
        out.to_f32_vec()
    };
    assert_eq!(run(DType::F32, first).unwrap(), [1.0, 2.0]);
    for (dtype, device) in [(DType::F32, second), (DType::F16, first)] {
        let error = run(dtype, device).unwrap_err();
        assert!(matches!(error, Error::Call(CallError::WrongSelection { .. })), "{error}");
    }
}

#[test]
fn tensors_of_two_devices_in_one_call_are_an_error_that_names_both() {
    let m = manifest("k", &["a"], cuda());
    let r = registry(&[m], &[spec(m, "a", 1)]).unwrap();
    let x = Tensor::zeros(DType::F32, &[2], Device::cpu()).unwrap();
    let mut out = Tensor::zeros(DType::F32, &[2], r.device("cuda:0").unwrap()).unwrap();
    let text = Toy { x: x.view(), out: out.view_mut() }.check().err().unwrap().to_string();
    assert!(text.contains("\"x\" is on cpu") && text.contains("\"out\" is on cuda:0"), "{text}");
}

/// A layout of its own: the elements backwards.
unsafe fn backwards(_: &Ctx, weight: &View<'_>) -> Result<Tensor, Error> {
    // SAFETY: the test's weights are dense f32 on the host.
    let plain = unsafe { std::slice::from_raw_parts(weight.as_ptr::<f32>(), weight.dim(0)) };
    Tensor::from_slice(
        &plain.iter().rev().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>(),
        &[4 * plain.len()],
    )
}

unsafe fn copy_packed(_: &Ctx, a: &Toy<'_>) -> Result<(), RunError> {
    let n = a.x.dim(0);
    for i in 0..n {
        let at = if a.x.packed() == PackedFor::NOBODY { i } else { n - 1 - i };
        // SAFETY: both have x's elements, f32.
        unsafe { a.out.as_mut_ptr::<f32>().add(i).write(*a.x.as_ptr::<f32>().add(at)) };
    }
    Ok(())
}

#[test]
fn a_packed_weight_belongs_to_the_kernel_that_packed_it() {
    let m = manifest("k", &["packs", "plain"], &HOST);
    let packs = KernelSpec { prepack: Some(backwards), priority: 1, ..spec(m, "packs", 1) };
    // SAFETY: `copy_packed` needs nothing of the device.
    let packs = leak(unsafe { Kernel::<Toy<'static>>::new(packs, copy_packed, None) });
    let kernels: Vec<&'static dyn AnyKernel> = vec![packs, kernel(spec(m, "plain", 2))];
    let r = Registry::build(Parts { ops: vec![toy_op()], kernels, manifests: vec![m], features: vec![] })
        .unwrap();
    let s = Selector::new(&r, Device::cpu());
    let weight = Tensor::from_slice(&[1f32, 2.0, 3.0], &[3]).unwrap();
    let packed = s.prepack("toy.op", &Key::of(DType::F32), &weight.view()).unwrap().unwrap();
    assert_eq!((packed.kernel().as_str(), packed.bytes()), ("packs-toy.op-float", 12));

    let mut out = Tensor::zeros(DType::F32, &[3], Device::cpu()).unwrap();
    let mut checked = Toy { x: packed.view(), out: out.view_mut() }.check().unwrap();
    let decision = s.explain("toy.op", Some(&checked.key()), None).unwrap();
    assert_eq!(decision.chosen().unwrap().backend, Backend("packs"));
    let why = decision.candidates[1].reasons[0].to_string();
    assert_eq!(why, "the weight is packed for packs-toy.op-float");
    s.select_backend("toy.op", Backend("packs"))
        .unwrap()
        .typed::<Toy<'static>>()
        .unwrap()
        .call(&mut checked)
        .unwrap();
    assert!(
        s.select_backend("toy.op", Backend("plain"))
            .unwrap()
            .typed::<Toy<'static>>()
            .unwrap()
            .call(&mut checked)
            .is_err()
    );
    assert_eq!(out.to_f32_vec().unwrap(), [1.0, 2.0, 3.0]);
    assert!(packed.view().narrow(0, 0, 2).is_none(), "nobody else knows where its elements are");

    // A kernel that takes weights as they are has nothing to pack.
    r.set_policy(Policy::parse("plain", &r).unwrap()).unwrap();
    assert!(s.prepack("toy.op", &Key::of(DType::F32), &weight.view()).unwrap().is_none());
}
