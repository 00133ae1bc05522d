//! Packets written whole: answers to SYNs that we held and refused.

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// A raw IPv4 socket (IPPROTO_RAW, so headers are ours; needs CAP_NET_RAW).
#[derive(Debug)]
pub struct RawSender(Socket);

impl RawSender {
    /// Opens the socket; everything sent carries the firewall mark `mark`.
    pub fn open(mark: u32) -> io::Result<Self> {
        let kind = Type::RAW.cloexec().nonblocking();
        let socket = Socket::new(Domain::IPV4, kind, Some(Protocol::from(libc::IPPROTO_RAW)))?;
        socket.set_mark(mark)?;
        Ok(Self(socket))
    }
    /// Sends one whole IPv4 packet to `to`. The kernel fills the IP checksum, and the source if it is zero.
    pub fn send(&self, packet: &[u8], to: Ipv4Addr) -> io::Result<()> {
        let to: SockAddr = SocketAddr::V4(SocketAddrV4::new(to, 0)).into();
        self.0.send_to(packet, &to).map(|_| ())
    }
}
