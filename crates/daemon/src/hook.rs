//! The operator's program that is told of changes of peers and lanes, in a thread of its own: nothing waits for it.
//!
//! It runs for one change after another. While it runs, only the latest change of each peer and lane waits for it, so that what waits is
//! bounded by the configuration, and what is told last is how things stand.

use crate::log::Pen;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use wavelane_base::Span;
use wavelane_host::clock::since_boot;

/// How long one run of the program may take.
const PATIENCE: Span = Span::from_secs(10);
/// How often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(20);
/// Changes that wait at most, should more peers and lanes than these change while the program runs.
const WAITING_MAX: usize = 1_024;

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The peer's name.
    pub(crate) peer: String,
    /// The lane's; none if it is the peer itself.
    pub(crate) lane: Option<String>,
    /// Whether it answers now.
    pub(crate) up: bool,
}

impl Change {
    fn is_of_the_same(&self, other: &Self) -> bool {
        (&self.peer, &self.lane) == (&other.peer, &other.lane)
    }
    /// The program's arguments.
    fn words(&self) -> Vec<&str> {
        let kind = match (&self.lane, self.up) {
            (None, true) => "peer-up",
            (None, false) => "peer-down",
            (Some(_), true) => "lane-up",
            (Some(_), false) => "lane-down",
        };
        [kind, &self.peer].into_iter().chain(self.lane.as_deref()).collect()
    }
}

/// The changes that wait.
#[derive(Debug, Default)]
struct Waiting {
    changes: Mutex<VecDeque<Change>>,
    bell: Condvar,
}

/// Tells the program.
#[derive(Debug)]
pub(crate) struct Hook {
    waiting: Arc<Waiting>,
}

impl Hook {
    /// Tells `program`; what it does wrong is written with `pen`.
    pub(crate) fn start(program: &Path, pen: Pen) -> io::Result<Self> {
        let waiting: Arc<Waiting> = Arc::default();
        let (theirs, program) = (Arc::clone(&waiting), program.to_path_buf());
        std::thread::Builder::new().name("hook".into()).spawn(move || tell_all(&theirs, &program, &pen))?;
        Ok(Self { waiting })
    }
    /// Has the program told soon.
    pub(crate) fn tell(&self, change: Change) {
        let mut changes = self.waiting.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.retain(|other| !other.is_of_the_same(&change));
        if changes.len() < WAITING_MAX {
            changes.push_back(change);
        }
        self.waiting.bell.notify_one();
    }
}

/// The thread's whole life.
fn tell_all(waiting: &Waiting, program: &PathBuf, pen: &Pen) {
    let mut said = None;
    loop {
        let change = {
            let changes = waiting.changes.lock().unwrap_or_else(PoisonError::into_inner);
            let ringing = waiting.bell.wait_while(changes, |changes| changes.is_empty());
            ringing.unwrap_or_else(PoisonError::into_inner).pop_front()
        };
        let Some(change) = change else { continue };
        let fault = run(program, &change).err();
        // A program that always fails says so once.
        if fault.is_some() && fault != said {
            let (program, words, why) = (program.display(), change.words().join(" "), fault.as_deref().unwrap_or(""));
            pen.put(&format!("warning: gateway.hook: {program} {words}: {why}"));
        }
        said = fault;
    }
}

/// Runs the program for one change; why it did not do as it should.
fn run(program: &PathBuf, change: &Change) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(change.words()).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child =
        command.spawn().map_err(|e| format!("cannot be run ({e}): make it a file that this user may run"))?;
    let until = since_boot() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return judge(status),
            Ok(None) if since_boot() < until => rest(),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!(
                    "did not end within {} s and was killed: let it start what takes longer",
                    PATIENCE.as_secs_f64()
                ));
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread of its own, which nothing waits for")]
fn rest() {
    std::thread::sleep(LOOK);
}

fn judge(status: ExitStatus) -> Result<(), String> {
    if status.success() { Ok(()) } else { Err(format!("ended with {status}")) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn change(peer: &str, lane: Option<&str>, up: bool) -> Change {
        Change { peer: peer.into(), lane: lane.map(str::to_owned), up }
    }

    #[test]
    fn of_each_peer_and_lane_only_the_latest_change_waits() {
        let hook = Hook { waiting: Arc::default() };
        for up in [true, false, true, false] {
            hook.tell(change("b", None, up));
            hook.tell(change("b", Some("lane 2"), !up));
        }
        hook.tell(change("c", None, true));
        let waiting: Vec<Change> = hook.waiting.changes.lock().unwrap().iter().cloned().collect();
        let words: Vec<Vec<&str>> = waiting.iter().map(Change::words).collect();
        assert_eq!(words, [vec!["peer-down", "b"], vec!["lane-up", "b", "lane 2"], vec!["peer-up", "c"]]);
        (0..2 * WAITING_MAX).for_each(|n| hook.tell(change(&n.to_string(), None, true)));
        assert_eq!(hook.waiting.changes.lock().unwrap().len(), WAITING_MAX);
    }

    #[test]
    fn a_program_that_fails_or_is_missing_is_told_of() {
        assert_eq!(run(&"/bin/true".into(), &change("b", None, true)), Ok(()));
        assert!(run(&"/bin/false".into(), &change("b", None, true)).unwrap_err().contains("ended with"));
        assert!(run(&"/nonexistent".into(), &change("b", None, true)).unwrap_err().contains("cannot be run"));
    }
}
