//! What typed calls keep is what a fresh decision would be, whatever was changed in between.

mod linked;
mod turn;
mod who;

use kernels_core::*;
use linked::{BACKENDS, MANIFEST, call};
use proptest::prelude::*;
use turn::turn;

#[derive(Clone, Debug)]
enum Step {
    /// (number of a backend, preferred, deterministic, no reference) for the process.
    Process(Option<(usize, bool)>, bool, bool),
    /// The same for the rest of the steps up to `Leave`.
    Enter(Option<(usize, bool)>, bool, bool),
    Leave,
    Quarantine(usize),
    Release(usize),
    /// Calls of a class.
    Call(DType, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let policy =
        || (prop::option::of((0..BACKENDS.len(), prop::bool::ANY)), prop::bool::ANY, prop::bool::ANY);
    let class = (prop::sample::select(vec![DType::F32, DType::BF16]), 0..4usize);
    prop_oneof![
        1 => policy().prop_map(|(r, d, n)| Step::Process(r, d, n)),
        1 => policy().prop_map(|(r, d, n)| Step::Enter(r, d, n)),
        2 => Just(Step::Leave),
        1 => (0..BACKENDS.len()).prop_map(Step::Quarantine),
        2 => (0..BACKENDS.len()).prop_map(Step::Release),
        8 => class.prop_map(|(dtype, fact)| Step::Call(dtype, fact)),
    ]
}

fn policy(rule: Option<(usize, bool)>, deterministic: bool, no_reference: bool) -> Policy {
    let rule = rule.map(|(b, prefer)| match prefer {
        true => Policy::prefer("test.*", Backend(BACKENDS[b])),
        false => Policy::strict("test.*", Backend(BACKENDS[b])),
    });
    Policy { deterministic, no_reference, ..rule.unwrap_or_default() }
}

/// Goes through the steps; a scope is a closure, so what comes after `Enter` runs inside one.
fn walk<'s>(registry: &Registry, mut steps: &'s [Step], depth: usize) -> &'s [Step] {
    let id = |b: usize| {
        format!("{}-test.who-{}", BACKENDS[b], if BACKENDS[b] == "picky" { "f32" } else { "float" })
    };
    while let [first, rest @ ..] = steps {
        steps = rest;
        match first {
            Step::Process(r, d, n) => registry.set_policy(policy(*r, *d, *n)).unwrap(),
            Step::Enter(r, d, n) => {
                steps = registry.scope(policy(*r, *d, *n), || walk(registry, rest, depth + 1)).unwrap()
            }
            Step::Leave if depth > 0 => return rest,
            Step::Leave => {}
            Step::Quarantine(b) => registry.quarantine(&id(*b), Device::cpu(), "test").unwrap(),
            Step::Release(b) => {
                registry.release(&id(*b), DeviceId::CPU);
            }
            Step::Call(dtype, fact) => {
                let key = Key::of(*dtype).with_fact(*fact);
                let fresh = registry.explain("test.who", Device::cpu().platform(), Some(&key), None).unwrap();
                let fresh = fresh.chosen().map(|s| s.backend.0);
                // Twice: the first may decide, the second takes what was kept.
                for _ in 0..2 {
                    assert_eq!(call(*dtype, *fact).ok().map(|n| BACKENDS[n]), fresh, "{key}");
                }
            }
        }
    }
    steps
}

#[test]
fn the_explanation_of_a_call_has_the_gates_words() {
    let (_turn, _) = turn();
    let x = Tensor::zeros(DType::BF16, &[1], Device::cpu()).unwrap();
    let mut out = [0i32];
    let out = ViewMut::from_slice(&mut out, &[1]).unwrap();
    let call = who::Who { x: x.view(), out, fact: 7 }.check().unwrap();
    let text = call.explain().unwrap().to_string();
    assert!(text.contains("gated-test.who-float      takes an even size, not 7"), "{text}");
    assert!(text.contains("picky-test.who-f32        does not take bf16 (takes f32)"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 10 } else { 2_000 }, failure_persistence: None, ..Default::default() })]
    #[test]
    fn what_is_kept_equals_a_fresh_decision(steps in prop::collection::vec(step(), 1..60)) {
        let (_turn, registry) = turn();
        walk(registry, &steps, 0);
    }
}
