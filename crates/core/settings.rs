//! What a selection goes by besides what was linked: the scopes of the thread, the process's policy, quarantines.

use crate::call::CLOCK;
use crate::policy::{Level, Policy, Rule};
use crate::quarantine::Quarantine;
use crate::registry::Registry;
use crate::{ConfigError, scope, slot};
use std::sync::Arc;

/// What the process set: replaced whole, read as a snapshot.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    pub policy: Policy,
    pub quarantined: Vec<Quarantine>,
}

/// All that a selection goes by, at one moment on one thread.
pub(crate) struct Ruling {
    /// Innermost first.
    scopes: Vec<Arc<Policy>>,
    pub settings: Arc<Settings>,
    /// Somebody only asks: a preference that cannot be met is no miss.
    pub asking: bool,
}

/// What the filter lets through.
#[derive(Clone, Copy)]
pub(crate) struct Allowed<'a> {
    pub experimental: bool,
    pub deterministic: bool,
    pub full_precision: bool,
    pub no_reference: bool,
    pub quarantined: &'a [Quarantine],
}

impl Allowed<'_> {
    /// For who names a backend: the reference too.
    pub fn named(self) -> Self {
        Allowed { no_reference: false, ..self }
    }

    /// All that can run at all: for a harness, and for whoever holds a kernel already.
    pub const ANY: Allowed<'static> = Allowed {
        experimental: true,
        deterministic: false,
        full_precision: false,
        no_reference: false,
        quarantined: &[],
    };
}

impl Ruling {
    /// For somebody who only asks.
    pub fn asking(self) -> Ruling {
        Ruling { asking: true, ..self }
    }

    /// The rule for an op, and whose it is.
    pub fn rule(&self, op: &str) -> Option<(&Rule, Level)> {
        let scoped = self.scopes.iter().find_map(|p| p.rule(op)).map(|r| (r, Level::Scope));
        scoped.or_else(|| self.settings.policy.rule(op).map(|r| (r, Level::Process)))
    }

    pub fn allowed(&self) -> Allowed<'_> {
        let any = |of: fn(&Policy) -> bool| of(&self.settings.policy) || self.scopes.iter().any(|p| of(p));
        Allowed {
            experimental: any(|p| p.experimental),
            deterministic: any(|p| p.deterministic),
            full_precision: any(|p| p.full_precision),
            no_reference: any(|p| p.no_reference),
            quarantined: &self.settings.quarantined,
        }
    }
}

impl Registry {
    pub(crate) fn ruling(&self) -> Ruling {
        Ruling { scopes: scope::policies(), settings: self.settings(), asking: false }
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// What the process asks of every selection.
    pub fn policy(&self) -> Policy {
        self.settings().policy.clone()
    }

    /// Changes what the process asks of every selection; calls that resolved before resolve anew.
    ///
    /// # Errors
    /// A rule with an unknown op or backend; then nothing changes.
    pub fn set_policy(&self, policy: Policy) -> Result<(), ConfigError> {
        policy.check(self)?;
        self.change(|s| s.policy = policy);
        Ok(())
    }

    /// First the settings, then the epoch: whoever sees the new epoch sees the new settings.
    pub(crate) fn change(&self, how: impl FnOnce(&mut Settings)) {
        let mut settings = self.settings.write().unwrap_or_else(|e| e.into_inner());
        let mut new = Settings::clone(&settings);
        how(&mut new);
        *settings = Arc::new(new);
        drop(settings);
        slot::bump(&CLOCK);
    }
}
