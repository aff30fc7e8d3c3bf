//! Benches: every usable kernel over its contract's bench cases, checked first, interleaved with each
//! other, as medians and as shares of the roofline measured in the same run.

use crate::{Call, CallTensor, Filter, Peer, PeerTime, Roofline};
use kernels_core::{AnyKernel, Device, DeviceKind, Error, Registry, Result};
use kernels_ops::{AnyCase, Outcome, Prepared, contracts};
use serde::Serialize;

/// One kernel on one case.
#[derive(Clone, Debug, Serialize)]
pub struct BenchRow {
    /// Op.
    pub op: &'static str,
    /// Case.
    pub case: String,
    /// Kernel id.
    pub kernel: String,
    /// Whether its weight was packed ahead of the calls.
    pub packed: bool,
    /// Device.
    pub device: String,
    /// Host threads.
    pub threads: usize,
    /// Median microseconds for a call.
    pub median_us: f64,
    /// Gigabytes read and written per second.
    pub gb_per_s: f64,
    /// Billions of floating-point operations per second.
    pub gflop_per_s: f64,
    /// The least time for the bytes at the bandwidth measured for this working set, or for the operations at the
    /// peak measured, whichever is longer, over the median.
    pub share_of_roofline: f64,
    /// Other libraries, timed in turns with this kernel.
    pub peers: Vec<PeerTime>,
}

impl BenchRow {
    /// The kernel, and how it got its weight.
    pub fn who(&self) -> String {
        format!("{}{}", self.kernel, if self.packed { ", weight packed ahead" } else { "" })
    }

    /// The fastest of the peers.
    pub fn best_peer(&self) -> Option<(&PeerTime, f64)> {
        let ran = self.peers.iter().filter_map(|p| p.median_us.map(|us| (p, us)));
        ran.min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// Rounds of interleaved measurements.
const ROUNDS: usize = 9;
/// How long one measurement lasts.
const SLICE_SECONDS: f64 = 0.02;

/// Benches what `filter` lets through, beside `peers` where the device is a CPU. `progress` hears (cases done, cases in
/// all, what is next).
///
/// # Errors
/// The registry does not hold together, or a kernel fails its check.
pub fn bench(
    filter: &Filter,
    peers: &mut [Box<dyn Peer>],
    mut progress: impl FnMut(usize, usize, &str),
) -> Result<Vec<BenchRow>> {
    let registry = Registry::linked()?;
    let kernels = filter.kernels(registry);
    let devices = filter.devices(registry);
    let cases: Vec<(&'static str, Box<dyn AnyCase>)> = contracts()
        .into_iter()
        .filter(|c| kernels.iter().any(|k| k.spec().op == c.op()))
        .flat_map(|c| c.bench_cases().into_iter().map(move |case| (c.op(), case)))
        .filter(|(_, case)| filter.cases.as_ref().is_none_or(|part| case.name().contains(part.as_str())))
        .collect();
    let mut rows = Vec::new();
    for (done, (op, case)) in cases.iter().enumerate() {
        progress(done, cases.len(), &format!("{op} {}", case.name()));
        let key = case.key()?;
        let cost = case.cost()?;
        for device in &devices {
            let decision = registry.explain(op, device.platform(), Some(&key), None)?;
            let able = |k: &&&'static dyn AnyKernel| {
                let mine = decision.candidates.iter().find(|c| std::ptr::eq(c.spec, k.spec()));
                // The reference is for being right; timing it would take most of the run.
                mine.is_some_and(|c| c.reasons.is_empty())
                    && (k.spec().backend.0 != "reference" || filter.backend.is_some())
            };
            let mut kernels: Vec<_> =
                kernels.iter().filter(|k| k.spec().op == *op).filter(able).copied().collect();
            if !filter.all_variants {
                // Sorted best first, so the first of a backend is its best.
                let mut seen = Vec::new();
                kernels.retain(|k| {
                    !seen.contains(&k.spec().backend) && {
                        seen.push(k.spec().backend);
                        true
                    }
                });
            }
            if kernels.is_empty() {
                continue;
            }
            check(op, case.as_ref(), &kernels, *device)?;
            let roof = Roofline::of(*device, (cost.read + cost.written) as usize)?;
            let mut rivals = Rivals::of(peers, op, case.as_ref(), *device);
            let packed = kernels.iter().filter(|k| k.spec().prepack.is_some()).map(|k| (*k, true));
            let runs: Vec<_> = kernels.iter().map(|k| (*k, false)).chain(packed).collect();
            let times = medians(case.as_ref(), &runs, &mut rivals, *device)?;
            let peers = rivals.times();
            for ((kernel, packed), seconds) in runs.into_iter().zip(times) {
                rows.push(BenchRow {
                    op,
                    case: case.name().into(),
                    kernel: kernel.spec().id(),
                    packed,
                    device: device.id().to_string(),
                    threads: device.threads(),
                    median_us: seconds * 1e6,
                    gb_per_s: (cost.read + cost.written) as f64 / seconds / 1e9,
                    gflop_per_s: cost.flops as f64 / seconds / 1e9,
                    share_of_roofline: roof.seconds(cost.read, cost.written, cost.flops) / seconds,
                    peers: peers.clone(),
                });
            }
        }
    }
    progress(cases.len(), cases.len(), "");
    Ok(rows)
}

fn check(op: &str, case: &dyn AnyCase, kernels: &[&'static dyn AnyKernel], device: Device) -> Result<()> {
    for kernel in kernels {
        if let Outcome::Ran { worst, at } = case.run(*kernel, device)?
            && worst > 1.0
        {
            let detail = format!(
                "{op} {}: {} is {worst:.3} times the tolerance off, {at}",
                case.name(),
                kernel.spec().id()
            );
            return Err(Error::Config(kernels_core::ConfigError::Invalid { name: "bench", detail }));
        }
    }
    Ok(())
}

/// Median seconds a call for each kernel, with its weight packed or not, measured in turns so that the machine's moods
/// hit all alike.
fn medians(
    case: &dyn AnyCase,
    runs: &[(&'static dyn AnyKernel, bool)],
    rivals: &mut Rivals<'_>,
    device: Device,
) -> Result<Vec<f64>> {
    let mut prepared = Vec::new();
    for (kernel, packed) in runs {
        prepared.push(case.prepared(*kernel, device, *packed)?);
    }
    let time = |run: &mut Option<Box<dyn Prepared + '_>>, n: u32| -> Result<f64> {
        let took = run.as_mut().map(|run| run.time(n)).transpose()?;
        Ok(took.map_or(f64::NAN, |d| d.as_secs_f64()) / f64::from(n))
    };
    let mut counts = Vec::new();
    for run in &mut prepared {
        time(run, 2)?;
        let once = time(run, 3)?;
        counts.push(((SLICE_SECONDS / once) as u32).clamp(1, 1_000_000));
    }
    let mut samples = vec![Vec::new(); runs.len()];
    for _ in 0..ROUNDS {
        for (i, run) in prepared.iter_mut().enumerate() {
            samples[i].push(time(run, counts[i])?);
        }
        rivals.time();
    }
    Ok(samples.into_iter().map(median).collect())
}

/// The peers of one case.
struct Rivals<'a> {
    able: Vec<(&'a mut Box<dyn Peer>, String, Vec<f64>)>,
    others: Vec<PeerTime>,
}

impl<'a> Rivals<'a> {
    fn of(
        peers: &'a mut [Box<dyn Peer>],
        op: &'static str,
        case: &dyn AnyCase,
        device: Device,
    ) -> Rivals<'a> {
        let mut rivals = Rivals { able: Vec::new(), others: Vec::new() };
        if device.id().kind != DeviceKind::CPU {
            return rivals;
        }
        let tensors = case.tensors().into_iter();
        let tensors = tensors.map(|(dtype, shape)| CallTensor { dtype: dtype.name(), shape }).collect();
        let call = Call { op, case: case.name().into(), tensors, threads: device.threads() };
        for peer in peers {
            match peer.prepare(&call) {
                Ok(Ok(note)) => rivals.able.push((peer, note, Vec::new())),
                Ok(Err(why)) | Err(why) => {
                    rivals.others.push(PeerTime { peer: peer.name().into(), note: why, median_us: None });
                }
            }
        }
        rivals
    }

    fn time(&mut self) {
        let mut i = 0;
        while let Some((peer, _, samples)) = self.able.get_mut(i) {
            match peer.time(SLICE_SECONDS) {
                Ok(seconds) => {
                    samples.push(seconds);
                    i += 1;
                }
                Err(why) => {
                    self.others.push(PeerTime { peer: peer.name().into(), note: why, median_us: None });
                    self.able.remove(i);
                }
            }
        }
    }

    fn times(self) -> Vec<PeerTime> {
        let ran = self.able.into_iter().map(|(peer, note, samples)| PeerTime {
            peer: peer.name().into(),
            note,
            median_us: Some(1e6 * median(samples)),
        });
        ran.chain(self.others).collect()
    }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
