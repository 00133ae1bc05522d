//! Notifications from the kernel that a network device or an address of this machine was added, removed or changed (rtnetlink(7)).

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, setsockopt, socket, sockopt,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR` and `RTMGRP_IPV6_IFADDR`: the notified changes.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;
/// Space for one message; the rest of a longer one is dropped, because its contents are not read.
const MESSAGE_ROOM: usize = 4_096;
/// Messages read at once; the rest wait for the next call.
const MESSAGES_MAX: usize = 256;
/// Space for waiting messages: the kernel reports an overflow as an error, which also signals a change.
const BUFFER: usize = 64 << 10;

/// The socket that receives them.
#[derive(Debug)]
pub struct LinkChanges {
    socket: OwnedFd,
}

impl LinkChanges {
    /// Listens in this network namespace.
    pub fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        setsockopt(&socket, sockopt::RcvBuf, &BUFFER)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
        Ok(Self { socket })
    }
    /// Reads all waiting messages. The caller must query the kernel's state: messages may have been lost.
    pub fn drain(&self) {
        let mut message = [0; MESSAGE_ROOM];
        for _ in 0..MESSAGES_MAX {
            match recv(self.socket.as_raw_fd(), &mut message, MsgFlags::MSG_DONTWAIT) {
                Ok(_) | Err(Errno::ENOBUFS | Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }
}

impl AsFd for LinkChanges {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::netns::{Netns, may_administer_network};
    use crate::poller::{Poller, Watch};
    use std::time::Duration;

    #[test]
    fn devices_and_addresses_are_told_of() {
        if !may_administer_network() {
            eprintln!("SKIPPED (needs root): word of devices");
            return;
        }
        let ns = Netns::new("t-links").unwrap();
        ns.run(|| {
            let changes = LinkChanges::open().unwrap();
            let mut poller = Poller::new().unwrap();
            poller.add(&changes, 1, Watch::Readable).unwrap();
            for line in ["link add e0 type veth peer name e1", "address add 192.0.2.1/24 dev e0", "link del e0"] {
                assert!(poller.wait(Some(Duration::ZERO)).unwrap().is_empty());
                assert!(std::process::Command::new("ip").args(line.split(' ')).status().unwrap().success(), "{line}");
                assert!(poller.wait(Some(Duration::from_secs(1))).unwrap()[0].readable, "{line}");
                changes.drain();
            }
        })
        .unwrap();
    }
}
