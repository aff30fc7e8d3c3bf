//! `select`, `explain` and the typed call agree with each other, and with the rules written down once more in the
//! plainest way, on random registries, platforms, calls and policies.

mod host_box;
mod who;

use host_box::{HostBox, platform};
use kernels_core::*;
use proptest::prelude::*;
use who::{Who, even, mark};

const MOST: usize = 7;

const MARKS: [<Who<'static> as Op>::Run; MOST] =
    [mark::<0>, mark::<1>, mark::<2>, mark::<3>, mark::<4>, mark::<5>, mark::<6>];

/// Three devices of a kind, unlike each other.
type Box3 = HostBox<fn() -> Result<Vec<Platform>, Reason>>;

static CUDA: Box3 = HostBox {
    kind: DeviceKind::CUDA,
    name: "box",
    probe: || {
        let arch = |i| if i == 2 { Arch::Unknown } else { Arch::Cuda { major: 8 + i, minor: 0 } };
        Ok((0..3).map(|i| platform(DeviceKind::CUDA, i, arch(i))).collect())
    },
};
static ROCM: Box3 = HostBox {
    kind: DeviceKind::ROCM,
    name: "box",
    probe: || {
        let arch = |i: u32| Arch::Gfx(["gfx942", "gfx1100", "gfx90a"][i as usize].into());
        Ok((0..3).map(|i| platform(DeviceKind::ROCM, i, arch(i))).collect())
    },
};

const BACKENDS: [Backend; 4] = [Backend("a"), Backend("b"), Backend("c"), Backend::REFERENCE];

/// A spec's random parts, by number.
#[derive(Clone, Debug)]
struct Random {
    backend: usize,
    variant: usize,
    requires: usize,
    formats: usize,
    priority: i32,
    experimental: bool,
    deterministic: bool,
    rounds: bool,
    gated: bool,
    quarantined: bool,
}

const REQUIRES: [&[Requirement]; 7] = [
    &[],
    &[Requirement::any(DeviceKind::CPU)],
    &[Requirement::cuda(80, 80)],
    &[Requirement::cuda(85, u32::MAX)],
    &[Requirement::gfx(&["gfx942", "gfx90a"])],
    &[Requirement::any(DeviceKind::ROCM), Requirement::any(DeviceKind::CPU)],
    &[Requirement::any(DeviceKind::CUDA)],
];
const FORMATS: [&[DType]; 3] = [&[DType::F32], &[DType::BF16], &[DType::F32, DType::BF16]];

impl Random {
    fn any() -> impl Strategy<Value = Random> {
        let numbers = (0..BACKENDS.len(), 0..3usize, 0..REQUIRES.len(), 0..FORMATS.len(), -1..2i32);
        let flags = (
            prop::bool::weighted(0.2),
            prop::bool::weighted(0.8),
            prop::bool::weighted(0.3),
            prop::bool::weighted(0.3),
            prop::bool::weighted(0.1),
        );
        (numbers, flags).prop_map(
            |(
                (backend, variant, requires, formats, priority),
                (experimental, deterministic, rounds, gated, quarantined),
            )| {
                Random {
                    backend,
                    variant,
                    requires,
                    formats,
                    priority,
                    experimental,
                    deterministic,
                    rounds,
                    gated,
                    quarantined,
                }
            },
        )
    }

    fn spec(&self, manifest: &'static Manifest, line: u32) -> KernelSpec {
        let origin = Origin { package: "random", version: "1.0.0", file: "random.rs", line };
        KernelSpec {
            backend: BACKENDS[self.backend],
            variant: ["", "x", "y"][self.variant],
            requires: REQUIRES[self.requires],
            formats: Formats::same(DTypeSet::of(FORMATS[self.formats])),
            priority: self.priority,
            experimental: self.experimental,
            deterministic: self.deterministic,
            quantises_activations: self.rounds,
            gate: self.gated.then_some(even as fn(&Key) -> Result<(), Reason>),
            ..KernelSpec::new("test.who", manifest, origin)
        }
    }

    /// Whether it can serve the call, by the rules as a reader of the guide would check them by hand.
    fn serves(
        &self,
        driver: DeviceKind,
        device: &Platform,
        dtype: DType,
        fact: usize,
        policy: &Policy,
        named: bool,
    ) -> bool {
        let kind = device.id.kind;
        let capable = match self.requires {
            0 => kind == driver,
            1 => kind == DeviceKind::CPU,
            2 => device.arch == Arch::Cuda { major: 8, minor: 0 },
            3 => device.arch == Arch::Cuda { major: 9, minor: 0 },
            4 => [Arch::Gfx("gfx942".into()), Arch::Gfx("gfx90a".into())].contains(&device.arch),
            5 => kind == DeviceKind::ROCM || kind == DeviceKind::CPU,
            _ => kind == DeviceKind::CUDA,
        };
        capable
            && (policy.experimental || !self.experimental)
            && (!policy.deterministic || self.deterministic)
            && !(policy.full_precision && self.rounds)
            && (named || !policy.no_reference || BACKENDS[self.backend] != Backend::REFERENCE)
            && FORMATS[self.formats].contains(&dtype)
            && (!self.gated || fact.is_multiple_of(2))
            && !self.quarantined
    }
}

/// The number of the kernel that should run: the best by rank of those that serve.
fn expected(
    all: &[Random],
    order: &[usize],
    driver: DeviceKind,
    device: Device,
    dtype: DType,
    fact: usize,
    policy: &Policy,
) -> Option<usize> {
    let serves = |i: usize, named| all[i].serves(driver, device.platform(), dtype, fact, policy, named);
    if let Some(rule) = policy.rules.first() {
        let mine =
            order.iter().copied().find(|i| BACKENDS[all[*i].backend] == rule.backend && serves(*i, true));
        if mine.is_some() || rule.mode == Mode::Strict {
            return mine;
        }
    }
    order.iter().copied().find(|i| serves(*i, false))
}

/// Kernels in order of preference.
fn by_rank(all: &[Random], specs: &[KernelSpec]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|i| {
        let s = &specs[*i];
        let reference = s.backend == Backend::REFERENCE;
        (reference, -s.priority, u32::MAX - s.specificity(), s.backend.0, s.variant, s.formats, s.origin.line)
    });
    order
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 10 } else { 10_000 }, failure_persistence: None, ..Default::default() })]
    #[test]
    fn select_explain_and_the_typed_call_agree(
        all in prop::collection::vec(Random::any(), 1..=MOST),
        (which_driver, index) in (0..3usize, 0..3usize),
        (at_kind, dtype, fact) in (0..3usize, prop::sample::select(vec![DType::F32, DType::BF16]), 0..4usize),
        rule in prop::option::of((0..BACKENDS.len(), prop::bool::ANY)),
        (experimental, deterministic) in (prop::bool::ANY, prop::bool::ANY),
        (full_precision, no_reference) in (prop::bool::ANY, prop::bool::ANY),
        in_scope in prop::bool::ANY,
    ) {
        let drivers: [&'static dyn Driver; 3] = [&HOST, &CUDA, &ROCM];
        let driver = drivers[which_driver];
        let mut backends: Vec<Backend> = all.iter().map(|r| BACKENDS[r.backend]).collect();
        backends.sort();
        backends.dedup();
        let linked = backends.clone();
        let manifest = leak(Manifest { package: "random", version: "1.0.0", backends: leak(backends), driver });
        // One kernel for each place: later ones of the same place are left out.
        let mut places = std::collections::BTreeSet::new();
        let all: Vec<Random> = all.into_iter().filter(|r| places.insert((r.backend, r.variant, r.formats))).collect();
        let specs: Vec<KernelSpec> = all.iter().enumerate().map(|(i, r)| r.spec(manifest, i as u32)).collect();
        let op = Parts::linked().ops.into_iter().find(|o| o.name == "test.who").unwrap();
        let kernels = specs.iter().enumerate().map(|(i, s)| {
            // SAFETY: `mark` needs nothing of the device.
            leak(unsafe { Kernel::<Who<'static>>::new(*s, MARKS[i], None) }) as &'static dyn AnyKernel
        });
        // Linked in another order than declared.
        let kernels = kernels.rev().collect();
        let registry = Registry::build(Parts { ops: vec![op], kernels, manifests: vec![manifest], features: vec![] }).unwrap();
        let devices = Device::of_driver(drivers[at_kind]).unwrap();
        let device = devices[index % devices.len()];
        for (_, s) in all.iter().zip(&specs).filter(|(r, _)| r.quarantined) {
            registry.quarantine(&s.id(), device, "random").unwrap();
        }
        let rules = rule.filter(|(b, _)| linked.contains(&BACKENDS[*b])).map(|(b, strict)| Rule {
            ops: "test.*".into(),
            backend: BACKENDS[b],
            mode: if strict { Mode::Strict } else { Mode::Prefer },
        });
        let rules = rules.into_iter().collect();
        let policy = Policy { rules, experimental, deterministic, full_precision, no_reference, self_test: false };
        let order = by_rank(&all, &specs);
        let expected = expected(&all, &order, driver.kind(), device, dtype, fact, &policy);

        let check = || {
            let x = Tensor::zeros(dtype, &[1], device).unwrap();
            let mut out = Tensor::zeros(DType::I32, &[1], device).unwrap();
            let mut checked = Who { x: x.view(), out: out.view_mut(), fact }.check().unwrap();
            let key = checked.key();
            let selector = Selector::new(&registry, device);
            let decision = selector.explain("test.who", Some(&key), None).unwrap();
            assert_eq!(decision.chosen().map(|s| s.origin.line as usize), expected, "{decision}");
            assert_eq!(decision.candidates.len(), all.len());
            let ran = match selector.ranked::<Who<'static>>(key) {
                Ok(selected) => {
                    let selected = selected.unwrap();
                    selected.call(&mut checked).unwrap();
                    Some(selected.spec().origin.line)
                }
                Err(Error::Select(_)) => None,
                Err(other) => panic!("{other}"),
            };
            assert_eq!(ran.map(|n| n as usize), expected);
            if let Some(n) = expected {
                assert_eq!(out.to_f64_vec().unwrap(), [n as f64], "another function ran than was selected");
            }
            // The strict pair, for calls of any class.
            let some_call = |i: usize, named: bool| {
                let dtype = FORMATS[all[i].formats][0];
                all[i].serves(driver.kind(), device.platform(), dtype, 0, &policy, named)
            };
            for backend in &linked {
                let mine = |i: &usize| BACKENDS[all[*i].backend] == *backend && some_call(*i, true);
                let got = selector.select_backend("test.who", *backend).ok();
                assert_eq!(got.map(|s| s.spec().origin.line as usize), order.iter().copied().find(mine), "{backend}");
            }
            if policy.rules.is_empty() {
                let able = order.iter().filter(|i| some_call(**i, false)).map(|i| BACKENDS[all[*i].backend]);
                let mut others: Vec<Backend> = able.filter(|b| *b != Backend::REFERENCE).collect();
                others.sort();
                others.dedup();
                match selector.select("test.who") {
                    Ok(found) => assert_eq!(others, [found.spec().backend]),
                    Err(Error::Select(SelectError::Ambiguous { usable, .. })) => assert!(others.len() > 1 && usable == others),
                    Err(_) => assert!(others.is_empty()),
                }
            }
        };
        match in_scope {
            true => registry.scope(policy.clone(), check).unwrap(),
            false => {
                registry.set_policy(policy.clone()).unwrap();
                check();
            }
        }
    }
}
