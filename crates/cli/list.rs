//! `kernels list`

use crate::which::Which;
use crate::{Outcome, output};
use kernels_core::{Backend, Registry, glob};
use serde::Serialize;
use std::fmt::Write as _;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Each kernel with its requirements, element types and origin
    #[arg(long)]
    kernels: bool,
    /// As JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// As a Markdown table
    #[arg(long)]
    markdown: bool,
}

#[derive(Serialize)]
struct Row {
    op: &'static str,
    summary: &'static str,
    kernels: Vec<KernelRow>,
}

#[derive(Serialize)]
struct KernelRow {
    id: String,
    backend: &'static str,
    variant: &'static str,
    requires: Vec<String>,
    dtypes: Vec<&'static str>,
    weights: Vec<&'static str>,
    priority: i32,
    experimental: bool,
    deterministic: bool,
    quantises_activations: bool,
    origin: String,
}

pub fn run(args: &Args) -> Outcome {
    let registry = Registry::linked()?;
    let filter = args.which.filter(registry)?;
    let mut rows: Vec<Row> = Vec::new();
    for op in registry.ops().filter(|o| filter.ops.as_ref().is_none_or(|g| glob(g, o.name))) {
        let mine = registry.specs().filter(|s| s.op == op.name);
        let kernels = mine.filter(|s| filter.backend.is_none_or(|b| s.backend == b)).map(|s| KernelRow {
            id: s.id(),
            backend: s.backend.0,
            variant: s.variant,
            requires: match s.requires {
                [] => vec![s.manifest.driver.kind().0.to_string()],
                some => some.iter().map(|r| r.to_string()).collect(),
            },
            dtypes: s.formats.dtypes.iter().map(|d| d.name()).collect(),
            weights: s.formats.weights.iter().map(|d| d.name()).collect(),
            priority: s.priority,
            experimental: s.experimental,
            deterministic: s.deterministic,
            quantises_activations: s.quantises_activations,
            origin: s.origin.to_string(),
        });
        rows.push(Row { op: op.name, summary: op.summary.trim(), kernels: kernels.collect() });
    }
    if args.json {
        return output::json(&rows);
    }
    if args.kernels {
        let mut table = output::table(&["kernel", "requires", "takes", "declared"]);
        for k in rows.iter().flat_map(|r| &r.kernels) {
            let weights =
                if k.weights.is_empty() { String::new() } else { format!(" with {}", k.weights.join(" ")) };
            let rounds = if k.quantises_activations { ", activations as int8" } else { "" };
            let experimental = if k.experimental { ", experimental" } else { "" };
            let takes = format!("{}{weights}{rounds}{experimental}", k.dtypes.join(" "));
            table.add_row([k.id.as_str(), &k.requires.join(" or "), &takes, &k.origin]);
        }
        return output::print(&table.to_string());
    }
    let shown: Vec<Backend> =
        registry.backends().into_iter().filter(|b| filter.backend.is_none_or(|n| *b == n)).collect();
    let cell = |row: &Row, backend: &Backend| {
        let mine = row.kernels.iter().filter(|k| k.backend == backend.0);
        let mut mine: Vec<_> = mine
            .map(|k| match (k.variant, k.experimental) {
                ("", false) => "yes".to_string(),
                ("", true) => "experimental".to_string(),
                (variant, false) => variant.to_string(),
                (variant, true) => format!("{variant} (experimental)"),
            })
            .collect();
        mine.dedup();
        if mine.is_empty() { "-".to_string() } else { mine.join(", ") }
    };
    if args.markdown {
        let names: Vec<_> = shown.iter().map(|b| format!(" {b} |")).collect();
        let mut text =
            format!("| op | what it does |{}\n|---|---|{}", names.concat(), "---|".repeat(shown.len()));
        for row in &rows {
            let cells: Vec<_> = shown.iter().map(|b| format!(" {} |", cell(row, b))).collect();
            let _ =
                write!(text, "\n| `{}` | {} |{}", row.op, row.summary.trim_end_matches('.'), cells.concat());
        }
        return output::print(&text);
    }
    let mut table =
        output::table(&[&["op"], shown.iter().map(|b| b.0).collect::<Vec<_>>().as_slice()].concat());
    for row in &rows {
        let mut cells = vec![row.op.to_string()];
        cells.extend(shown.iter().map(|b| cell(row, b)));
        table.add_row(cells);
    }
    output::print(&table.to_string())
}
