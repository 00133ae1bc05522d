//! A program that is started, and ended by Ctrl-C.

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Ends the program whatever happens to its waiter.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn all_of(stream: Option<impl Read>) -> Vec<u8> {
    let mut all = Vec::new();
    // What cannot be read was not printed.
    let _ = stream.map(|mut stream| stream.read_to_end(&mut all));
    all
}

/// What `command` prints until its end; nothing if the run is `cancelled`, which ends it.
pub(crate) fn output(command: &mut Command, cancelled: &AtomicBool) -> std::io::Result<Option<Output>> {
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut child = Guard(spawned);
    let (stdout, stderr) = (child.0.stdout.take(), child.0.stderr.take());
    std::thread::scope(|scope| {
        let (out, err) = (scope.spawn(|| all_of(stdout)), scope.spawn(|| all_of(stderr)));
        let status = loop {
            if cancelled.load(Ordering::Relaxed) {
                drop(child);
                return Ok(None);
            }
            match child.0.try_wait()? {
                Some(status) => break status,
                None => std::thread::park_timeout(LOOK),
            }
        };
        let [stdout, stderr] = [out, err].map(|reader| reader.join().unwrap_or_default());
        Ok(Some(Output { status, stdout, stderr }))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_programs_output_is_read_to_its_end() {
        let run = AtomicBool::new(false);
        let mut command = Command::new("sh");
        // More than a pipe holds, on both.
        let said = output(command.args(["-c", "yes | head -c 200000; yes | head -c 100000 >&2; exit 3"]), &run);
        let said = said.unwrap().unwrap();
        assert_eq!((said.stdout.len(), said.stderr.len(), said.status.code()), (200_000, 100_000, Some(3)));
    }

    #[test]
    fn a_cancelled_program_is_ended() {
        let stop = AtomicBool::new(true);
        assert!(output(Command::new("sleep").arg("1000"), &stop).unwrap().is_none());
        assert!(output(&mut Command::new("/nonexistent/program"), &stop).is_err());
    }
}
