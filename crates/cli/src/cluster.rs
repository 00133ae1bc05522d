//! `wavelane sweep --on-cluster`: hands the combinations, a line each, to a program that submits them to the cluster, and waits for
//! its word on each.

use crate::Failure;
use crate::progress::Meter;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use wavelane_run::{Count, Shard};

/// How often Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// How long the program may take to cancel its tasks on the cluster.
const GRACE: Duration = Duration::from_millis(800);

/// What the program says on a line.
enum Said {
    Done,
    Failed(String),
}

impl Said {
    fn read(line: &str) -> Option<Self> {
        let said: Value = serde_json::from_str(line).ok()?;
        match said.get("failed").and_then(Value::as_str) {
            Some(why) => Some(Self::Failed(why.to_owned())),
            None => said.get("done").map(|_| Self::Done),
        }
    }
}

/// The lines that say something, until the program ends. What else its libraries print is none of ours.
fn listen(from: impl std::io::Read, to: &Sender<Said>) {
    for line in BufReader::new(from).lines().map_while(Result::ok) {
        if Said::read(&line).is_some_and(|said| to.send(said).is_err()) {
            return;
        }
    }
}

/// Waits for the end of the program, then ends it.
fn end(mut child: Child) {
    // Its input ends: it takes the tasks back from the cluster.
    drop(child.stdin.take());
    let mut waited = Duration::ZERO;
    while waited < GRACE && matches!(child.try_wait(), Ok(None)) {
        std::thread::park_timeout(LOOK);
        waited += LOOK;
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Has the cluster at `address` run `shards`, which come back as Records in their places. `of` counts the cells of the sweep.
pub(crate) fn run(
    python: &Path,
    address: &str,
    shards: &[Shard],
    of: usize,
    meter: &Meter,
    cancelled: &AtomicBool,
) -> Result<(), Failure> {
    if shards.is_empty() {
        return Ok(());
    }
    let name = python.display();
    let mut child = Command::new(python)
        .args(["-m", "wavelane.cluster", address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| Failure::refused(format!("cannot start {name}: {e}; name a Python with --python")))?;
    let (said, saying) = channel();
    if let Some(stdout) = child.stdout.take() {
        std::thread::spawn(move || listen(stdout, &said));
    }
    let lines: String = shards.iter().map(|s| serde_json::to_string(s).unwrap_or_default() + "\n").collect();
    // It reads all before it says anything; if it ended instead, its end is told below.
    if let Some(stdin) = &mut child.stdin {
        let _ = stdin.write_all((lines + "\n").as_bytes()).and_then(|()| stdin.flush());
    }
    let mut done = 0;
    let tell = |done: usize| {
        let share = done as f64 / shards.len() as f64;
        meter.count(&Count { what: "combinations", done: of - shards.len() + done, of, share });
    };
    tell(0);
    let outcome = loop {
        if cancelled.load(Ordering::Relaxed) {
            break Err(Failure::interrupted("cancelled; the same command goes on with what is there"));
        }
        match saying.recv_timeout(LOOK) {
            Ok(Said::Done) => {
                done += 1;
                tell(done);
            }
            Ok(Said::Failed(why)) => break Err(Failure::refused(format!("{address}: {why}"))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if done == shards.len() => break Ok(()),
            // Ctrl-C reaches it too, and may be seen there first.
            Err(RecvTimeoutError::Disconnected) if child.wait().is_ok_and(|s| s.code() == Some(130)) => {
                break Err(Failure::interrupted("cancelled; the same command goes on with what is there"));
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
                let remedy = "is the package installed there? pip install './python[cluster]'";
                break Err(Failure::refused(format!("{name} -m wavelane.cluster ended with {status}; {remedy}")));
            }
        }
    };
    end(child);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_lines_are_ignored() {
        let (said, saying) = channel();
        listen("a remark\n{\"done\": 3}\n{\"other\": 1}\n{\"failed\": \"no\"}\n".as_bytes(), &said);
        drop(said);
        let all: Vec<Said> = saying.iter().collect();
        assert!(matches!(&all[..], [Said::Done, Said::Failed(why)] if why == "no"));
    }
}
