//! `kernels bench`

use crate::which::Which;
use crate::{Outcome, output};
use kernels_core::Registry;
use kernels_harness::{Filter, bench};

#[derive(clap::Args)]
pub struct Args {
    // The reference is timed only when named.
    #[command(flatten)]
    which: Which,
    /// Every usable variant of a backend, not only its best
    #[arg(long)]
    all_variants: bool,
    /// Host threads; by default one for each core
    #[arg(long)]
    threads: Option<usize>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let filter = Filter { all_variants: args.all_variants, ..args.which.filter(Registry::linked()?)? };
    if let Some(threads) = args.threads {
        kernels_core::Device::cpu().set_threads(threads);
    }
    let rows = bench(&filter, output::progress())?;
    if args.json {
        return output::json(&rows);
    }
    let mut table =
        output::table(&["op", "case", "kernel", "threads", "median µs", "GB/s", "GFLOP/s", "of roofline"]);
    for r in &rows {
        table.add_row([
            r.op.to_string(),
            r.case.clone(),
            r.kernel.clone(),
            r.threads.to_string(),
            format!("{:.2}", r.median_us),
            format!("{:.1}", r.gb_per_s),
            format!("{:.1}", r.gflop_per_s),
            format!("{:.0} %", 100.0 * r.share_of_roofline),
        ]);
    }
    output::print(&table.to_string())
}
