//! `stand-in [--asan] [NAME=VALUE ..] COMMAND [ARG ..]`: runs a command on the stand-in GPU, settings without their
//! `STANDIN_` prefix: `cargo run -p kernels-standin -- SEED=7 target/debug/kernels check --backend nvrtc`.

use kernels_standin::StandIn;

fn main() {
    let mut stand_in = StandIn::both();
    let mut args = std::env::args().skip(1).peekable();
    while let Some(arg) = args.peek().cloned() {
        match arg.split_once('=') {
            _ if arg == "--asan" => stand_in = stand_in.sanitized(),
            Some((name, value)) if name.chars().all(|c| c.is_ascii_uppercase() || c == '_') => {
                stand_in = stand_in.set(name, value);
            }
            _ => break,
        }
        args.next();
    }
    let Some(program) = args.next() else {
        eprintln!("usage: stand-in [--asan] [NAME=VALUE ..] COMMAND [ARG ..]");
        std::process::exit(2);
    };
    match stand_in.command(&program).args(args).status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => {
            eprintln!("{program}: {error}");
            std::process::exit(127);
        }
    }
}
