//! Kernels that are not to be used on a device, though they could run there.

use crate::device::Device;
use crate::error::ConfigError;
use crate::names::{DeviceId, did_you_mean, nearest};
use crate::platform::Platform;
use crate::registry::Registry;
use crate::spec::KernelSpec;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A kernel that gave wrong results on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// The kernel's id.
    pub kernel: String,
    /// The device.
    pub device: DeviceId,
    /// The device's product name: a list kept from another machine says nothing of this one's device.
    pub name: String,
    /// What failed.
    pub detail: String,
}

impl Quarantine {
    /// Of the kernel of this id on this device.
    pub fn new(kernel: &str, device: Device, detail: &str) -> Quarantine {
        let Platform { id, name, .. } = device.platform();
        Quarantine { kernel: kernel.into(), device: *id, name: name.clone(), detail: detail.into() }
    }

    pub(crate) fn holds(&self, spec: &KernelSpec, platform: &Platform) -> bool {
        self.is_on(platform.id, &platform.name) && self.kernel == spec.id()
    }

    /// Whether both are of one kernel on one device of one product.
    pub fn is_about(&self, other: &Quarantine) -> bool {
        self.is_on(other.device, &other.name) && self.kernel == other.kernel
    }

    /// A file keeps names with single spaces.
    fn is_on(&self, device: DeviceId, name: &str) -> bool {
        self.device == device && self.name.split_whitespace().eq(name.split_whitespace())
    }

    /// One line: kernel, device, name, detail, with tabs between.
    fn line(&self) -> String {
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{}\t{}\t{}\t{}", self.kernel, self.device, flat(&self.name), flat(&self.detail))
    }

    fn parse(line: &str) -> Option<Quarantine> {
        let mut parts = line.splitn(4, '\t');
        let (kernel, device) = (parts.next()?.to_string(), DeviceId::parse(parts.next()?)?);
        Some(Quarantine { kernel, device, name: parts.next()?.into(), detail: parts.next()?.into() })
    }

    /// A list as a file keeps it.
    pub fn write_list(list: &[Quarantine]) -> String {
        let mut text = String::from("# kernel\tdevice\tits name\twhat failed\n");
        list.iter().for_each(|q| {
            let _ = writeln!(text, "{}", q.line());
        });
        text
    }

    /// Reads what [`Quarantine::write_list`] wrote.
    ///
    /// # Errors
    /// A line that is none, by its number.
    pub fn read_list(text: &str) -> Result<Vec<Quarantine>, String> {
        let lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
        let read = |(i, line): (usize, &str)| {
            Quarantine::parse(line)
                .ok_or_else(|| format!("line {}: not four columns with tabs between", i + 1))
        };
        lines.map(read).collect()
    }
}

impl Registry {
    /// From now on no selection on `device` takes the kernel of this id, whoever asks for it.
    ///
    /// # Errors
    /// No such kernel is linked.
    pub fn quarantine(&self, kernel: &str, device: Device, detail: &str) -> Result<(), ConfigError> {
        let ids = self.kernel_ids();
        if !ids.contains(kernel) {
            let near = did_you_mean(nearest(kernel, ids.iter().map(String::as_str)));
            let detail = format!("no kernel \"{kernel}\" is linked{near}");
            return Err(ConfigError::Invalid { name: "quarantine", detail });
        }
        self.add_quarantined(vec![Quarantine::new(kernel, device, detail)]);
        Ok(())
    }

    fn kernel_ids(&self) -> BTreeSet<String> {
        self.specs().map(KernelSpec::id).collect()
    }

    pub(crate) fn add_quarantined(&self, list: Vec<Quarantine>) {
        self.change(|s| {
            s.quarantined.retain(|q| !list.iter().any(|new| new.is_about(q)));
            s.quarantined.extend(list);
        });
    }

    /// Lifts the quarantine of a kernel on a device; whether there was one.
    pub fn release(&self, kernel: &str, device: DeviceId) -> bool {
        let mine = |q: &Quarantine| q.kernel == kernel && q.device == device;
        // Nothing to lift is no change, and decisions stay.
        let there = self.settings().quarantined.iter().any(mine);
        if there {
            self.change(|s| s.quarantined.retain(|q| !mine(q)));
        }
        there
    }

    /// All quarantines that are in force.
    pub fn quarantined(&self) -> Vec<Quarantine> {
        self.settings().quarantined.clone()
    }

    /// Reads the list that `KERNELS_QUARANTINE` names. Kernels that are no longer linked are passed over.
    pub(crate) fn read_quarantine(&self) -> Result<(), ConfigError> {
        let Some(path) = std::env::var_os("KERNELS_QUARANTINE") else { return Ok(()) };
        let invalid = |detail: String| ConfigError::Invalid {
            name: "KERNELS_QUARANTINE",
            detail: format!("{}: {detail}; `kernels check --quarantine FILE` writes one", path.display()),
        };
        let text = std::fs::read_to_string(&path).map_err(|e| invalid(e.to_string()))?;
        let list = Quarantine::read_list(&text).map_err(invalid)?;
        let ids = self.kernel_ids();
        let (known, gone): (Vec<_>, Vec<_>) = list.into_iter().partition(|q| ids.contains(&q.kernel));
        for q in gone {
            tracing::warn!(kernel = q.kernel, device = %q.device, "in quarantine, and not linked");
        }
        if !known.is_empty() {
            self.add_quarantined(known);
        }
        Ok(())
    }
}
