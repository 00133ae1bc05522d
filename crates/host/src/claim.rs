//! What one daemon in a network namespace holds and a second one finds: an abstract socket's name.
//!
//! Anybody may bind such a name, so it counts only if its holder is root or runs as the same user as we do: others cannot keep us
//! from starting.

use crate::routes::{HEADER, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, attributes, messages, u32_at};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, getsockopt, recv, sendto, socket,
    sockopt::PeerCredentials,
};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

/// The claim of this process; it ends with it.
#[derive(Debug)]
pub struct Claim {
    _name: Option<UnixListener>,
    /// What to log about it.
    pub remark: Option<String>,
}

/// Why there is none.
#[derive(Debug)]
pub enum Unclaimed {
    /// This process has it; 0 if it is in a process namespace that we do not see, or cannot be asked for.
    Held(i32),
    /// The system refused the socket.
    System(io::Error),
}

/// How long a name may outlive its process, and how often it is looked for: a program that the process was just starting when it was killed has
/// a copy of all its files until it runs.
const OUTLIVES_MAX: u32 = 250;
/// The same while the process is there: one that was killed a moment ago ends within this.
const ENDING_MAX: u32 = 25;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Claims `name` in this network namespace.
#[expect(
    clippy::disallowed_methods,
    reason = "a start has nothing else to do, and there is no event for another process's files"
)]
pub fn claim(name: &str) -> Result<Claim, Unclaimed> {
    for look in 0..OUTLIVES_MAX {
        match claim_now(name) {
            // One that is killed ends a little later.
            Err(Unclaimed::Held(process)) if process > 0 && (look < ENDING_MAX || has_ended(process)) => {
                std::thread::sleep(LOOK_EVERY);
            }
            done => return done,
        }
    }
    claim_now(name)
}

fn has_ended(process: i32) -> bool {
    // proc_pid_stat(5): the state follows the name, which may hold anything.
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_none_or(|rest| matches!(rest.trim_start().chars().next(), None | Some('Z' | 'X')))
}

fn claim_now(name: &str) -> Result<Claim, Unclaimed> {
    let address = SocketAddr::from_abstract_name(name).map_err(Unclaimed::System)?;
    match UnixListener::bind_addr(&address) {
        Ok(listener) => Ok(Claim { _name: Some(listener), remark: None }),
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => match holder(name) {
            Some((process, user)) if user == 0 || user == crate::user_id() => Err(Unclaimed::Held(process)),
            found => {
                let who = found.map_or("a process that does not listen".into(), |(process, user)| {
                    format!("process {process} of user {user}")
                });
                let remark = format!(
                    "warning: {who} has taken the name @{name}, by which two daemons would find each other; it is ignored: end that process"
                );
                Ok(Claim { _name: None, remark: Some(remark) })
            }
        },
        Err(e) => Err(Unclaimed::System(e)),
    }
}

/// Process and user that listen at `name`, if any does. The process is 0 if it lets in no more callers: anybody can call it, and it
/// answers nobody.
fn holder(name: &str) -> Option<(i32, u32)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.cloexec().nonblocking(), None).ok()?;
    match socket.connect(&SockAddr::unix(format!("\0{name}")).ok()?) {
        Ok(()) => {
            let peer = getsockopt(&socket, PeerCredentials).ok()?;
            Some((peer.pid(), peer.uid()))
        }
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Some((0, listener(name)?)),
        Err(_) => None,
    }
}

// linux/sock_diag.h, linux/unix_diag.h, net/tcp_states.h
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const UDIAG_SHOW: u32 = 0x01 | 0x40;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_UID: u16 = 7;
const LISTENING: u32 = 1 << 10;
const DIAG_REQUEST: usize = 24;
const DIAG_MESSAGE: usize = 16;

/// The user who listens at an abstract name, as the kernel lists it (Linux 5.3 and later).
fn listener(name: &str) -> Option<u32> {
    let fd =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkSockDiag).ok()?;
    let mut ask = Vec::new();
    ask.extend(((HEADER + DIAG_REQUEST) as u32).to_ne_bytes());
    ask.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    ask.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    ask.extend([0; 8]);
    ask.extend([libc::AF_UNIX as u8, 0, 0, 0]);
    for word in [LISTENING, 0, UDIAG_SHOW, 0, 0] {
        ask.extend(word.to_ne_bytes());
    }
    sendto(fd.as_raw_fd(), &ask, &NetlinkAddr::new(0, 0), MsgFlags::empty()).ok()?;
    let mut buf = vec![0; 64 << 10];
    let mut found = None;
    loop {
        let n = match recv(fd.as_raw_fd(), &mut buf, MsgFlags::empty()) {
            Ok(n) => n,
            Err(nix::errno::Errno::EINTR) => continue,
            Err(_) => return None,
        };
        for (kind, _, body) in messages(&buf[..n]) {
            if matches!(kind, NLMSG_DONE | NLMSG_ERROR) {
                return found;
            }
            let of = |wanted| attributes(body.get(DIAG_MESSAGE..).unwrap_or(&[])).find(|(kind, _)| *kind == wanted);
            if of(UNIX_DIAG_NAME).is_some_and(|(_, value)| value.strip_prefix(b"\0") == Some(name.as_bytes())) {
                found = of(UNIX_DIAG_UID).and_then(|(_, value)| u32_at(value, 0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    /// More callers than fit a queue (net.core.somaxconn).
    const QUEUE_SOUGHT: usize = 10_000;

    #[test]
    fn only_root_and_we_ourselves_hold_a_name() {
        let name = format!("wavelane-claim-test-{}", std::process::id());
        let first = claim(&name).unwrap();
        assert!(first.remark.is_none());
        assert!(matches!(claim(&name), Err(Unclaimed::Held(process)) if process == std::process::id().cast_signed()));
        // Nor do callers hide it who fill its queue.
        let address = SockAddr::unix(format!("\0{name}")).unwrap();
        let call = || {
            let caller = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None).unwrap();
            caller.connect(&address).map(|()| caller)
        };
        let _ = crate::caps::raise_file_limit();
        let callers: Vec<Socket> = (0..QUEUE_SOUGHT).map_while(|_| call().ok()).collect();
        assert!(call().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock), "{} callers", callers.len());
        assert!(matches!(claim(&name), Err(Unclaimed::Held(0))));
        drop(callers);
        drop(first);
        // One that does not listen is nobody whose credentials could be asked for.
        let squatter = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        squatter.bind(&SockAddr::unix(format!("\0{name}")).unwrap()).unwrap();
        assert!(claim(&name).unwrap().remark.is_some_and(|remark| remark.contains("ignored")));
    }

    /// As when a daemon is killed while it starts a program, and is started again at once.
    #[test]
    fn a_name_that_outlives_its_process_is_awaited() {
        let name = format!("wavelane-claim-outlived-{}", std::process::id());
        // One process listens and ends; its child has the socket for some time longer.
        let script = format!(
            "import os, socket, time\ns = socket.socket(socket.AF_UNIX)\ns.bind('\\0{name}')\ns.listen()\nif os.fork() == 0:\n os.close(1)\n os.close(2)\n time.sleep(2)\n"
        );
        if std::process::Command::new("python3").arg("-V").output().is_err() {
            return eprintln!("SKIPPED (1 test): outlived needs python3");
        }
        let ended = std::process::Command::new("python3").args(["-c", &script]).output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        // real time: 2 s
        assert!(matches!(claim_now(&name), Err(Unclaimed::Held(_))));
        assert!(claim(&name).unwrap().remark.is_none());
    }
}
