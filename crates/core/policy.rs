//! Who decides which backend: the call, a scope, the process, or the default order.

use crate::names::{Backend, did_you_mean, intern, nearest};
use crate::{ConfigError, Registry};
use std::fmt;

/// The level that decided a selection, highest authority first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Level {
    /// The backend was named at the call.
    Call,
    /// A scope of this thread asks for it: [`Registry::scope`].
    Scope,
    /// The process asks for it, by `KERNELS_BACKEND` or by [`Registry::set_policy`].
    Process,
    /// Nobody asked: the best by rank.
    Default,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Call => "the call",
            Level::Scope => "a scope of this thread",
            Level::Process => "the process (KERNELS_BACKEND or the API)",
            Level::Default => "rank",
        })
    }
}

/// What happens when the backend that a rule asks for cannot serve a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The call is an error.
    Strict,
    /// The next best backend serves it; each distinct miss is logged once.
    Prefer,
}

/// "These ops on that backend."
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Op names, `*` matching any part: `layernorm.*`.
    pub ops: String,
    /// The backend.
    pub backend: Backend,
    /// What happens when it cannot.
    pub mode: Mode,
}

/// What the process, or a scope, asks of every selection. The capability filter holds whatever it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The first rule whose glob matches an op counts.
    pub rules: Vec<Rule>,
    /// Whether experimental kernels may be chosen.
    pub experimental: bool,
    /// Whether only deterministic kernels may be chosen.
    pub deterministic: bool,
    /// Whether kernels that round activations to 8 bits are left out.
    pub full_precision: bool,
    /// Whether `reference` kernels are chosen only where they are asked for.
    pub no_reference: bool,
    /// Whether a kernel is compared with the reference before a typed call first uses it on a device, and quarantined
    /// where it differs. That takes milliseconds to seconds, once for each kernel.
    pub self_test: bool,
}

impl Policy {
    /// These ops on that backend, or an error.
    pub fn strict(ops: impl Into<String>, backend: Backend) -> Policy {
        let rules = vec![Rule { ops: ops.into(), backend, mode: Mode::Strict }];
        Policy { rules, ..Policy::default() }
    }

    /// These ops on that backend where it can serve them.
    pub fn prefer(ops: impl Into<String>, backend: Backend) -> Policy {
        let rules = vec![Rule { ops: ops.into(), backend, mode: Mode::Prefer }];
        Policy { rules, ..Policy::default() }
    }

    /// The rule for an op.
    pub(crate) fn rule(&self, op: &str) -> Option<&Rule> {
        self.rules.iter().find(|r| glob(&r.ops, op))
    }

    /// Reads `KERNELS_BACKEND`'s form: `layernorm.*=reference,activation.silu_and_mul=prefer:simd`, or
    /// `simd` for every op. A name that `registry` does not know is an error with the nearest one.
    ///
    /// # Errors
    /// An unknown backend, or a glob that matches no op.
    pub fn parse(text: &str, registry: &Registry) -> Result<Policy, ConfigError> {
        Policy::parse_both(text, "", registry)
    }

    /// Reads the forms of `KERNELS_BACKEND` and of `KERNELS_POLICY`: the words `strict` (the default) or `prefer`,
    /// for rules that say neither, `experimental`, `deterministic`, `full-precision`, `no-reference`,
    /// `self-test`.
    ///
    /// # Errors
    /// An unknown backend or word, or a glob that matches no op.
    pub fn parse_both(rules: &str, words: &str, registry: &Registry) -> Result<Policy, ConfigError> {
        const WORDS: [&str; 7] = [
            "strict",
            "prefer",
            "experimental",
            "deterministic",
            "full-precision",
            "no-reference",
            "self-test",
        ];
        let (mut policy, mut unsaid) = (Policy::default(), Mode::Strict);
        for word in parts(words) {
            match word {
                "strict" => unsaid = Mode::Strict,
                "prefer" => unsaid = Mode::Prefer,
                "experimental" => policy.experimental = true,
                "deterministic" => policy.deterministic = true,
                "full-precision" => policy.full_precision = true,
                "no-reference" => policy.no_reference = true,
                "self-test" => policy.self_test = true,
                _ => {
                    let (known, near) = (WORDS.join(", "), did_you_mean(nearest(word, WORDS)));
                    let detail = format!("\"{word}\" is none of: {known}, count{near}");
                    return Err(ConfigError::Invalid { name: "KERNELS_POLICY", detail });
                }
            }
        }
        for part in parts(rules) {
            let (ops, backend) = part.split_once('=').unwrap_or(("*", part));
            let (mode, backend) = match backend.trim().split_once(':') {
                Some(("prefer", name)) => (Mode::Prefer, name),
                Some(("strict", name)) => (Mode::Strict, name),
                _ => (unsaid, backend.trim()),
            };
            policy.rules.push(Rule { ops: ops.trim().into(), backend: Backend(intern(backend)), mode });
        }
        policy.check(registry)?;
        Ok(policy)
    }

    /// That `registry` knows every name, and can do what is asked.
    pub(crate) fn check(&self, registry: &Registry) -> Result<(), ConfigError> {
        if self.self_test && crate::self_test::test().is_none() {
            let detail =
                "self-tests are asked for, and no crate that brings them is linked; link kernels-ops".into();
            return Err(ConfigError::Invalid { name: "KERNELS_POLICY", detail });
        }
        self.rules.iter().try_for_each(|r| r.check(registry))
    }
}

/// The parts of a list with commas.
pub(crate) fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|p| !p.is_empty())
}

impl Rule {
    fn check(&self, registry: &Registry) -> Result<(), ConfigError> {
        if !registry.ops().any(|o| glob(&self.ops, o.name)) {
            let nearest = nearest(&self.ops, registry.ops().map(|o| o.name)).map(String::from);
            return Err(ConfigError::UnknownOp { op: self.ops.clone(), nearest });
        }
        registry.check_backend(self.backend)
    }
}

/// Whether an op's name matches a pattern in which `*` stands for anything.
pub fn glob(pattern: &str, name: &str) -> bool {
    fast_glob::glob_match(pattern, name)
}
