//! The system's tools (`ip`, `nft`, `iptables`, `tc`): run, fed and heard within a time limit, so that one that hangs keeps nobody waiting for ever.

use crate::clock::since_boot;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use wavelane_base::{Instant, Span};

/// Time limit for one run: longer than iptables waits for its lock (10 s).
const LIMIT: Span = Span::from_secs(12);
/// So much more input gives another second.
const INPUT_A_SECOND: usize = 64 << 10;
/// The limit for a tool that exceeded it last.
const LIMIT_AGAIN: Span = Span::from_secs(1);
/// It is not started again for so long: one change takes many runs.
const REST: Span = Span::from_secs(1);
/// How long the end of a process that was killed is waited for.
pub(crate) const END: Span = Span::from_millis(500);
/// Most killed processes that have not ended, as long as the kernel holds them; with more no other is started.
const UNENDED_MAX: usize = 8;
/// Between two looks whether a process ended that has closed its output.
const LOOK_MS: u16 = 1;

/// What is known of tools that hung.
struct Hung {
    /// Those that exceeded their limit last, and when.
    tools: BTreeMap<String, Instant>,
    unended: Vec<Child>,
}

impl Hung {
    /// Whether not too many processes are left that do not end.
    fn may_start(&mut self) -> bool {
        self.unended.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        self.unended.len() < UNENDED_MAX
    }
}

static HUNG: Mutex<Hung> = Mutex::new(Hung { tools: BTreeMap::new(), unended: Vec::new() });

/// Why a tool failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It is not installed.
    #[error("no `{tool}` in PATH: install {package}")]
    Missing {
        /// The program.
        tool: String,
        /// The Debian package that contains it.
        package: &'static str,
    },
    /// It reported an error.
    #[error("{tool} refused: {said}")]
    Refused {
        /// The program.
        tool: String,
        /// Its message, on one line.
        said: String,
    },
    /// It does not end.
    #[error(
        "{tool} gave no answer in {limit} and was killed: find out what it waits for (another that holds the kernel's lock, a driver)"
    )]
    Hung {
        /// The program.
        tool: String,
        /// The time that it had.
        limit: Span,
    },
    /// It could not be run.
    #[error("cannot run {tool}: {source}; check that it is executable")]
    Io {
        /// The program.
        tool: String,
        /// What the system said.
        source: io::Error,
    },
}

fn package(tool: &str) -> &'static str {
    match tool {
        "nft" => "nftables",
        "ip" | "tc" => "iproute2",
        _ => "iptables",
    }
}

pub(crate) fn start_error(tool: &str, source: io::Error) -> ToolError {
    match source.kind() {
        io::ErrorKind::NotFound => ToolError::Missing { tool: tool.into(), package: package(tool) },
        _ => ToolError::Io { tool: tool.into(), source },
    }
}

/// A tool's message on one line.
pub(crate) fn one_line(text: &str) -> String {
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.bytes().all(|b| b == b'^')).collect();
    lines.join("; ").chars().take(300).collect()
}

/// Runs `tool` with `arguments`, feeds it `input`, and returns what it printed; an error if it fails or does not end in time.
pub fn run(tool: &str, arguments: &[&str], input: &str) -> Result<String, ToolError> {
    let hung = || HUNG.lock().unwrap_or_else(PoisonError::into_inner);
    let last = hung().tools.get(tool).copied();
    let more = Span::from_secs((input.len() / INPUT_A_SECOND) as u64);
    let limit = last.map_or(LIMIT, |_| LIMIT_AGAIN) + more;
    if last.is_some_and(|last| since_boot().since(last) < REST) || !hung().may_start() {
        return Err(ToolError::Hung { tool: tool.into(), limit });
    }
    let failed = |source| ToolError::Io { tool: tool.into(), source };
    let mut command = Command::new(tool);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| start_error(tool, e))?;
    let mut pipes = Pipes { input: input.as_bytes(), ..Pipes::default() };
    let ended = pipes.attend(&mut child, since_boot() + limit);
    if !matches!(ended, Ok(Some(_))) {
        let _ = child.kill();
        if !matches!(await_end(&mut child, since_boot() + END), Ok(Some(_))) {
            hung().unended.push(child);
        }
    }
    let Some(status) = ended.map_err(failed)? else {
        hung().tools.insert(tool.into(), since_boot());
        return Err(ToolError::Hung { tool: tool.into(), limit });
    };
    hung().tools.remove(tool);
    if status.success() {
        return Ok(String::from_utf8_lossy(&pipes.output).into_owned());
    }
    let said = one_line(&String::from_utf8_lossy(&pipes.complaint));
    Err(ToolError::Refused { tool: tool.into(), said: if said.is_empty() { status.to_string() } else { said } })
}

/// How the process ended; `None` if it has not at the time `until`.
pub(crate) fn await_end(child: &mut Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        let ended = child.try_wait()?;
        if ended.is_some() || since_boot() >= until {
            return Ok(ended);
        }
        // Woken early is as good.
        let _ = poll(&mut [], LOOK_MS);
    }
}

/// What goes into a process and comes out of it.
#[derive(Default)]
struct Pipes<'a> {
    input: &'a [u8],
    output: Vec<u8>,
    complaint: Vec<u8>,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Pipes<'_> {
    /// Until the process has ended; `None` if it has not at the time `until`.
    fn attend(&mut self, child: &mut Child, until: Instant) -> io::Result<Option<ExitStatus>> {
        self.stdin = child.stdin.take();
        self.stdout = child.stdout.take();
        self.stderr = child.stderr.take();
        let fds = [self.stdin.as_ref().map(AsFd::as_fd), self.stdout.as_ref().map(AsFd::as_fd)];
        for fd in fds.into_iter().chain([self.stderr.as_ref().map(AsFd::as_fd)]).flatten() {
            fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        while self.stdout.is_some() || self.stderr.is_some() {
            if !self.wait(until)? {
                return Ok(None);
            }
            self.feed();
            hear(&mut self.stdout, &mut self.output);
            hear(&mut self.stderr, &mut self.complaint);
        }
        await_end(child, until)
    }
    /// Waits until one of the pipes is ready. Returns whether one is in time.
    fn wait(&self, until: Instant) -> io::Result<bool> {
        let left = until.since(since_boot());
        let left = PollTimeout::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(PollTimeout::MAX);
        let stdin = self.stdin.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLOUT));
        let stdout = self.stdout.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN));
        let stderr = self.stderr.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN));
        match poll(&mut stdin.chain(stdout).chain(stderr).collect::<Vec<PollFd<'_>>>(), left) {
            // Ready or not is seen at the pipes.
            Err(Errno::EINTR) => Ok(true),
            ready => Ok(ready? > 0),
        }
    }
    /// A tool that exits before it has read everything gives the reason on its standard error.
    fn feed(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        match stdin.write(self.input) {
            Ok(n) if n < self.input.len() => self.input = &self.input[n..],
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Ok(_) | Err(_) => self.stdin = None,
        }
    }
}

/// Reads what is there, and closes the pipe at its end.
fn hear<R: Read>(pipe: &mut Option<R>, into: &mut Vec<u8>) {
    let mut buf = [0; 16_384];
    match pipe.as_mut().map(|pipe| pipe.read(&mut buf)) {
        Some(Ok(n)) if n > 0 => into.extend_from_slice(&buf[..n]),
        Some(Err(e)) if e.kind() == io::ErrorKind::WouldBlock => {}
        _ => *pipe = None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn much_goes_through_both_ways_and_a_refusal_says_why() {
        let long = "a line that is fed and comes back\n".repeat(20_000);
        assert_eq!(run("cat", &[], &long).unwrap(), long);
        // It reads nothing.
        assert_eq!(run("true", &[], &long).unwrap(), "");
        let why = run("sh", &["-c", "echo no >&2; exit 3"], &long).unwrap_err().to_string();
        assert_eq!(why, "sh refused: no");
        assert!(matches!(run("no-such-tool", &[], ""), Err(ToolError::Missing { .. })));
    }

    // real time: 15 s, the limits themselves
    #[test]
    fn a_tool_that_hangs_is_killed_and_the_next_run_waits_less() {
        let hang = || matches!(run("sleep", &["1000"], ""), Err(ToolError::Hung { .. }));
        let until = |at: Instant| while since_boot() < at && poll(&mut [], 10_u16).is_ok() {};
        let began = since_boot();
        assert!(hang());
        let first = since_boot();
        assert!(first.since(began) >= LIMIT);
        assert!(hang() && since_boot().since(first) < REST, "not started");
        until(first + REST);
        // Also one whose child keeps the output open.
        HUNG.lock().unwrap().tools.insert("sh".into(), began);
        assert!(matches!(run("sh", &["-c", "sleep 3 & exit 0"], ""), Err(ToolError::Hung { .. })));
        assert!(hang() && since_boot().since(first) < LIMIT);
        until(since_boot() + REST);
        assert_eq!(run("sleep", &["0"], "").unwrap(), "");
        assert!(!HUNG.lock().unwrap().tools.contains_key("sleep"));
        assert!(HUNG.lock().unwrap().may_start() && HUNG.lock().unwrap().unended.is_empty(), "all have ended");
    }
}
