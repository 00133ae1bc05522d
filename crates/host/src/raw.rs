//! Raw packets: answers to SYNs that we held and refused.
#![allow(unsafe_code, reason = "ICMP6_FILTER has no safe wrapper")]

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

/// The socket option that selects which ICMPv6 messages a raw socket receives (linux/icmpv6.h; RFC 3542, section 3.2).
const ICMP6_FILTER: libc::c_int = 1;

/// Raw sockets of both families (IPPROTO_RAW, so headers are ours; needs CAP_NET_RAW).
#[derive(Debug)]
pub struct RawSender {
    v4: Socket,
    /// `None` where the kernel has no IPv6.
    v6: Option<Six>,
}

#[derive(Debug)]
struct Six {
    raw: Socket,
    icmp: Socket,
}

impl RawSender {
    /// Opens the sockets; everything sent carries the firewall mark `mark`.
    pub fn open(mark: u32) -> io::Result<Self> {
        let open = |domain, protocol: libc::c_int| {
            let socket = Socket::new(domain, Type::RAW.cloexec().nonblocking(), Some(Protocol::from(protocol)))?;
            socket.set_mark(mark)?;
            Ok::<_, io::Error>(socket)
        };
        let six = || {
            let icmp = open(Domain::IPV6, libc::IPPROTO_ICMPV6)?;
            hear_nothing(&icmp)?;
            Ok::<_, io::Error>(Six { raw: open(Domain::IPV6, libc::IPPROTO_RAW)?, icmp })
        };
        Ok(Self { v4: open(Domain::IPV4, libc::IPPROTO_RAW)?, v6: six().ok() })
    }
    /// Sends one complete packet of either family to `to`. The kernel fills in an IPv4 checksum, and an IPv4 source of zero.
    pub fn send(&self, packet: &[u8], to: IpAddr) -> io::Result<()> {
        let socket = if to.is_ipv4() { &self.v4 } else { &self.six()?.raw };
        let to: SockAddr = SocketAddr::new(to, 0).into();
        socket.send_to(packet, &to).map(drop)
    }
    /// Sends an ICMPv6 message from an address of ours; the kernel writes the IPv6 header and the checksum.
    pub fn send_icmp6(&self, message: &[u8], to: Ipv6Addr) -> io::Result<()> {
        let to: SockAddr = SocketAddr::new(to.into(), 0).into();
        self.six()?.icmp.send_to(message, &to).map(drop)
    }
    fn six(&self) -> io::Result<&Six> {
        self.v6.as_ref().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }
}

/// Blocks incoming ICMPv6 messages, of which every such socket gets a copy, on a socket that only sends.
fn hear_nothing(socket: &Socket) -> io::Result<()> {
    let block_all = [u32::MAX; 8];
    let size = mem::size_of_val(&block_all) as libc::socklen_t;
    // SAFETY: `block_all` is an icmp6_filter of `size` bytes that outlives the call.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_ICMPV6, ICMP6_FILTER, block_all.as_ptr().cast(), size)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
