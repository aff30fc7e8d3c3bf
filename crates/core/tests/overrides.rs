//! Who decides: call, scope, process, rank; and what quarantine, self-tests and counters do. Over what this test
//! links, because typed calls know no other registry.

mod turn;

use kernels_core::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use turn::turn;

kernels_core::backend! { backends: [Backend("a"), Backend("b"), Backend("gpu"), Backend::REFERENCE], driver: &HOST }

kernels_core::op! {
    /// Says which kernel ran.
    pub struct Who = "test.who" {
        /// `[n]`
        reads x,
        /// `[n]`: the kernel's number
        writes out,
    }
}

impl Who<'_> {
    fn validate(&self) -> Result<Valid, CallError> {
        Ok(Valid { key: Key::of(self.x.dtype()), empty: self.x.dim(0) == 0 })
    }
}

/// Writes its number; an x of -1 is its own failure.
unsafe fn mark<const N: usize>(_: &Ctx, a: &Who<'_>) -> Result<(), RunError> {
    // SAFETY: both have at least one element, f32 by the spec.
    unsafe {
        if *a.x.as_ptr::<f32>() == -1.0 {
            let (kernel, device) = (format!("number {N}"), a.x.device().id());
            return Err(RunError::LaunchFailed { kernel, device, detail: "unsupported, it says".into() });
        }
        a.out.as_mut_ptr::<f32>().write(N as f32);
    }
    Ok(())
}

macro_rules! who {
    ($backend:literal, $number:literal $(, $field:ident : $value:expr)*) => {
        kernel!(unsafe {
            op: Who,
            backend: Backend($backend),
            variant: "",
            formats: Formats::same(DTypeSet::of(&[DType::F32])),
            run: mark::<$number>
            $(, $field: $value)*
        });
    };
}
who!("reference", 0);
who!("a", 1, priority: 1);
who!("b", 2);
who!("gpu", 3, requires: &[Requirement::any(DeviceKind::CUDA)]);

/// Kernels that the self-test finds wrong; `TESTED` counts its runs.
static TESTED: AtomicUsize = AtomicUsize::new(0);
inventory::submit! { SelfTest(|kernel, _| {
    TESTED.fetch_add(1, Ordering::Relaxed);
    if kernel.spec().backend == Backend("a") { Err("gives 1, expected 0".into()) } else { Ok(()) }
}) }

fn run(x: f32) -> Result<f32> {
    let (x, mut out) = ([x], [f32::NAN]);
    let (x, view) = (View::from_slice(&x, &[1]).unwrap(), ViewMut::from_slice(&mut out, &[1]).unwrap());
    Who { x, out: view }.run()?;
    Ok(out[0])
}

fn who() -> f32 {
    run(0.0).unwrap()
}

fn strict(backend: &'static str) -> Policy {
    Policy::strict("test.*", Backend(backend))
}

#[test]
fn the_call_comes_before_the_scope_before_the_process_before_rank() {
    let (_turn, registry) = turn();
    assert_eq!(who(), 1.0);
    registry.set_policy(strict("b")).unwrap();
    assert_eq!(who(), 2.0);
    registry
        .scope(strict("reference"), || {
            assert_eq!(who(), 0.0);
            let (x, mut out) = ([0f32], [0f32]);
            let out_view = ViewMut::from_slice(&mut out, &[1]).unwrap();
            let mut checked = Who { x: View::from_slice(&x, &[1]).unwrap(), out: out_view }.check().unwrap();
            assert_eq!(checked.explain().unwrap().level, Level::Scope);
            checked.run_on(Backend("a")).unwrap();
            assert_eq!(out, [1.0]);
        })
        .unwrap();
    assert_eq!(who(), 2.0);
}

#[test]
fn scopes_nest_and_end_with_a_panic() {
    let (_turn, registry) = turn();
    registry
        .scope(strict("b"), || {
            assert_eq!(who(), 2.0);
            registry.scope(strict("reference"), || assert_eq!(who(), 0.0)).unwrap();
            assert_eq!(who(), 2.0);
            let panicked = std::panic::catch_unwind(|| {
                let _ = registry.scope(strict("reference"), || panic!("out of the scope"));
            });
            assert!(panicked.is_err());
            assert_eq!(who(), 2.0, "the inner scope ended with the panic");
            // What a scope says nothing of is the outer one's.
            registry
                .scope(Policy { deterministic: true, ..Policy::default() }, || assert_eq!(who(), 2.0))
                .unwrap();
        })
        .unwrap();
    assert_eq!(who(), 1.0);
}

#[test]
fn a_scope_is_its_threads_alone() {
    let (_turn, registry) = turn();
    registry
        .scope(strict("b"), || {
            for _ in 0..3 {
                assert_eq!(who(), 2.0);
                assert_eq!(std::thread::spawn(who).join().unwrap(), 1.0);
            }
        })
        .unwrap();
}

#[test]
fn wrong_names_are_errors_before_anything_runs() {
    let (_turn, registry) = turn();
    let error = registry.scope(strict("gqu"), || unreachable!()).unwrap_err().to_string();
    assert!(error.contains("did you mean \"gpu\"?"), "{error}");
    let error = registry.set_policy(Policy::strict("tset.who", Backend("a"))).unwrap_err().to_string();
    assert!(error.contains("did you mean \"test.who\"?"), "{error}");
    let error = Policy::parse_both("", "deterministc", registry).unwrap_err().to_string();
    assert!(error.contains("KERNELS_POLICY") && error.contains("did you mean \"deterministic\"?"), "{error}");
    let scoped = registry.scope(Policy { self_test: true, ..Policy::default() }, || unreachable!());
    assert!(scoped.unwrap_err().to_string().contains("the process's"));
}

#[test]
fn words_of_the_policy_say_what_a_rule_leaves_out() {
    let (_turn, registry) = turn();
    let modes = |rules, words| {
        let policy = Policy::parse_both(rules, words, registry).unwrap();
        policy.rules.iter().map(|r| r.mode).collect::<Vec<_>>()
    };
    assert_eq!(modes("test.*=a,prefer:b", ""), [Mode::Strict, Mode::Prefer]);
    assert_eq!(modes("test.*=a,strict:b", "prefer"), [Mode::Prefer, Mode::Strict]);
    let policy =
        Policy::parse_both("", "deterministic, no-reference,experimental,self-test", registry).unwrap();
    assert!(policy.deterministic && policy.no_reference && policy.experimental && policy.self_test);
    assert!(
        !policy.full_precision && Policy::parse_both("", "full-precision", registry).unwrap().full_precision
    );
}

#[test]
fn handles_follow_overrides_and_a_named_one_stays_with_its_backend() {
    let (_turn, registry) = turn();
    let (x, mut out) = ([0f32], [0f32]);
    let out_view = ViewMut::from_slice(&mut out, &[1]).unwrap();
    let mut checked = Who { x: View::from_slice(&x, &[1]).unwrap(), out: out_view }.check().unwrap();
    let ran = |checked: &mut Checked<'_, Who<'static>>, selected: &Selected<Who<'static>>| {
        selected.call(checked).unwrap();
        // SAFETY: one element, written by the call.
        unsafe { *checked.args().out.as_mut_ptr::<f32>() }
    };
    let ranked = Selected::<Who<'static>>::ranked(Device::cpu(), checked.key()).unwrap();
    let named = Selected::<Who<'static>>::named(Device::cpu(), checked.key(), Backend("a")).unwrap();
    assert_eq!((ran(&mut checked, &ranked), ran(&mut checked, &named)), (1.0, 1.0));
    registry.set_policy(strict("b")).unwrap();
    assert_eq!((ran(&mut checked, &ranked), ran(&mut checked, &named)), (2.0, 1.0));
    registry
        .scope(strict("reference"), || {
            assert_eq!((ran(&mut checked, &ranked), ran(&mut checked, &named)), (0.0, 1.0));
        })
        .unwrap();
    let made_inside =
        registry.scope(strict("reference"), || Selected::ranked(Device::cpu(), checked.key())).unwrap();
    assert_eq!(ran(&mut checked, &made_inside.unwrap()), 2.0, "a scope does not leave with a handle");
    registry.set_policy(Policy::default()).unwrap();
    assert_eq!(ran(&mut checked, &ranked), 1.0);
    registry.quarantine("a-test.who-f32", Device::cpu(), "wrong").unwrap();
    let error = named.call(&mut checked).unwrap_err().to_string();
    assert!(error.contains("is quarantined: wrong"), "{error}");
    assert_eq!(ran(&mut checked, &ranked), 2.0);
}

#[test]
fn a_kernels_own_error_is_never_a_reason_to_try_another() {
    let (_turn, registry) = turn();
    for policy in [Policy::default(), Policy::prefer("*", Backend("b")), strict("b")] {
        let number = if policy.rules.is_empty() { 1 } else { 2 };
        registry.set_policy(policy).unwrap();
        let error = run(-1.0).unwrap_err();
        let Error::Run(RunError::LaunchFailed { kernel, .. }) = &error else { panic!("{error}") };
        assert_eq!(*kernel, format!("number {number}"));
    }
}

/// Hears of warnings on this thread.
#[derive(Clone, Default)]
struct Warnings(std::sync::Arc<AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_preference_that_cannot_be_met_is_counted_each_time_and_logged_once() {
    let (_turn, registry) = turn();
    let misses = || registry.kernels().find(|k| k.spec().backend == Backend("gpu")).unwrap().counts().misses;
    let (warnings, before) = (Warnings::default(), misses());
    tracing::subscriber::with_default(warnings.clone(), || {
        for _ in 0..3 {
            registry.set_policy(Policy::prefer("test.who", Backend("gpu"))).unwrap();
            assert_eq!(who(), 1.0);
        }
        let decision = registry.explain("test.who", Device::cpu().platform(), None, None).unwrap();
        assert_eq!(decision.chosen().unwrap().backend, Backend("a"));
        let said = "the process (KERNELS_BACKEND or the API) prefers \"gpu\", which cannot serve this";
        assert!(decision.to_string().contains(said), "{decision}");
    });
    assert_eq!((warnings.0.load(Ordering::Relaxed), misses() - before), (1, 3));
    // The strict form of the same is an error.
    registry.set_policy(strict("gpu")).unwrap();
    let error = run(0.0).unwrap_err().to_string();
    assert!(error.contains("which the process (KERNELS_BACKEND or the API) asks for"), "{error}");
}

#[test]
fn a_quarantined_kernel_is_passed_over_with_its_reason_everywhere() {
    let (_turn, registry) = turn();
    registry.quarantine("a-test.who-f32", Device::cpu(), "case x: 9 times the tolerance").unwrap();
    assert_eq!(who(), 2.0);
    let decision = registry.explain("test.who", Device::cpu().platform(), None, None).unwrap();
    assert!(decision.to_string().contains("is quarantined: case x: 9 times the tolerance"), "{decision}");
    let error =
        Selector::new(registry, Device::cpu()).select_backend("test.who", Backend("a")).err().unwrap();
    assert!(error.to_string().contains("is quarantined: case x"), "{error}");
    assert!(registry.scope(strict("a"), || run(0.0)).unwrap().is_err(), "no level gets around it");
    let error = registry.quarantine("a-test.who-f23", Device::cpu(), "").unwrap_err().to_string();
    assert!(error.contains("did you mean \"a-test.who-f32\"?"), "{error}");
    assert!(
        registry.release("a-test.who-f32", DeviceId::CPU)
            && !registry.release("a-test.who-f32", DeviceId::CPU)
    );
    assert_eq!(who(), 1.0);
}

#[test]
fn lists_of_quarantine_survive_a_file_and_count_for_the_same_product_only() {
    let entry = Quarantine {
        kernel: "a-test.who-f32".into(),
        device: DeviceId::CPU,
        name: "Some  CPU".into(),
        detail: "two\nlines\tof it".into(),
    };
    let text = Quarantine::write_list(std::slice::from_ref(&entry));
    let read = Quarantine::read_list(&text).unwrap();
    assert_eq!((read[0].name.as_str(), read[0].detail.as_str()), ("Some CPU", "two lines of it"));
    assert_eq!(Quarantine::write_list(&read), text);
    assert!(Quarantine::read_list("nonsense").unwrap_err().starts_with("line 1"));
}

#[test]
fn a_self_test_comes_before_the_first_use_and_keeps_wrong_kernels_out() {
    let (_turn, registry) = turn();
    let before = TESTED.load(Ordering::Relaxed);
    registry.set_policy(Policy { self_test: true, ..Policy::default() }).unwrap();
    for _ in 0..2 {
        assert_eq!(who(), 2.0);
    }
    assert_eq!(TESTED.load(Ordering::Relaxed) - before, 2, "each kernel once: a failed, b passed");
    let decision = registry.explain("test.who", Device::cpu().platform(), None, None).unwrap();
    assert!(decision.to_string().contains("is quarantined: self-test: gives 1, expected 0"), "{decision}");
    // Whoever lifts it takes the kernel as it is; the verdict is not asked for again.
    assert!(registry.release("a-test.who-f32", DeviceId::CPU));
    assert_eq!(who(), 1.0);
}

#[test]
fn without_the_reference_a_ranked_call_is_an_error_and_a_named_one_runs() {
    let (_turn, registry) = turn();
    registry.set_policy(Policy { no_reference: true, ..Policy::default() }).unwrap();
    for id in ["a-test.who-f32", "b-test.who-f32"] {
        registry.quarantine(id, Device::cpu(), "x").unwrap();
    }
    let error = run(0.0).unwrap_err();
    assert!(matches!(error, Error::Select(SelectError::PolicyForbids { .. })), "{error}");
    assert_eq!(registry.scope(strict("reference"), who).unwrap(), 0.0);
}

#[test]
fn calls_are_counted_when_asked() {
    let (_turn, registry) = turn();
    let counts = || registry.kernels().find(|k| k.spec().backend == Backend("a")).unwrap().counts();
    let before = counts().calls;
    who();
    assert_eq!(counts().calls, before);
    count_calls(true);
    (0..5).for_each(|_| assert_eq!(who(), 1.0));
    count_calls(false);
    // A reference that the process asks for is no fallback, also not when its decision is kept.
    let fallbacks =
        || registry.kernels().find(|k| k.spec().backend == Backend::REFERENCE).unwrap().counts().fallbacks;
    let (none, recorder) = (fallbacks(), Recorder::start());
    registry.set_policy(strict("reference")).unwrap();
    (0..3).for_each(|_| assert_eq!(who(), 0.0));
    assert_eq!(fallbacks(), none);
    assert!(recorder.records().iter().all(|r| r.level == Level::Process));
    registry.set_policy(Policy::default()).unwrap();
    let ids = ["a-test.who-f32", "b-test.who-f32"];
    ids.iter().for_each(|id| registry.quarantine(id, Device::cpu(), "x").unwrap());
    (0..3).for_each(|_| assert_eq!(who(), 0.0));
    assert_eq!(fallbacks() - none, 3);
    ids.iter().for_each(|id| assert!(registry.release(id, DeviceId::CPU)));
    who();
    assert_eq!(counts().calls - before, 5);
}
