//! What the hosts on a link tell each other of their link addresses: ARP (RFC 826), and neighbour discovery (RFC 4861).
#![allow(unsafe_code, reason = "packet sockets, their addresses and filters have no safe wrapper")]

use crate::ether::Mac;
use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Socket, Type};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// EtherTypes (IEEE 802 numbers).
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
/// Space for waiting messages: a storm is lost here and not in our memory.
const BUFFER: usize = 256 << 10;
/// After how long a device whose queue was full is tried again: it sends at least some packets in that.
const FULL_FOR: Duration = Duration::from_millis(1);
/// linux/if_packet.h: all groups of the link are heard, for hosts ask in the group of whom they look for.
const MR_ALLMULTI: libc::c_ushort = 2;

/// Lets through neighbour discovery alone (types 133 to 136 of ICMPv6, RFC 4861, section 4): a packet that starts with its IPv6 header.
const DISCOVERY: [[u32; 4]; 7] = [
    [0x30, 0, 0, 6],
    [0x15, 0, 4, 58],
    [0x30, 0, 0, 40],
    [0x35, 0, 2, 133],
    [0x25, 1, 0, 136],
    [0x06, 0, 0, u32::MAX],
    [0x06, 0, 0, 0],
];

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// Of IPv4.
    Arp,
    /// Of IPv6; its messages are whole IPv6 packets.
    Discovery,
}

/// A socket for one of them on one device.
#[derive(Debug)]
pub struct NeighborSocket {
    socket: Socket,
    index: libc::c_int,
    protocol: u16,
}

impl NeighborSocket {
    /// Opens it (needs CAP_NET_RAW).
    pub fn open(device: &str, protocol: Protocol) -> io::Result<Self> {
        let index = libc::c_int::try_from(if_nametoindex(device)?).map_err(|_| io::ErrorKind::InvalidInput)?;
        // With protocol zero it receives nothing before it is bound.
        let socket = Socket::new(Domain::PACKET, Type::DGRAM.cloexec().nonblocking(), None)?;
        socket.set_recv_buffer_size(BUFFER)?;
        let number = match protocol {
            Protocol::Arp => ARP,
            Protocol::Discovery => {
                only_discovery(&socket)?;
                hear_all_groups(&socket, index)?;
                IPV6
            }
        };
        let this = Self { socket, index, protocol: number };
        let name = this.name(Mac::default());
        // SAFETY: `name` is a sockaddr_ll of that length, which the kernel only reads.
        let bound = unsafe { libc::bind(this.socket.as_raw_fd(), (&raw const name).cast(), name_len()) };
        if bound == 0 { Ok(this) } else { Err(io::Error::last_os_error()) }
    }
    /// The next message that came by the link, if one is waiting, and whose link address it came from.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, Mac)>> {
        let mut name = self.name(Mac::default());
        let mut len = name_len();
        let (at, room) = (buffer.as_mut_ptr().cast(), buffer.len());
        // SAFETY: buffer and name are of the stated lengths and outlive the call.
        let got = unsafe {
            libc::recvfrom(self.socket.as_raw_fd(), at, room, libc::MSG_DONTWAIT, (&raw mut name).cast(), &raw mut len)
        };
        let Ok(got) = usize::try_from(got) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            };
        };
        let [a, b, c, d, e, f, ..] = name.sll_addr;
        Ok(Some((got, [a, b, c, d, e, f])))
    }
    /// Sends one message to a link address, from the device's.
    pub fn send(&self, message: &[u8], to: Mac) -> io::Result<()> {
        let name = self.name(to);
        let (at, len) = (message.as_ptr().cast(), message.len());
        // SAFETY: message and name are of the stated lengths and outlive the call.
        let sent = unsafe {
            libc::sendto(self.socket.as_raw_fd(), at, len, libc::MSG_DONTWAIT, (&raw const name).cast(), name_len())
        };
        if sent >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
    /// The same; waits for room while `left` says that there is time.
    pub fn send_within(&self, message: &[u8], to: Mac, left: impl Fn() -> Duration) -> io::Result<()> {
        loop {
            let error = match self.send(message, to) {
                Err(error) if !left().is_zero() => error,
                done => return done,
            };
            let mut room = [PollFd::new(self.as_fd(), PollFlags::POLLOUT)];
            let (room, wait) = match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => (&mut room[..], left()),
                // The device's queue is full: nobody tells when it is not.
                Some(libc::ENOBUFS) => (&mut [][..], left().min(FULL_FOR)),
                _ => return Err(error),
            };
            let _ = poll(room, PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX));
        }
    }
    fn name(&self, mac: Mac) -> libc::sockaddr_ll {
        // SAFETY: all-zero is a valid value of this C structure.
        let mut name: libc::sockaddr_ll = unsafe { mem::zeroed() };
        name.sll_family = libc::AF_PACKET as _;
        name.sll_protocol = self.protocol.to_be();
        name.sll_ifindex = self.index;
        name.sll_halen = 6;
        name.sll_addr[..6].copy_from_slice(&mac);
        name
    }
}

fn name_len() -> libc::socklen_t {
    mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t
}

fn set<T>(socket: &Socket, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let size = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is of `size` bytes and outlives the call.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn only_discovery(socket: &Socket) -> io::Result<()> {
    let mut steps =
        DISCOVERY.map(|[code, jt, jf, k]| libc::sock_filter { code: code as _, jt: jt as _, jf: jf as _, k });
    let filter = libc::sock_fprog { len: DISCOVERY.len() as _, filter: steps.as_mut_ptr() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

fn hear_all_groups(socket: &Socket, index: libc::c_int) -> io::Result<()> {
    // SAFETY: all-zero is a valid value of this C structure.
    let mut wanted: libc::packet_mreq = unsafe { mem::zeroed() };
    wanted.mr_ifindex = index;
    wanted.mr_type = MR_ALLMULTI;
    set(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &wanted)
}

impl AsFd for NeighborSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
