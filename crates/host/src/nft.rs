//! Firewall rules that are removed with the process: one long-lived `nft -i` child owns our table.
//!
//! A table with `flags owner` belongs to the netlink socket that created it. The child holds that socket, and its standard input is our
//! pipe: however we end, the child reads the end of file and exits, and the kernel removes the table.

use crate::clock::since_boot;
use crate::tool::{END, await_end, one_line, start_error};
pub use crate::tool::{ToolError, run};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use wavelane_base::Span;

/// Time limit for one answer of nft, in milliseconds.
const PATIENCE_MS: u16 = 5_000;
const PATIENCE: Span = Span::from_millis(PATIENCE_MS as u64);
/// Maximum text read of one answer.
const ANSWER_MAX: usize = 1 << 20;

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
        let name = chain.rsplit(' ').next().unwrap_or(chain);
        match self.answer(text.as_bytes(), &format!("chain {name} {{")) {
            Err(None) => {
                // It hangs. Without it the table vanishes, and can be made anew by another child.
                let _ = self.child.kill();
                let _ = await_end(&mut self.child, since_boot() + END);
                Err(ToolError::Hung { tool: "nft".into(), limit: PATIENCE })
            }
            Err(Some(said)) => Err(ToolError::Refused { tool: "nft".into(), said }),
            Ok(()) => Ok(()),
        }
    }
    /// Whether the child has ended, and the table with it.
    pub fn is_gone(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
    /// Writes `text` and reads until the listing shows `wanted`, or until nft reports an error, ends or exceeds the time limit (`None`).
    fn answer(&mut self, mut text: &[u8], wanted: &str) -> Result<(), Option<String>> {
        let (mut said, mut complaint) = (String::new(), String::new());
        let (Some(into), Some(out), Some(err)) = (&mut self.stdin, &mut self.child.stdout, &mut self.child.stderr)
        else {
            return Err(Some("it has no output".into()));
        };
        let _ = fcntl(into.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
        let mut buf = [0; 4096];
        while said.len() + complaint.len() < ANSWER_MAX {
            let hears = |fd| PollFd::new(fd, PollFlags::POLLIN);
            let mut fds = [hears(err.as_fd()), hears(out.as_fd()), PollFd::new(into.as_fd(), PollFlags::POLLOUT)];
            let of_use = 2 + usize::from(!text.is_empty());
            match poll(&mut fds[..of_use], PollTimeout::from(PATIENCE_MS)) {
                Err(Errno::EINTR) => continue,
                Ok(ready) if ready > 0 => {}
                _ => return Err(None),
            }
            let [from_err, from_out, takes] = fds.map(|f| f.any().unwrap_or(false));
            if from_err {
                let n = err.read(&mut buf).unwrap_or(0);
                complaint.push_str(&String::from_utf8_lossy(&buf[..n]));
                if n == 0 || complaint.contains("rror") && complaint.ends_with('\n') {
                    let said = one_line(&complaint);
                    return Err(Some(if said.is_empty() { "it ended at once".into() } else { said }));
                }
            } else if from_out {
                let n = out.read(&mut buf).unwrap_or(0);
                said.push_str(&String::from_utf8_lossy(&buf[..n]));
                if n == 0 {
                    // Its last message comes on the other pipe; read it before giving up.
                    let _ = err.read_to_string(&mut complaint);
                    let said = one_line(&complaint);
                    return Err(Some(if said.is_empty() { "it ended at once".into() } else { said }));
                }
                if said.lines().any(|l| l.trim_start_matches("nft> ").trim_start().starts_with(wanted)) {
                    return Ok(());
                }
            } else if takes {
                // One that ends says why on the other pipe.
                match into.write(text) {
                    Ok(n) => text = &text[n..],
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    Err(e) => return Err(Some(e.to_string())),
                }
            }
        }
        Err(Some("its answer has no end".into()))
    }
}

impl Drop for NftOwner {
    /// Ends the child, and with it the table, before returning.
    fn drop(&mut self) {
        self.stdin.take();
        let _ = self.child.kill();
        let _ = await_end(&mut self.child, since_boot() + PATIENCE);
    }
}
