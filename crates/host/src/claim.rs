//! What one daemon in a network namespace holds and a second one finds: an abstract socket's name.
//!
//! Anybody may bind such a name, so it counts only if its holder is root or runs as the same user as we do: others cannot keep us
//! from starting.

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

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
    /// This process has it; 0 if it is in a process namespace that we do not see.
    Held(i32),
    /// The system refused the socket.
    System(io::Error),
}

/// Claims `name` in this network namespace.
pub fn claim(name: &str) -> Result<Claim, Unclaimed> {
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

/// Process and user that listen at `name`, if any does and has room for a caller.
fn holder(name: &str) -> Option<(i32, u32)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.cloexec().nonblocking(), None).ok()?;
    socket.connect(&SockAddr::unix(format!("\0{name}")).ok()?).ok()?;
    let peer = getsockopt(&socket, PeerCredentials).ok()?;
    Some((peer.pid(), peer.uid()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn only_root_and_we_ourselves_hold_a_name() {
        let name = format!("wavelane-claim-test-{}", std::process::id());
        let first = claim(&name).unwrap();
        assert!(first.remark.is_none());
        assert!(matches!(claim(&name), Err(Unclaimed::Held(process)) if process == std::process::id().cast_signed()));
        drop(first);
        // One that does not listen is nobody whose credentials could be asked for.
        let squatter = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        squatter.bind(&SockAddr::unix(format!("\0{name}")).unwrap()).unwrap();
        assert!(claim(&name).unwrap().remark.is_some_and(|remark| remark.contains("ignored")));
    }
}
