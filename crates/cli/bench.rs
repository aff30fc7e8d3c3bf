//! `kernels bench`

use crate::which::Which;
use crate::{Failure, Outcome, output, peers};
use kernels_core::Registry;
use kernels_harness::{BenchRow, Filter, Peer, bench};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    // The reference is timed only when named.
    #[command(flatten)]
    which: Which,
    /// Only cases whose names contain this, as "[16, 4096, 4096]"
    #[arg(long, value_name = "TEXT")]
    cases: Option<String>,
    /// Every usable variant of a backend, not only its best
    #[arg(long)]
    all_variants: bool,
    /// Host threads; by default one for each core
    #[arg(long)]
    threads: Option<usize>,
    /// Other libraries' implementations too, in turns with ours: the programs peer-* of this folder
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = "scripts/peers")]
    peers: Option<PathBuf>,
    /// As JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// As CSV, a line for each kernel or peer of each case
    #[arg(long)]
    csv: bool,
}

pub fn run(args: &Args) -> Outcome {
    let filter = args.which.filter(Registry::linked()?)?;
    let filter = Filter { all_variants: args.all_variants, cases: args.cases.clone(), ..filter };
    if let Some(threads) = args.threads {
        kernels_core::Device::cpu().set_threads(threads);
    }
    let mut peers = match &args.peers {
        Some(folder) => started(folder)?,
        None => Vec::new(),
    };
    let rows = bench(&filter, &mut peers, output::progress())?;
    if rows.is_empty() {
        let of = filter.cases.map_or(String::new(), |part| format!(" whose name contains \"{part}\""));
        return Err(Failure::Error(format!("no usable kernel has a bench case{of}")));
    }
    match (args.json, args.csv) {
        (true, _) => output::json(&rows),
        (_, true) => csv(&rows),
        _ => table(&rows, args.peers.is_some()),
    }
}

fn started(folder: &std::path::Path) -> Result<Vec<Box<dyn Peer>>, Failure> {
    let (peers, absent) = peers::start(folder)
        .map_err(|e| Failure::Error(format!("peers: cannot read the folder {}: {e}", folder.display())))?;
    absent.iter().for_each(|why| eprintln!("without {why}"));
    match peers.is_empty() {
        true => Err(Failure::Error(format!("peers: no program peer-* of {} started", folder.display()))),
        false => Ok(peers),
    }
}

fn table(rows: &[BenchRow], beside: bool) -> Outcome {
    let mut header = vec!["op", "case", "kernel", "threads", "median µs", "GB/s", "GFLOP/s", "of roofline"];
    if beside {
        header.extend(["best peer", "its µs", "times as fast"]);
    }
    let mut table = output::table(&header);
    for r in rows {
        let mut cells = vec![
            r.op.to_string(),
            r.case.clone(),
            r.who(),
            r.threads.to_string(),
            format!("{:.2}", r.median_us),
            format!("{:.1}", r.gb_per_s),
            format!("{:.1}", r.gflop_per_s),
            format!("{:.0} %", 100.0 * r.share_of_roofline),
        ];
        match r.best_peer() {
            Some((peer, us)) => {
                cells.extend([peer.peer.clone(), format!("{us:.2}"), format!("{:.2}", us / r.median_us)]);
            }
            None if beside => cells.extend(["-", "-", "-"].map(String::from)),
            None => {}
        }
        table.add_row(cells);
    }
    output::print(&table.to_string())
}

fn csv(rows: &[BenchRow]) -> Outcome {
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record([
        "op",
        "case",
        "who",
        "threads",
        "median_us",
        "gb_per_s",
        "gflop_per_s",
        "ours_is_times_as_fast",
    ])?;
    for (i, r) in rows.iter().enumerate() {
        let line = |who: &str, us: f64, times: String| {
            let scaled = |x: f64| format!("{:.2}", x * r.median_us / us);
            let (gb, gflop) = (scaled(r.gb_per_s), scaled(r.gflop_per_s));
            [
                r.op.into(),
                r.case.clone(),
                who.into(),
                r.threads.to_string(),
                format!("{us:.3}"),
                gb,
                gflop,
                times,
            ]
        };
        out.write_record(line(&r.who(), r.median_us, String::new()))?;
        // Peers stand after the best kernel of a case.
        if i > 0 && (rows[i - 1].op, &rows[i - 1].case) == (r.op, &r.case) {
            continue;
        }
        for (peer, us) in r.peers.iter().filter_map(|p| p.median_us.map(|us| (p, us))) {
            out.write_record(line(
                &format!("{} ({})", peer.peer, peer.note),
                us,
                format!("{:.3}", us / r.median_us),
            ))?;
        }
    }
    let bytes = out.into_inner().map_err(|e| Failure::Error(format!("csv: {e}")))?;
    output::print(String::from_utf8_lossy(&bytes).trim_end())
}
