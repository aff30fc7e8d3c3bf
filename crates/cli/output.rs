//! Tables, JSON and progress bars.

use crate::Outcome;
use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::io::Write;

/// Prints a value as JSON.
pub fn json(value: &impl Serialize) -> Outcome {
    print(&serde_json::to_string_pretty(value)?)
}

/// Prints text and a newline; a reader that has gone away (`| head`) is no error.
pub fn print(text: &str) -> Outcome {
    match writeln!(std::io::stdout(), "{text}") {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}

/// A plain table with a header.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

/// A progress bar on standard error; nothing where that is not a terminal.
pub fn progress() -> impl FnMut(usize, usize, &str) {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}");
    let bar = ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    move |done, all, what| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        bar.set_message(what.to_string());
        if done == all {
            bar.finish_and_clear();
        }
    }
}
