//! ICMP echo (RFC 792) over a raw socket, like the program ping; needs CAP_NET_RAW.

use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// A non-blocking socket for ICMP with one host.
#[derive(Debug)]
pub struct IcmpSocket(Socket);

impl IcmpSocket {
    /// Opens it in the calling thread's network namespace.
    pub fn open(to: Ipv4Addr) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::RAW.cloexec().nonblocking(), Some(Protocol::ICMPV4))?;
        socket.connect(&SocketAddr::from((to, 0)).into())?;
        Ok(Self(socket))
    }
    /// Sends one message; the kernel writes the IP header.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        self.0.send(message).map(drop)
    }
    /// The next packet from that host including its IP header, if one is waiting.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.0).read(buffer) {
            Ok(len) => Ok(Some(len)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }
}

impl AsFd for IcmpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
