//! `kernels generate` and `kernels demo`
use crate::Outcome;
#[derive(clap::Args)]
pub struct Args {}
#[derive(clap::Args)]
pub struct DemoArgs {}
pub fn run(_: &Args) -> Outcome { Ok(()) }
pub fn demo(_: &DemoArgs) -> Outcome { Ok(()) }
