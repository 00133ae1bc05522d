//! `--on-cluster` of sweeps and studies: hands the work, a line for each piece, to a program that submits it to the cluster, and waits for
//! its word on each.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use wavelane_base::text::ShownPath;
use wavelane_run::RunError;

/// How often Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// How long the program may take to cancel its tasks on the cluster.
const GRACE: Duration = Duration::from_millis(800);
/// The same where it takes jobs back from a batch system too, which is asked by a command.
const GRACE_JOBS: Duration = Duration::from_secs(10);
/// Most octets of a line of the program's complaints.
const COMPLAINT_MAX: u64 = 1_000;
/// How such an address begins.
const JOBS: &str = "slurm://";

/// Where the cluster is, and the program that speaks to it.
pub(crate) struct Cluster {
    /// The Python that its client runs in.
    pub(crate) python: PathBuf,
    /// Its scheduler's address.
    pub(crate) address: String,
}

/// What the program says on a line.
enum Said {
    /// A piece is done; what came out, unless that is in its place.
    Done(usize, Vec<Value>),
    Failed(String),
}

impl Said {
    fn read(line: &str) -> Option<Self> {
        let mut said: Value = match serde_json::from_str(line) {
            Ok(said) => said,
            // Its own words are of this form; results in it that are no JSON came from a worker.
            Err(error) if line.starts_with("{\"done\": ") => {
                return Some(Self::Failed(format!("a worker sent results that are not JSON as we read it: {error}")));
            }
            Err(_) => return None,
        };
        if let Some(why) = said.get("failed").and_then(Value::as_str) {
            return Some(Self::Failed(why.to_owned()));
        }
        let number = usize::try_from(said.get("done")?.as_u64()?).ok()?;
        let results = said.get_mut("results").map(Value::take);
        Some(Self::Done(number, results.and_then(|r| serde_json::from_value(r).ok()).unwrap_or_default()))
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

/// What it and its libraries complain of, which may be a worker's words.
fn pass_on(from: impl std::io::Read, show: impl Fn(&str)) {
    let mut lines = BufReader::new(from);
    let mut line = Vec::new();
    while lines.by_ref().take(COMPLAINT_MAX).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line);
        show(&wavelane_base::text::line(text.trim_end(), COMPLAINT_MAX as usize));
        line.clear();
    }
}

/// Waits for the end of the program, then ends it.
fn end(mut child: Child, grace: Duration) {
    // Its input ends: it takes the tasks back from the cluster.
    drop(child.stdin.take());
    let mut waited = Duration::ZERO;
    while waited < grace && matches!(child.try_wait(), Ok(None)) {
        std::thread::park_timeout(LOOK);
        waited += LOOK;
    }
    let _ = child.kill();
    let _ = child.wait();
}

impl Cluster {
    /// Has the cluster do `pieces`, each a JSON object, and `done` take the number and the results of each, in any order.
    pub(crate) fn run(
        &self,
        pieces: &[String],
        cancelled: &AtomicBool,
        done: &mut dyn FnMut(usize, Vec<Value>) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        if pieces.is_empty() {
            return Ok(());
        }
        let (name, address) = (self.python.shown(), &self.address);
        let refused = |why: String| Err(RunError::Refused(why));
        let mut child = Command::new(&self.python)
            .args(["-m", "wavelane.cluster", address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| RunError::Refused(format!("cannot start {name}: {e}; name a Python with --python")))?;
        let (said, saying) = channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || listen(stdout, &said));
        }
        if let Some(stderr) = child.stderr.take() {
            std::thread::spawn(move || pass_on(stderr, |line| say!("{line}")));
        }
        // It reads all before it says anything; if it ended instead, its end is told below.
        if let Some(stdin) = &mut child.stdin {
            let _ = stdin.write_all((pieces.join("\n") + "\n\n").as_bytes()).and_then(|()| stdin.flush());
        }
        let mut over = 0;
        let outcome = loop {
            if cancelled.load(Ordering::Relaxed) {
                break Err(RunError::Cancelled);
            }
            match saying.recv_timeout(LOOK) {
                Ok(Said::Done(number, results)) => {
                    over += 1;
                    if let Err(error) = done(number, results) {
                        break Err(error);
                    }
                }
                Ok(Said::Failed(why)) => break refused(format!("{address}: {why}")),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if over == pieces.len() => break Ok(()),
                // Ctrl-C reaches it too, and may be seen there first.
                Err(RecvTimeoutError::Disconnected) if child.wait().is_ok_and(|s| s.code() == Some(130)) => {
                    break Err(RunError::Cancelled);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
                    let extra = if address.starts_with(JOBS) { "slurm" } else { "cluster" };
                    let remedy = format!("is the package installed there? pip install './python[{extra}]'");
                    break refused(format!("{name} -m wavelane.cluster ended with {status}; {remedy}"));
                }
            }
        };
        end(child, if address.starts_with(JOBS) { GRACE_JOBS } else { GRACE });
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_move_no_cursor() {
        let shown = std::cell::RefCell::new(Vec::new());
        let lines = [b"a \x1b[2Jworker\r\n\xff\n".to_vec(), vec![b'x'; 2_500]].concat();
        pass_on(&lines[..], |line| shown.borrow_mut().push(line.to_owned()));
        let shown = shown.into_inner();
        assert!(shown.iter().all(|line| !line.contains('\u{1b}')), "{shown:?}");
        assert!(shown[0].ends_with("[2Jworker") && shown.len() == 5, "{shown:?}");
    }

    #[test]
    fn unknown_lines_are_ignored() {
        let (said, saying) = channel();
        let lines = [
            "a remark",
            r#"{"done": 3}"#,
            r#"{"done": 4, "results": [7, null]}"#,
            r#"{"other": 1}"#,
            r#"{"failed": "no"}"#,
        ];
        listen(lines.join("\n").as_bytes(), &said);
        drop(said);
        let all: Vec<Said> = saying.iter().collect();
        let [Said::Done(3, none), Said::Done(4, two), Said::Failed(why)] = &all[..] else { panic!("{}", all.len()) };
        let deep = format!(r#"{{"done": 5, "results": [{}{}]}}"#, "[".repeat(200), "]".repeat(200));
        for (line, cause) in
            [(r#"{"done": 5, "results": [NaN]}"#, "expected value"), (deep.as_str(), "recursion limit exceeded")]
        {
            let Some(Said::Failed(why)) = Said::read(line) else { panic!("{line}") };
            assert!(why.contains("not JSON") && why.contains(cause), "{why}");
        }
        assert!(none.is_empty() && two[..] == [7.into(), Value::Null] && why == "no");
    }
}
