//! Firewall rules that are removed with the process: one long-lived `nft -i` child owns our table.
//!
//! A table with `flags owner` belongs to the netlink socket that created it. The child holds that socket, and its standard input is our
//! pipe: however we end, the child reads the end of file and exits, and the kernel removes the table.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Output, Stdio};

/// Time limit for one answer of nft, in milliseconds.
const PATIENCE_MS: u16 = 5_000;
/// Maximum text read of one answer.
const ANSWER_MAX: usize = 1 << 20;

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

fn start_error(tool: &str, source: io::Error) -> ToolError {
    match source.kind() {
        io::ErrorKind::NotFound => ToolError::Missing { tool: tool.into(), package: package(tool) },
        _ => ToolError::Io { tool: tool.into(), source },
    }
}

/// A tool's message on one line.
fn one_line(text: &str) -> String {
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.bytes().all(|b| b == b'^')).collect();
    lines.join("; ").chars().take(300).collect()
}

/// Runs `tool` with `arguments`, feeds it `input`, and returns what it printed; an error if it fails.
pub fn run(tool: &str, arguments: &[&str], input: &str) -> Result<String, ToolError> {
    let failed = |source| ToolError::Io { tool: tool.into(), source };
    let mut command = Command::new(tool);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| start_error(tool, e))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that exits before it has read everything gives the reason on its standard error.
        let _ = stdin.write_all(input.as_bytes());
    }
    let Output { status, stdout, stderr } = child.wait_with_output().map_err(failed)?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let said = one_line(&String::from_utf8_lossy(&stderr));
    Err(ToolError::Refused { tool: tool.into(), said: if said.is_empty() { status.to_string() } else { said } })
}

/// The child that owns our table.
#[derive(Debug)]
pub struct NftOwner {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl NftOwner {
    /// Starts the child and loads `ruleset` through it, which creates `chain` (such as `inet wavelane loaded`) among others.
    pub fn load(ruleset: &str, chain: &str) -> Result<Self, ToolError> {
        let mut command = Command::new("nft");
        // Its own process group, so that Ctrl-C reaches only us and we remove things in order.
        command.arg("-i").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|e| start_error("nft", e))?;
        let stdin = child.stdin.take();
        let mut owner = Self { child, stdin };
        owner.execute(ruleset, chain)?;
        Ok(owner)
    }
    /// Makes the child execute `ruleset` as one transaction, which creates `chain`, whose name is new each time.
    pub fn execute(&mut self, ruleset: &str, chain: &str) -> Result<(), ToolError> {
        // One line is one transaction. The listing after it shows whether it succeeded.
        let line = ruleset.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        let text = format!("{line}\nlist chain {chain}\n");
        let written = self.stdin.as_mut().map_or(Ok(()), |s| s.write_all(text.as_bytes()).and_then(|()| s.flush()));
        let name = chain.rsplit(' ').next().unwrap_or(chain);
        match (written, self.answer(&format!("chain {name} {{"))) {
            (_, Err(said)) => Err(ToolError::Refused { tool: "nft".into(), said }),
            (Err(source), _) => Err(ToolError::Io { tool: "nft".into(), source }),
            (Ok(()), Ok(())) => Ok(()),
        }
    }
    /// Whether the child has ended, and the table with it.
    pub fn is_gone(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
    /// Reads until the listing shows `wanted`, or until nft reports an error, ends or exceeds the time limit.
    fn answer(&mut self, wanted: &str) -> Result<(), String> {
        let (mut said, mut complaint) = (String::new(), String::new());
        let (Some(out), Some(err)) = (&mut self.child.stdout, &mut self.child.stderr) else {
            return Err("it has no output".into());
        };
        let mut buf = [0; 4096];
        while said.len() + complaint.len() < ANSWER_MAX {
            let mut fds = [PollFd::new(err.as_fd(), PollFlags::POLLIN), PollFd::new(out.as_fd(), PollFlags::POLLIN)];
            let ready = poll(&mut fds, PollTimeout::from(PATIENCE_MS)).unwrap_or(0);
            let [from_err, from_out] = fds.map(|f| f.any().unwrap_or(false));
            if ready == 0 {
                return Err("it gave no answer in time".into());
            }
            if from_err {
                let n = err.read(&mut buf).unwrap_or(0);
                complaint.push_str(&String::from_utf8_lossy(&buf[..n]));
                if n == 0 || complaint.contains("rror") && complaint.ends_with('\n') {
                    let said = one_line(&complaint);
                    return Err(if said.is_empty() { "it ended at once".into() } else { said });
                }
            } else if from_out {
                let n = out.read(&mut buf).unwrap_or(0);
                said.push_str(&String::from_utf8_lossy(&buf[..n]));
                if n == 0 {
                    // Its last message comes on the other pipe; read it before giving up.
                    let _ = err.read_to_string(&mut complaint);
                    let said = one_line(&complaint);
                    return Err(if said.is_empty() { "it ended at once".into() } else { said });
                }
                if said.lines().any(|l| l.trim_start_matches("nft> ").trim_start().starts_with(wanted)) {
                    return Ok(());
                }
            }
        }
        Err("its answer has no end".into())
    }
}

impl Drop for NftOwner {
    /// Ends the child, and with it the table, before returning.
    fn drop(&mut self) {
        self.stdin.take();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
