//! Programs that run beside the traffic for the whole run: started in a namespace, monitored, and ended in order.

use crate::LabError;
use crate::sockets::rest_until;
use crate::tools::TICKS_PER_SECOND;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use wavelane_base::Span;
use wavelane_host::netns::{ChildEnd, Netns, terminate, terminate_group};
use wavelane_host::realtime;

/// Time limit for a program to exit after SIGTERM.
const END_WITHIN: Span = Span::from_secs(5);
/// Polling interval while waiting for a state.
pub(crate) const GLANCE: Span = Span::from_millis(100);
/// Signal number of SIGTERM (signal(7)).
const SIGTERM: i32 = 15;

/// How a healthy program ends on SIGTERM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// It handles the signal, cleans up and exits with 0.
    Exits,
    /// It has no handler, so the signal itself ends it.
    BySignal,
}

/// A running program. [`end`] stops it; the kernel kills it if its owner dies.
pub(crate) struct Program {
    name: String,
    child: Child,
    log: PathBuf,
    ending: Ending,
}

impl Program {
    /// Starts `command` inside `ns` with its output in the file `log`. `name` is for messages, such as `gateway a`.
    pub(crate) fn start(
        ns: &Netns,
        name: String,
        mut command: Command,
        log: PathBuf,
        ending: Ending,
        remedy: &'static str,
    ) -> Result<Self, LabError> {
        let cannot = || {
            LabError::io(format!(
                "cannot write {}; use --out with a writable folder that has free space",
                log.display()
            ))
        };
        let file = File::create(&log).map_err(cannot())?;
        let twin = file.try_clone().map_err(cannot())?;
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(file).stderr(twin);
        let child = ns.spawn(command, ChildEnd::Terminate)?;
        let child = child.map_err(|error| LabError::Program { program, error, remedy })?;
        Ok(Self { name, child, log, ending })
    }

    /// The name it was given.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Fails if the program has exited, with its last output line.
    pub(crate) fn check(&mut self) -> Result<(), LabError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(LabError::Failed {
                program: self.name.clone(),
                said: format!("ended with {status}: {}", self.last_line()),
            }),
            Err(error) => Err(LabError::Io { what: format!("cannot ask for the state of {}", self.name), error }),
        }
    }

    /// Whether it is still running; fails if it exited with an error.
    pub(crate) fn running(&mut self) -> Result<bool, LabError> {
        match self.child.try_wait() {
            Ok(Some(status)) if status.success() => Ok(false),
            _ => self.check().map(|()| true),
        }
    }

    /// Asks it and whatever it has started to exit.
    pub(crate) fn terminate_all(&self) {
        // A group that has already ended needs no signal.
        let _ = terminate_group(&self.child);
    }

    /// Its last output line.
    pub(crate) fn last_line(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("(its log is empty)").to_owned()
    }

    /// Whether its output has this text.
    pub(crate) fn has_said(&self, text: &str) -> bool {
        std::fs::read_to_string(&self.log).is_ok_and(|log| log.contains(text))
    }

    /// User and system time so far, in seconds (proc(5), fields 14 and 15 of stat).
    pub(crate) fn cpu_seconds(&self) -> Option<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        // The name in parentheses may contain spaces; the state, field 3, follows it.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        Some(ticks as f64 / TICKS_PER_SECOND)
    }

    /// Its resident memory, in bytes.
    pub(crate) fn resident(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
    }

    /// How long its threads have waited for a processor so far, in seconds: runnable while others ran (the second figure of schedstat, in
    /// ns; Linux's Documentation/scheduler/sched-stats.rst).
    pub(crate) fn waited_seconds(&self) -> Option<f64> {
        let mut waited = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?.flatten() {
            // A thread that has just ended has no file.
            let Ok(stat) = std::fs::read_to_string(task.path().join("schedstat")) else { continue };
            waited += stat.split_whitespace().nth(1)?.parse::<u64>().ok()?;
        }
        Some(waited as f64 / 1e9)
    }

    fn ended_well(&self, status: ExitStatus) -> bool {
        status.success() || (self.ending == Ending::BySignal && status.signal() == Some(SIGTERM))
    }
}

/// Asks all programs to exit, waits, and kills those that do not. Returns what went wrong.
pub(crate) fn end(programs: Vec<Program>) -> Vec<String> {
    let mut notes = Vec::new();
    for program in &programs {
        // A program that has already exited needs no signal.
        let _ = terminate(&program.child);
    }
    let deadline = realtime::now() + END_WITHIN;
    for mut program in programs {
        let status = loop {
            match program.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if realtime::now() < deadline => {
                    rest_until(realtime::now() + Span::from_millis(10), || false);
                }
                _ => break None,
            }
        };
        match status {
            Some(status) if program.ended_well(status) => {}
            Some(status) => notes.push(format!("{} ended with {status}", program.name)),
            None => {
                notes.push(format!("{} ignored SIGTERM for {END_WITHIN} and was killed", program.name));
                // It may exit by itself at this moment.
                let _ = program.child.kill();
                let _ = program.child.wait();
            }
        }
    }
    notes
}

/// The folder `logs` under `out`, created if necessary.
pub(crate) fn logs(out: &Path) -> Result<PathBuf, LabError> {
    let logs = out.join("logs");
    std::fs::create_dir_all(&logs)
        .map_err(LabError::io(format!("cannot make {}; choose another --out", logs.display())))?;
    Ok(logs)
}
