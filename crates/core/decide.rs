//! The filter: which registered kernels can serve a call on a platform, and why the others cannot.
//! `select`, the ranked calls and `explain` all come through here.

use crate::names::{Backend, DeviceId};
use crate::op::{AnyKernel, is_reference};
use crate::platform::Platform;
use crate::policy::Level;
use crate::reason::Reason;
use crate::settings::Allowed;
use crate::spec::{KernelSpec, Key};
use std::cmp::Reverse;
use std::fmt;

/// Gives every reason against `spec`, cheap ones first, until `sink` has heard enough (returns false).
pub(crate) fn reasons_against(
    spec: &KernelSpec,
    platform: &Platform,
    key: Option<&Key>,
    allowed: &Allowed<'_>,
    mut sink: impl FnMut(Reason) -> bool,
) {
    let served = spec.manifest.driver.kind();
    let device = if spec.requires.is_empty() {
        match served == platform.id.kind {
            true => Ok(()),
            false => Err(Reason::WrongDevice { have: platform.id.kind, need: served }),
        }
    } else {
        let mut worst = Ok(());
        for clause in spec.requires {
            match clause.holds(platform) {
                Ok(()) => {
                    worst = Ok(());
                    break;
                }
                // A clause of the right kind says more than one of another.
                Err(reason) if worst.is_ok() || matches!(worst, Err(Reason::WrongDevice { .. })) => {
                    worst = Err(reason);
                }
                Err(_) => {}
            }
        }
        worst
    };
    let mut go_on = true;
    let not_ready = || spec.ready.and_then(|ready| ready(platform).err());
    match device {
        // Whoever wants all reasons also wants to know what keeps the kernel's own device away.
        Err(reason) => {
            go_on = sink(reason);
            if go_on && let Err(reason) = crate::Device::of_driver(spec.manifest.driver) {
                go_on = sink(reason.clone());
                if go_on && let Some(reason) = not_ready() {
                    go_on = sink(reason);
                }
            }
        }
        Ok(()) if !platform.is_described() => {
            if let Some(reason) = not_ready() {
                go_on = sink(reason);
            }
        }
        Ok(()) => {}
    }
    if go_on && spec.experimental && !allowed.experimental {
        go_on = sink(Reason::Experimental);
    }
    if go_on && !spec.deterministic && allowed.deterministic {
        go_on = sink(Reason::NonDeterministic);
    }
    if go_on && spec.quantises_activations && allowed.full_precision {
        go_on = sink(Reason::QuantisesActivations);
    }
    if go_on && allowed.no_reference && is_reference(spec.backend) {
        go_on = sink(Reason::ReferenceNotNamed);
    }
    if go_on && let Some(why) = allowed.quarantined.iter().find(|q| q.holds(spec, platform)) {
        go_on = sink(Reason::Quarantined { detail: why.detail.clone() });
    }
    let Some(key) = key.filter(|_| go_on) else { return };
    // A packed weight belongs to one kernel.
    if let Some(owner) = key.packed.kernel()
        && (spec.prepack.is_none() || spec.id() != owner)
    {
        go_on = sink(Reason::Layout { detail: format!("the weight is packed for {owner}") });
    }
    if go_on && let Err(reason) = spec.formats.accept(key) {
        go_on = sink(reason);
    }
    if let (true, Some(gate)) = (go_on, spec.gate)
        && let Err(reason) = gate(key)
    {
        sink(reason);
    }
}

/// Whether nothing speaks against `spec`.
#[inline]
pub(crate) fn usable(
    spec: &KernelSpec,
    platform: &Platform,
    key: Option<&Key>,
    allowed: &Allowed<'_>,
) -> bool {
    let mut ok = true;
    reasons_against(spec, platform, key, allowed, |_| {
        ok = false;
        false
    });
    ok
}

/// The order of preference: `reference` last, then priority, then the narrower requirement, then name.
pub(crate) fn rank(spec: &KernelSpec) -> impl Ord + use<> {
    (
        is_reference(spec.backend),
        Reverse(spec.priority),
        Reverse(spec.specificity()),
        spec.backend,
        spec.variant,
    )
}

/// One candidate of a decision.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The kernel.
    pub spec: &'static KernelSpec,
    /// All that speaks against it; empty when it could run.
    pub reasons: Vec<Reason>,
}

/// What would run, and why nothing else: the answer of `explain`. It cannot run anything itself.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The op.
    pub op: &'static str,
    /// The device asked about.
    pub device: DeviceId,
    /// Its architecture, in words.
    pub arch: String,
    /// The call's class, where one was given.
    pub key: Option<Key>,
    /// Who decided.
    pub level: Level,
    /// The backend that a rule prefers and that cannot serve this, with whose rule it is.
    pub missed: Option<(Backend, Level)>,
    /// Candidates in order of preference.
    pub candidates: Vec<Candidate>,
    /// Index of the chosen one.
    pub chosen: Option<usize>,
    /// What to do when nothing can run, beyond what the reasons say.
    pub fix: Vec<String>,
}

impl Candidate {
    /// All its reasons, in words.
    pub fn why(&self) -> String {
        self.reasons.iter().map(Reason::to_string).collect::<Vec<_>>().join("; ")
    }
}

impl Decision {
    /// The backends of all candidates, sorted.
    pub fn backends(&self) -> Vec<Backend> {
        let mut all: Vec<_> = self.candidates.iter().map(|c| c.spec.backend).collect();
        all.sort();
        all.dedup();
        all
    }

    /// The chosen kernel's spec.
    pub fn chosen(&self) -> Option<&'static KernelSpec> {
        self.chosen.map(|at| self.candidates[at].spec)
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} ({})", self.op, self.device, self.arch)?;
        if let Some(key) = &self.key {
            write!(f, " for {key}")?;
        }
        match self.chosen() {
            Some(spec) => write!(f, "\n  runs {}, decided by {}", spec.id(), self.level)?,
            None => write!(f, "\n  has no usable kernel")?,
        }
        if let Some((backend, level)) = &self.missed {
            write!(f, "\n  {level} prefers \"{backend}\", which cannot serve this")?;
        }
        let width = self.candidates.iter().map(|c| c.spec.id().len()).max().unwrap_or(0);
        for (i, c) in self.candidates.iter().enumerate() {
            let chosen = self.chosen == Some(i);
            let mark = if chosen { "->" } else { "  " };
            let why = match (chosen, c.reasons.is_empty()) {
                (true, _) => format!("chosen; {}", c.spec.origin),
                (false, true) => "usable, ranked lower".into(),
                (false, false) => c.why(),
            };
            write!(f, "\n  {mark} {:width$}  {why}", c.spec.id())?;
        }
        for fix in &self.fix {
            write!(f, "\n  fix: {fix}")?;
        }
        Ok(())
    }
}

/// Every candidate with all its reasons, best first.
pub(crate) fn candidates(
    kernels: &[&'static dyn AnyKernel],
    platform: &Platform,
    key: Option<&Key>,
    allowed: &Allowed<'_>,
) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = kernels
        .iter()
        .map(|k| {
            let mut reasons = Vec::new();
            reasons_against(k.spec(), platform, key, allowed, |r| {
                reasons.push(r);
                true
            });
            Candidate { spec: k.spec(), reasons }
        })
        .collect();
    all.sort_by_key(|c| rank(c.spec));
    all
}
