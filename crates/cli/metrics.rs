//! Counters of kernels as Prometheus text.

use crate::{Failure, Outcome, output};
use kernels_core::{Counts, Registry};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry as Metrics;
use std::fmt::Error;
use std::path::Path;

#[derive(Debug)]
struct Kernels;

/// Name, help, and which counter.
const COUNTERS: [(&str, &str, fn(&Counts) -> u64); 3] = [
    ("kernels_calls", "Times that a kernel ran, while calls were counted", |c| c.calls),
    ("kernels_fallbacks", "Calls that ran the reference for want of anything better", |c| c.fallbacks),
    (
        "kernels_preference_misses",
        "Selections that preferred a kernel's backend and could not have it",
        |c| c.misses,
    ),
];

impl Collector for Kernels {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let Ok(registry) = Registry::linked() else { return Ok(()) };
        for (name, help, of) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for kernel in registry.kernels() {
                let (spec, value) = (kernel.spec(), of(&kernel.counts()));
                if value > 0 {
                    let labels = [
                        ("op", spec.op.to_string()),
                        ("backend", spec.backend.0.into()),
                        ("kernel", spec.id()),
                    ];
                    ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }
}

/// The counters of all kernels that are not 0, in Prometheus' text format. Calls are counted while
/// [`kernels_core::count_calls`] is on.
pub fn prometheus() -> String {
    let mut metrics = Metrics::default();
    metrics.register_collector(Box::new(Kernels));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &metrics);
    text
}

/// Writes them to a file; `-` is standard output.
pub(crate) fn write(path: &Path) -> Outcome {
    if path == Path::new("-") {
        return output::print(prometheus().trim_end());
    }
    let fail = |e| Failure::Error(format!("cannot write the counters to {}: {e}", path.display()));
    std::fs::write(path, prometheus()).map_err(fail)
}
