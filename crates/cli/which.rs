//! Which kernels a command looks at, and an error for names that nothing has.

use crate::Failure;
use kernels_core::{Backend, Registry, did_you_mean, intern, nearest};
use kernels_harness::Filter;

#[derive(clap::Args)]
pub struct Which {
    /// Only ops of this name; `*` stands for anything
    #[arg(long)]
    op: Option<String>,
    /// Only kernels of this backend; a check then fails where none of them runs
    #[arg(long)]
    backend: Option<String>,
    /// Only on this device, as `cuda:0`; it is an error where that device is not to be had
    #[arg(long)]
    device: Option<String>,
}

impl Which {
    /// As a filter that lets at least one kernel through.
    pub fn filter(&self, registry: &Registry) -> Result<Filter, Failure> {
        let filter = Filter {
            ops: self.op.clone(),
            backend: self.backend.as_ref().map(|b| Backend(intern(b))),
            device: self.device.as_ref().map(|d| registry.device(d).map(|d| d.id())).transpose()?,
            ..Filter::default()
        };
        let linked = registry.backends();
        if let Some(b) = filter.backend.filter(|b| !linked.contains(b)) {
            let off: Vec<_> = registry.features_off().iter().map(|f| f.0).collect();
            let fix = match off.is_empty() {
                true => String::new(),
                false => format!("\n  fix: it may come with a feature that is off: {off:?}"),
            };
            let near = did_you_mean(nearest(b.0, linked.iter().map(|b| b.0)));
            return Err(Failure::Error(format!(
                "no kernel of backend \"{b}\" is linked ({linked:?}){near}{fix}"
            )));
        }
        if filter.kernels(registry).is_empty() {
            let glob = self.op.as_deref().unwrap_or("*");
            let near = did_you_mean(nearest(glob, registry.ops().map(|o| o.name)));
            return Err(Failure::Error(format!("no such kernel of an op \"{glob}\"{near}")));
        }
        Ok(filter)
    }
}
