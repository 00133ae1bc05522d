//! The far end of a veth pair as IP packets, for processes that may not open `/dev/net/tun`: an unprivileged user's own network namespaces.
#![allow(unsafe_code, reason = "packet sockets and their addresses have no safe wrapper")]

use crate::media::udp::set_int;
use nix::net::if_::if_nametoindex;
use socket2::{Domain, Socket, Type};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// EtherType of IPv4 (IEEE Std 802-2014; IANA "Ether Types").
const IPV4: u16 = 0x0800;
/// What may wait in the kernel until it is read; the kernel grants an unprivileged process what `net.core.rmem_max` allows.
const WAITING_MAX: usize = 4 << 20;

/// Packets that arrive at an interface, and packets sent by it to one neighbour.
#[derive(Debug)]
pub struct PacketPort {
    socket: Socket,
    neighbour: libc::sockaddr_ll,
}

impl PacketPort {
    /// Opens the interface for IPv4, non-blocking (needs CAP_NET_RAW over the network namespace). `neighbour` is the address of the pair's
    /// other end.
    pub fn open(interface: &str, neighbour: [u8; 6]) -> io::Result<Self> {
        let index = libc::c_int::try_from(if_nametoindex(interface)?).map_err(|_| io::ErrorKind::InvalidInput)?;
        // With protocol zero it receives nothing before it is bound.
        let socket = Socket::new(Domain::PACKET, Type::DGRAM.cloexec().nonblocking(), None)?;
        socket.set_recv_buffer_size(WAITING_MAX)?;
        set_int(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        // SAFETY: all-zero is a valid value of this C structure.
        let mut name: libc::sockaddr_ll = unsafe { mem::zeroed() };
        name.sll_family = libc::AF_PACKET as _;
        name.sll_protocol = IPV4.to_be();
        name.sll_ifindex = index;
        name.sll_halen = 6;
        name.sll_addr[..6].copy_from_slice(&neighbour);
        // SAFETY: `name` is a sockaddr_ll of that length, which the kernel only reads.
        match unsafe { libc::bind(socket.as_raw_fd(), (&raw const name).cast(), length()) } {
            0 => Ok(Self { socket, neighbour: name }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Reads one packet; `None` when nothing is waiting. A packet longer than `buf` is truncated by the kernel.
    pub fn read(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        match nix::sys::socket::recv(self.socket.as_raw_fd(), buf, nix::sys::socket::MsgFlags::empty()) {
            Ok(len) => Ok(Some(len)),
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Sends one packet to the neighbour.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        let to = (&raw const self.neighbour).cast();
        // SAFETY: `packet` and `neighbour` outlive the call and have the stated lengths; the kernel writes to neither.
        let sent =
            unsafe { libc::sendto(self.socket.as_raw_fd(), packet.as_ptr().cast(), packet.len(), 0, to, length()) };
        if sent >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Packets that the kernel dropped since the last call because too many waited here.
    pub fn dropped(&self) -> u64 {
        // SAFETY: all-zero is a valid value of this C structure.
        let mut counts: libc::tpacket_stats = unsafe { mem::zeroed() };
        let mut size = mem::size_of::<libc::tpacket_stats>() as libc::socklen_t;
        let (into, descriptor) = ((&raw mut counts).cast(), self.socket.as_raw_fd());
        // SAFETY: `counts` has `size` bytes and outlives the call.
        let asked =
            unsafe { libc::getsockopt(descriptor, libc::SOL_PACKET, libc::PACKET_STATISTICS, into, &raw mut size) };
        if asked == 0 { counts.tp_drops.into() } else { 0 }
    }
}

impl AsFd for PacketPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn length() -> libc::socklen_t {
    mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t
}
