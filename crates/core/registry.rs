//! The registry: everything linked, sorted and checked. A value; the process has one of what it linked.

use crate::decide::rank;
use crate::device::{Device, Driver};
use crate::error::{BuildError, ConfigError, Error, SelectError, feature_for};
use crate::integrity;
use crate::manifest::{FEATURES, FeatureReport, MANIFESTS, Manifest};
use crate::names::{Backend, DeviceId, nearest};
use crate::op::{AnyKernel, KernelEntry, OpEntry, OpInfo};
use crate::policy::{Policy, parts};
use crate::reason::Reason;
use crate::settings::Settings;
use crate::spec::KernelSpec;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, RwLock};

/// What a registry is built from.
#[derive(Clone, Default)]
pub struct Parts {
    /// Ops.
    pub ops: Vec<&'static OpInfo>,
    /// Kernels.
    pub kernels: Vec<&'static dyn AnyKernel>,
    /// Manifests of backend crates.
    pub manifests: Vec<&'static Manifest>,
    /// Feature reports of facades.
    pub features: Vec<&'static FeatureReport>,
}

impl Parts {
    /// What was linked into this binary, unsorted and unchecked.
    pub fn linked() -> Parts {
        let kernels: Vec<_> = inventory::iter::<KernelEntry>.into_iter().map(|e| e.0).collect();
        let manifests = if cfg!(any(miri, target_family = "wasm")) {
            kernels.iter().map(|k| k.spec().manifest).collect()
        } else {
            MANIFESTS.iter().copied().collect()
        };
        Parts {
            ops: inventory::iter::<OpEntry>.into_iter().map(|e| e.0).collect(),
            kernels,
            manifests,
            features: FEATURES.iter().copied().collect(),
        }
    }
}

/// Everything linked, sorted and checked.
pub struct Registry {
    ops: Vec<OpRecord>,
    by_name: HashMap<&'static str, usize>,
    manifests: Vec<&'static Manifest>,
    features: Vec<&'static FeatureReport>,
    pub(crate) settings: RwLock<Arc<Settings>>,
}

// A panic leaves no registry half changed: settings are replaced whole.
impl std::panic::UnwindSafe for Registry {}
impl std::panic::RefUnwindSafe for Registry {}

/// An op with its kernels, best rank first.
pub(crate) struct OpRecord {
    pub info: &'static OpInfo,
    pub kernels: Vec<&'static dyn AnyKernel>,
}

/// The index of a kernel within its op travels in 11 bits.
pub(crate) const MAX_KERNELS_OF_OP: usize = 1 << 11;

impl Registry {
    /// The registry of what was linked into this binary, built and checked at first use; then
    /// the environment is read: `KERNELS_BACKEND`, `KERNELS_POLICY`, `KERNELS_QUARANTINE`, `KERNELS_CPU_FEATURES`.
    ///
    /// # Errors
    /// What does not hold together, or a wrong setting; the same each time.
    pub fn linked() -> Result<&'static Registry, Error> {
        #[derive(Clone)]
        enum Startup {
            Build(BuildError),
            Config(ConfigError),
        }
        static LINKED: OnceLock<Result<Registry, Startup>> = OnceLock::new();
        let linked = LINKED.get_or_init(|| {
            let registry = Registry::build(Parts::linked()).map_err(Startup::Build)?;
            registry.read_environment().map_err(Startup::Config)?;
            tracing::debug!(
                ops = registry.ops.len(),
                manifests = registry.manifests.len(),
                "kernel registry built"
            );
            Ok(registry)
        });
        linked.as_ref().map_err(|e| match e.clone() {
            Startup::Build(e) => e.into(),
            Startup::Config(e) => e.into(),
        })
    }

    /// A registry of the given parts: sorted, so that link order decides nothing, and checked.
    ///
    /// # Errors
    /// The first fault, in sorted order.
    pub fn build(parts: Parts) -> Result<Registry, BuildError> {
        let Parts { mut ops, mut kernels, mut manifests, features } = parts;
        manifests.sort_by_key(|m| (m.package, m.version));
        manifests.dedup_by(|a, b| std::ptr::eq(*a, *b));
        integrity::crates(&manifests, &features, &kernels)?;

        ops.sort_by_key(|o| (o.name, o.origin.package, o.origin.file, o.origin.line));
        ops.dedup_by(|a, b| std::ptr::eq(*a, *b));
        if let Some([a, b]) = ops.array_windows().find(|[a, b]| a.name == b.name) {
            let (first, second) = (a.origin.to_string(), b.origin.to_string());
            return Err(BuildError::DuplicateOp { op: a.name.into(), first, second });
        }
        let by_name: HashMap<_, _> = ops.iter().enumerate().map(|(i, o)| (o.name, i)).collect();
        let mut ops: Vec<_> = ops.into_iter().map(|info| OpRecord { info, kernels: Vec::new() }).collect();

        integrity::replace(&mut kernels)?;
        for kernel in kernels {
            let spec = kernel.spec();
            let at = by_name.get(spec.op).copied();
            ops[integrity::spec(spec, at)?].kernels.push(kernel);
        }
        for op in &mut ops {
            op.kernels.sort_by_cached_key(|k| {
                (rank(k.spec()), k.spec().formats, k.spec().origin.file, k.spec().origin.line)
            });
            integrity::duplicates(&op.kernels)?;
            if op.kernels.len() >= MAX_KERNELS_OF_OP {
                let spec = op.kernels[0].spec();
                let detail = format!("{} kernels for one op; at most {MAX_KERNELS_OF_OP}", op.kernels.len());
                return Err(BuildError::InvalidSpec {
                    id: spec.id(),
                    origin: spec.origin.to_string(),
                    detail,
                });
            }
        }
        Ok(Registry { ops, by_name, manifests, features, settings: RwLock::default() })
    }

    fn read_environment(&self) -> Result<(), ConfigError> {
        if let Ok(text) = std::env::var("KERNELS_CPU_FEATURES") {
            crate::platform::detect_cpu()
                .restricted(&text)
                .map_err(|detail| ConfigError::Invalid { name: "KERNELS_CPU_FEATURES", detail })?;
        }
        let text = |name| std::env::var(name).unwrap_or_default();
        let (rules, words) = (text("KERNELS_BACKEND"), text("KERNELS_POLICY"));
        // Counting is no matter of selection.
        let (count, words): (Vec<_>, Vec<_>) = parts(&words).partition(|w| *w == "count");
        if !count.is_empty() {
            crate::metrics::count_calls(true);
        }
        self.set_policy(Policy::parse_both(&rules, &words.join(","), self)?)?;
        self.read_quarantine()
    }

    /// Every op, by name.
    pub fn ops(&self) -> impl Iterator<Item = &'static OpInfo> + '_ {
        self.ops.iter().map(|o| o.info)
    }

    /// Every kernel's spec, by op, best rank first.
    pub fn specs(&self) -> impl Iterator<Item = &'static KernelSpec> + '_ {
        self.kernels().map(|k| k.spec())
    }

    /// Every kernel, by op, best rank first.
    pub fn kernels(&self) -> impl Iterator<Item = &'static dyn AnyKernel> + '_ {
        self.ops.iter().flat_map(|o| o.kernels.iter().copied())
    }

    /// The crates that bring kernels or drivers, by name.
    pub fn manifests(&self) -> &[&'static Manifest] {
        &self.manifests
    }

    /// All backends that have a kernel, sorted.
    pub fn backends(&self) -> Vec<Backend> {
        let mut all: Vec<_> = self.specs().map(|s| s.backend).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Features that bring a backend and are enabled: (feature, crate).
    pub fn features_on(&self) -> Vec<(&'static str, &'static str)> {
        self.features.iter().flat_map(|f| f.on).copied().collect()
    }

    /// Features that would bring a backend and are off: (feature, device kind).
    pub fn features_off(&self) -> Vec<(&'static str, &'static str)> {
        self.features.iter().flat_map(|f| f.off).copied().collect()
    }

    pub(crate) fn features_off_names(&self) -> Vec<&'static str> {
        self.features_off().into_iter().map(|(name, _)| name).collect()
    }

    /// The drivers of all linked crates, each once, by device kind.
    pub fn drivers(&self) -> Vec<&'static dyn Driver> {
        let mut all: Vec<&'static dyn Driver> = vec![&crate::host::HOST];
        all.extend(self.manifests.iter().map(|m| m.driver));
        all.sort_by_key(|d| (d.kind(), d.name()));
        all.dedup_by_key(|d| (d.kind(), d.name()));
        all
    }

    /// Every live device, and the reason of each driver that has none. This probes the drivers.
    pub fn devices(&self) -> Vec<(&'static dyn Driver, Result<&'static [Device], &'static Reason>)> {
        self.drivers().into_iter().map(|d| (d, Device::of_driver(d))).collect()
    }

    /// The live device of that name: `cpu`, `cuda:0`.
    ///
    /// # Errors
    /// Why it is not to be had, and what to do.
    pub fn device(&self, name: &str) -> Result<Device, Error> {
        let id = DeviceId::parse(name).ok_or_else(|| ConfigError::Invalid {
            name: "device",
            detail: format!(
                "{name:?} is not a device; write a kind and an index, as in \"cpu\" or \"cuda:0\""
            ),
        })?;
        let fail =
            |why: String, fix: String| SelectError::DeviceUnavailable { device: id.to_string(), why, fix };
        // Only these drivers: probing one loads its libraries.
        let mine = self.drivers().into_iter().filter(|d| d.kind() == id.kind);
        let mut answers = mine.map(|d| (d, Device::of_driver(d))).peekable();
        if answers.peek().is_none() {
            let fix = feature_for(id.kind, &self.features_off());
            let fix =
                fix.unwrap_or_else(|| "link a crate that brings its driver (`use kernels_foo as _;`)".into());
            return Err(fail(format!("no linked crate serves \"{}\" devices", id.kind), fix).into());
        }
        let mut worst = None;
        for (driver, answer) in answers {
            let (why, fix) = match answer {
                Ok(found) => match found.iter().find(|d| d.id() == id) {
                    Some(device) => return Ok(*device),
                    None => match driver.failures().into_iter().find(|(failed, _)| *failed == id) {
                        Some((_, reason)) => (reason.to_string(), reason.fix()),
                        None if worst.is_some() => continue,
                        None => (format!("there are {} such devices", found.len()), None),
                    },
                },
                Err(reason) => (reason.to_string(), reason.fix()),
            };
            worst = Some(match hidden(driver) {
                Some((name, value)) => {
                    let fix = fix.unwrap_or_else(|| format!("change or unset {name}"));
                    (format!("{why}; {name}=\"{value}\" may hide others"), Some(fix))
                }
                None => (why, fix),
            });
        }
        let (why, fix) = worst.unwrap_or_default();
        Err(fail(why, fix.unwrap_or_else(|| "use one that `kernels doctor` lists".into())).into())
    }

    pub(crate) fn record(&self, op: &str) -> Result<&OpRecord, ConfigError> {
        self.by_name.get(op).map(|at| &self.ops[*at]).ok_or_else(|| ConfigError::UnknownOp {
            op: op.into(),
            nearest: nearest(op, self.ops().map(|o| o.name)).map(String::from),
        })
    }

    pub(crate) fn check_backend(&self, backend: Backend) -> Result<(), ConfigError> {
        let linked = self.backends();
        if linked.contains(&backend) {
            return Ok(());
        }
        Err(ConfigError::UnknownBackend {
            backend: backend.0.into(),
            nearest: nearest(backend.0, linked.iter().map(|b| b.0)).map(String::from),
            linked,
            features_off: self.features_off_names(),
        })
    }
}

/// A variable that is set and hides devices from `driver`.
fn hidden(driver: &dyn Driver) -> Option<(&'static str, String)> {
    driver.visibility().iter().find_map(|name| Some((*name, std::env::var(name).ok()?)))
}
