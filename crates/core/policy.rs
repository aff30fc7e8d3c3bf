//! Who decides which backend: the call, the process, or the default order.

use crate::names::{Backend, intern, nearest};
use crate::{ConfigError, Registry};
use std::fmt;

/// The level that decided a selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Level {
    /// The backend was named at the call.
    Call,
    /// The process asks for it, by `KERNELS_BACKEND` or by [`Registry::set_policy`].
    Process,
    /// Nobody asked: the best by rank.
    Default,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Call => "the call",
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
    /// The next best backend serves it.
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

/// What the process asks of every selection. The capability filter holds whatever it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The first rule whose glob matches an op counts.
    pub rules: Vec<Rule>,
    /// Whether experimental kernels may be chosen.
    pub experimental: bool,
    /// Whether only deterministic kernels may be chosen.
    pub deterministic: bool,
}

impl Policy {
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
        let mut rules = Vec::new();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (ops, backend) = part.split_once('=').unwrap_or(("*", part));
            let (mode, backend) = match backend.trim().strip_prefix("prefer:") {
                Some(name) => (Mode::Prefer, name),
                None => (Mode::Strict, backend.trim()),
            };
            let rule = Rule { ops: ops.trim().into(), backend: Backend(intern(backend)), mode };
            rule.check(registry)?;
            rules.push(rule);
        }
        Ok(Policy { rules, ..Policy::default() })
    }
}

impl Rule {
    pub(crate) fn check(&self, registry: &Registry) -> Result<(), ConfigError> {
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
