//! The `kernels` command, over whatever kernels the binary links: never on the facade, so that anyone
//! gives it to a binary with their own backends.

mod bench;
mod cache;
mod check;
mod doctor;
mod explain;
mod generate;
mod list;
mod metrics;
mod new_backend;
mod output;
mod peers;
mod which;

pub use metrics::prometheus;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Kernels of this binary: which run where, why not, whether they are right, how fast they are.
#[derive(Parser)]
#[command(name = "kernels", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Devices, linked backends, and ops without a usable kernel, with what to do
    Doctor(doctor::Args),
    /// Every op with the backends that implement it
    List(list::Args),
    /// Which kernel would run an op, who decided, and why no other
    Explain(explain::Args),
    /// Parity of every usable kernel with the reference
    Check(check::Args),
    /// Time of every usable kernel, checked first
    Bench(bench::Args),
    /// A crate for a backend of your own, with a device, a kernel and its tests
    NewBackend(new_backend::Args),
    /// Compiled GPU kernels on disk
    Cache(cache::Args),
    /// Text from a GGUF model
    Generate(generate::Args),
    /// The tokens of a text, by a model's own vocabulary, as JSON
    Tokens(generate::TokensArgs),
    /// The same as generate, on a tiny seeded model made in memory
    Demo(generate::DemoArgs),
}

/// A command's failure: an error to print, or a verdict that was printed already.
enum Failure {
    Error(String),
    Verdict,
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(&format!("\n  cause: {cause}"));
            source = cause.source();
        }
        Failure::Error(text)
    }
}

type Outcome = Result<(), Failure>;

/// Runs the command line of this process: exit code 0, 1 for a failure or a bad verdict, 2 for wrong usage.
pub fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Doctor(args) => doctor::run(&args),
        Command::List(args) => list::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::NewBackend(args) => new_backend::run(&args),
        Command::Cache(args) => cache::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Tokens(args) => generate::tokens(&args),
        Command::Demo(args) => generate::demo(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Verdict) => ExitCode::FAILURE,
        Err(Failure::Error(text)) => {
            eprintln!("error: {text}");
            ExitCode::FAILURE
        }
    }
}
