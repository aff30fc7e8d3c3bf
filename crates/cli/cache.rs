//! `kernels cache`

use crate::{Failure, Outcome, output};
use kernels_gpu::cache::{Cache, FOLDER_VARIABLE, LIMIT_VARIABLE};
use serde_json::json;
use std::time::SystemTime;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// What is in it
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove all of it; kernels are compiled again when they are needed
    Clear,
}

pub fn run(args: &Args) -> Outcome {
    let cache = Cache::of_user().map_err(Failure::Error)?;
    let at = cache.folder().display();
    let fail = |e| {
        Failure::Error(format!("{at}: {e}\n  fix: check the folder, or set {FOLDER_VARIABLE} to another"))
    };
    match args.what {
        What::Clear => {
            let (files, bytes) = cache.clear().map_err(fail)?;
            output::print(&format!("removed {files} kernels, {} KiB, from {at}", bytes >> 10))
        }
        What::List { json } => {
            let files = cache.list().map_err(fail)?;
            let age = |used: SystemTime| used.elapsed().map_or(0, |d| d.as_secs());
            let bytes: u64 = files.iter().map(|f| f.bytes).sum();
            if json {
                let all: Vec<_> = files
                    .iter()
                    .map(|f| {
                        json!({
                            "kernel": f.entry.stem, "arch": f.entry.arch, "compiler": f.entry.compiler,
                            "bytes": f.bytes, "used_seconds_ago": age(f.used), "path": f.path,
                        })
                    })
                    .collect();
                return output::json(
                    &json!({ "folder": cache.folder(), "bytes": bytes, "limit_bytes": cache.limit(), "kernels": all }),
                );
            }
            let mut table = output::table(&["kernel", "arch", "compiler", "KiB", "last used"]);
            for f in &files {
                let ago = match age(f.used) {
                    s @ 0..120 => format!("{s} s ago"),
                    s @ 120..7200 => format!("{} min ago", s / 60),
                    s @ 7200..172_800 => format!("{} h ago", s / 3600),
                    s => format!("{} days ago", s / 86400),
                };
                let kib = (f.bytes >> 10).to_string();
                table.add_row([
                    f.entry.stem.clone(),
                    f.entry.arch.clone(),
                    f.entry.compiler.clone(),
                    kib,
                    ago,
                ]);
            }
            if !files.is_empty() {
                output::print(&table.to_string())?;
            }
            output::print(&format!(
                "{} kernels, {} KiB of at most {} MiB, in {at} ({FOLDER_VARIABLE} names another folder, {LIMIT_VARIABLE} \
                 another bound)",
                files.len(),
                bytes >> 10,
                cache.limit() >> 20
            ))
        }
    }
}
