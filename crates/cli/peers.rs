//! Peers as programs: each says its name in a line of JSON, then answers a line for each line. `scripts/peers` has some
//! and says what the lines are.
//!
//! A program stands still while it is not asked: the threads of many libraries spin for a while after a call, which would
//! halve the speed of whoever is timed next.

use kernels_harness::{Call, Peer};
use serde::Deserialize;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Starts every executable `peer-*` of a folder. Those that do not start, with their reason, are the second part.
pub fn start(folder: &Path) -> std::io::Result<(Vec<Box<dyn Peer>>, Vec<String>)> {
    let (mut peers, mut absent): (Vec<Box<dyn Peer>>, _) = (Vec::new(), Vec::new());
    let entries: Result<Vec<_>, _> = std::fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect();
    let mut programs = entries?;
    programs.retain(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("peer-")));
    programs.sort();
    for program in programs {
        match Program::start(&program) {
            Ok(peer) => peers.push(Box::new(peer)),
            Err(why) => absent.push(format!("{}: {why}", program.display())),
        }
    }
    Ok((peers, absent))
}

struct Program {
    name: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
struct Answer {
    peer: Option<String>,
    note: Option<String>,
    seconds: Option<f64>,
    error: Option<String>,
}

impl Program {
    fn start(path: &Path) -> Result<Program, String> {
        let mut child = Command::new(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("does not start: {e}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("has no input or output".into());
        };
        let mut program = Program { name: String::new(), child, input, output: BufReader::new(output) };
        let hello = program.hear()?;
        match (hello.peer, hello.error) {
            (Some(name), None) => program.name = name,
            (_, why) => return Err(why.unwrap_or_else(|| "does not say its name".into())),
        }
        Ok(program)
    }

    fn ask(&mut self, line: &serde_json::Value) -> Result<Answer, String> {
        self.stand_still(false);
        writeln!(self.input, "{line}")
            .and_then(|()| self.input.flush())
            .map_err(|e| format!("is gone: {e}"))?;
        let answer = self.hear();
        self.stand_still(true);
        answer
    }

    /// A program that cannot be stopped runs on.
    fn stand_still(&self, still: bool) {
        #[cfg(unix)]
        {
            use rustix::process::{Pid, Signal, kill_process};
            let signal = if still { Signal::STOP } else { Signal::CONT };
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
        #[cfg(not(unix))]
        let _ = still;
    }

    fn hear(&mut self) -> Result<Answer, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) | Err(_) => Err("ended".into()),
            Ok(_) => serde_json::from_str(&line).map_err(|e| format!("says {:?}: {e}", line.trim())),
        }
    }
}

impl Peer for Program {
    fn name(&self) -> &str {
        &self.name
    }

    fn prepare(&mut self, call: &Call) -> Result<Result<String, String>, String> {
        let answer = self.ask(&json!({ "call": call }))?;
        Ok(match answer.error {
            Some(why) => Err(why),
            None => Ok(answer.note.unwrap_or_default()),
        })
    }

    fn time(&mut self, seconds: f64) -> Result<f64, String> {
        let answer = self.ask(&json!({ "seconds": seconds }))?;
        answer.seconds.ok_or_else(|| answer.error.unwrap_or_else(|| "gives no time".into()))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Ended by the end of its input, if it listens.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
