//! A lane's UDP socket: don't-fragment, ECN in and out, batches in and out (GSO, GRO).
#![allow(
    unsafe_code,
    reason = "recvmmsg, sendmsg and the UDP options have no safe wrapper that carries what a lane needs"
)]

pub(crate) mod ancillary;
mod single;
pub(crate) mod stamps;

pub use single::SingleUdp;

use ancillary::{Ancillary, CONTROL_ROOM, Control};
use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};
use stamps::{Reading, Stamps};
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;
use wavelane_base::{Address, Ecn, Span};

/// Messages read in one call; each may hold many datagrams.
const MESSAGES: usize = 8;
/// The longest message: UDP's length field.
const MESSAGE_ROOM: usize = 65_535;
/// Maximum number of datagrams in one send: `UDP_MAX_SEGMENTS` of every kernel that has UDP_SEGMENT (later ones allow more).
const SEGMENTS_MAX: usize = 64;
/// Socket buffer size requested in each direction; the kernel may grant less.
pub(crate) const SOCKET_BUFFER: usize = 4 << 20;

/// Result of passing datagrams to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// Bytes that are finished: the kernel accepted them or refused them permanently. If some are left, the socket buffer is full: wait
    /// until it is writable and offer the rest again.
    pub done: usize,
    /// Datagrams larger than the local interface's MTU.
    pub too_big: u64,
    /// Datagrams refused for another reason (no route, peer's port closed, firewall): they count as lost.
    pub lost: u64,
}

/// The kernel's answer to one send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Taken,
    Blocked,
    TooBig,
    /// Not supported with these options or on this device.
    Unsupported,
    Lost,
}

/// Destination of datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// The destination address.
    pub to: Address,
    /// The source address, if known; ignored if it no longer belongs to this host.
    pub from: Option<IpAddr>,
    /// The differentiated-services code point (RFC 2474), if it is not the socket's own.
    pub dscp: u8,
}

impl From<SocketAddr> for Destination {
    fn from(to: SocketAddr) -> Self {
        Self { to: to.into(), from: None, dscp: 0 }
    }
}

/// A received datagram, or several of equal size.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Its bytes.
    pub bytes: &'a mut [u8],
    /// If there are several: the size of each but the last, which may be shorter.
    pub segment: Option<u16>,
    /// Its sender.
    pub from: Address,
    /// The address of this host to which it was sent, or, for a broadcast, the one that answers it.
    pub at: Option<IpAddr>,
    /// Its ECN mark.
    pub ecn: Ecn,
    /// How long it waited in the socket before it was read: delay added by a busy machine is not the link's delay.
    pub waited: Span,
}

/// The socket and the buffers of one call.
pub struct UdpLane {
    socket: Socket,
    /// An IPv6 socket, which also uses IPv4 by mapped addresses if it is bound to no address.
    six: bool,
    /// It is bound to one device.
    bound: bool,
    buffers: Vec<u8>,
    /// Whether the kernel segments batches (UDP_SEGMENT); detected by the first refusal.
    gso: bool,
    /// How much may wait in the kernel before bulk has to, if it is a radio's.
    waiting_max: Option<usize>,
    stamps: Stamps,
}

impl UdpLane {
    /// Binds `local` and marks all sent packets with `mark`, if given. Bound to `[::]` it uses both IP versions. With a `device` all
    /// packets use only that device, whatever the routes say.
    pub fn bind(local: SocketAddr, mark: Option<u32>, device: Option<&str>) -> io::Result<Self> {
        let six = local.is_ipv6();
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM.cloexec().nonblocking(), Some(Protocol::UDP))?;
        socket.set_recv_buffer_size(SOCKET_BUFFER)?;
        socket.set_send_buffer_size(SOCKET_BUFFER)?;
        if let Some(mark) = mark {
            socket.set_mark(mark)?;
            // Root may exceed net.core.*mem_max; others keep the granted size.
            for option in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
                let _ = set_int(&socket, libc::SOL_SOCKET, option, SOCKET_BUFFER as libc::c_int);
            }
        }
        set_int(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
        set_int(&socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        set_int(&socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
        if six {
            socket.set_only_v6(!local.ip().is_unspecified())?;
            set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
            set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
            set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
        }
        set_int(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        // A kernel without it delivers one datagram at a time.
        let _ = set_int(&socket, libc::SOL_UDP, libc::UDP_GRO, 1);
        if let Some(device) = device {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        socket.bind(&local.into())?;
        Ok(Self {
            socket,
            six,
            bound: device.is_some(),
            buffers: vec![0; MESSAGES * MESSAGE_ROOM],
            gso: true,
            waiting_max: None,
            stamps: Stamps::new(Reading::take()),
        })
    }
    /// Sets the differentiated-services code point (RFC 2474) of packets sent from now on.
    pub fn set_dscp(&self, code: u8) -> io::Result<()> {
        let tos = libc::c_int::from(code & 0x3f) << 2;
        if self.six {
            set_int(&self.socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, tos)?;
        }
        set_int(&self.socket, libc::IPPROTO_IP, libc::IP_TOS, tos)
    }
    /// Bulk has to wait while the kernel and the radio's driver hold more than `octets` of what was sent, their own bookkeeping counted.
    pub fn hold_bulk_above(&mut self, octets: usize) {
        self.waiting_max = Some(octets);
    }
    /// Octets sent that have not left, as the kernel counts them (SIOCOUTQ, udp(7)): until the driver is done with them.
    pub fn waiting(&self) -> usize {
        let mut octets: libc::c_int = 0;
        // SAFETY: the kernel writes one int there.
        let told = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut octets) };
        if told == 0 { usize::try_from(octets).unwrap_or(0) } else { 0 }
    }
    /// Whether it takes bulk now.
    pub fn has_bulk_room(&self) -> bool {
        self.waiting_max.is_none_or(|most| self.waiting() < most)
    }
    /// The bound address.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }
    /// Number of datagrams that the socket itself has dropped since it was bound: they had arrived, but its buffer was full or their
    /// checksum was wrong. The kernel's count wraps. `None` if the kernel does not report it.
    pub fn dropped(&self) -> Option<u32> {
        // Index into SO_MEMINFO's answer: SK_MEMINFO_DROPS of linux/sock_diag.h.
        const DROPS: usize = 8;
        let mut memory = [0; DROPS + 1];
        get_words(&self.socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut memory)?;
        Some(memory[DROPS])
    }
    /// The useful number of datagrams per send.
    pub fn segments_max(&self) -> usize {
        if self.gso { SEGMENTS_MAX } else { 1 }
    }
    /// Reads a few waiting messages, passes each to `take`, and returns their number. Each is one datagram or a batch from the same sender.
    pub fn receive(&mut self, mut take: impl FnMut(Datagram<'_>)) -> io::Result<usize> {
        let mut names: [SockAddrStorage; MESSAGES] = std::array::from_fn(|_| SockAddrStorage::zeroed());
        let mut controls = [Control([0; CONTROL_ROOM]); MESSAGES];
        // SAFETY: all-zero is a valid value of these C structures.
        let (mut iovs, mut messages): ([libc::iovec; MESSAGES], [libc::mmsghdr; MESSAGES]) = unsafe { mem::zeroed() };
        for (i, buffer) in self.buffers.chunks_exact_mut(MESSAGE_ROOM).enumerate() {
            iovs[i] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            let header = &mut messages[i].msg_hdr;
            header.msg_name = (&raw mut names[i]).cast();
            header.msg_namelen = names[i].size_of();
            header.msg_iov = &raw mut iovs[i];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut controls[i]).cast();
            header.msg_controllen = CONTROL_ROOM as _;
        }
        let flags = libc::MSG_DONTWAIT;
        let (fd, room) = (self.socket.as_raw_fd(), MESSAGES as libc::c_uint);
        // SAFETY: every pointer set above refers to memory that outlives the call and is of the stated length.
        let got = unsafe { libc::recvmmsg(fd, messages.as_mut_ptr(), room, flags as _, std::ptr::null_mut()) };
        if got < 0 {
            let error = io::Error::last_os_error();
            // A closed peer port or an ICMP error about an earlier datagram is reported here and can be ignored.
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(error);
            }
            self.stamps.drained();
            return Ok(0);
        }
        let got = usize::try_from(got).unwrap_or(0);
        self.stamps.read(Reading::take());
        let received = self.buffers.chunks_exact_mut(MESSAGE_ROOM).zip(&messages).zip(names).take(got);
        for ((buffer, message), name) in received {
            let header = &message.msg_hdr;
            // SAFETY: the kernel wrote an address of that length.
            let name = unsafe { SockAddr::new(name, header.msg_namelen) };
            let Some(from) = name.as_socket().filter(|_| header.msg_flags & libc::MSG_TRUNC == 0) else { continue };
            let from = peer_address(from, self.bound).into();
            let length = message.msg_len as usize;
            let told = Ancillary::of(header);
            let waited = self.stamps.waited(told.stamp);
            let segment = told.segment.filter(|size| usize::from(*size) < length);
            take(Datagram { bytes: &mut buffer[..length], segment, from, at: told.at, ecn: told.ecn(), waited });
        }
        if got < MESSAGES {
            self.stamps.drained();
        }
        Ok(got)
    }
    /// Passes `bytes` to the kernel: one datagram, or several of `segment` bytes each, of which the last may be shorter, and of which there
    /// are at most the current or an earlier value of [`Self::segments_max`].
    pub fn send(&mut self, bytes: &[u8], segment: Option<u16>, to: impl Into<Destination>, ecn: Ecn) -> Sent {
        let to = to.into();
        let size = segment.map_or(bytes.len(), usize::from).max(1);
        if self.gso && size < bytes.len() {
            match self.offer(bytes, segment, to, ecn) {
                Answer::Taken => return Sent { done: bytes.len(), ..Sent::default() },
                Answer::Blocked => return Sent::default(),
                // Sent one by one, the kernel reports what is wrong, and with which of them.
                Answer::TooBig | Answer::Unsupported | Answer::Lost => {}
            }
        }
        let mut sent = Sent::default();
        let mut refused = 0;
        for datagram in bytes.chunks(size) {
            match self.offer(datagram, None, to, ecn) {
                Answer::Taken => {}
                Answer::Blocked => return sent,
                Answer::TooBig => sent.too_big += 1,
                Answer::Unsupported | Answer::Lost => refused += 1,
            }
            sent.done += datagram.len();
        }
        sent.lost = refused;
        // If the kernel accepts datagrams singly but not as a batch, it cannot segment.
        self.gso &= size >= bytes.len() || sent.too_big + sent.lost > 0;
        sent
    }
    fn offer(&self, bytes: &[u8], segment: Option<u16>, to: Destination, ecn: Ecn) -> Answer {
        let Some(there) = to.to.ip() else { return Answer::Lost };
        // An address of the other IP version is outdated.
        let own = to.from.filter(|own| own.is_ipv4() == there.is_ipv4());
        let tos = to.dscp << 2 | ancillary::tos_of(ecn);
        match self.offer_from(bytes, segment, there, own, tos) {
            // The address may no longer be ours: let the system choose one.
            Answer::Unsupported | Answer::Lost if own.is_some() => self.offer_from(bytes, segment, there, None, tos),
            answer => answer,
        }
    }
    fn offer_from(&self, bytes: &[u8], segment: Option<u16>, to: SocketAddr, own: Option<IpAddr>, tos: u8) -> Answer {
        let to = match to {
            SocketAddr::V4(v4) if self.six => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
            SocketAddr::V6(_) if !self.six => return Answer::Lost,
            same => same,
        };
        let name = SockAddr::from(to);
        let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = Control([0; CONTROL_ROOM]);
        // SAFETY: all-zero is a valid value of this C structure.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_name = name.as_ptr().cast_mut().cast();
        header.msg_namelen = name.len();
        header.msg_iov = &raw mut iov;
        header.msg_iovlen = 1;
        ancillary::write(&mut header, &mut control, to, (own, tos, segment));
        // SAFETY: `header` points at live memory of the stated lengths; the kernel does not write to it.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
        if sent >= 0 {
            return Answer::Taken;
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EAGAIN) => Answer::Blocked,
            Some(libc::EMSGSIZE) => Answer::TooBig,
            Some(libc::EIO | libc::EINVAL) => Answer::Unsupported,
            _ => Answer::Lost,
        }
    }
}

/// The source address of received packets. A mapped address becomes its IPv4 address. A link-local one needs its device (RFC 4007, section
/// 6), unless the socket is `bound` to that.
fn peer_address(from: SocketAddr, bound: bool) -> SocketAddr {
    let canonical = SocketAddr::new(from.ip().to_canonical(), from.port());
    match (from, canonical) {
        (SocketAddr::V6(told), SocketAddr::V6(mut six)) => {
            six.set_scope_id(if bound { 0 } else { told.scope_id() });
            six.into()
        }
        _ => canonical,
    }
}

/// Sends a few datagrams of `len` zeros to `to`, only via `device` if one is named, and waits up to `patience` for an ICMP message about
/// them: `Err` is the error that it, or this host itself, reports. `Ok` means that nothing came back, or something that is no error.
pub fn probe(
    to: SocketAddr,
    mark: Option<u32>,
    device: Option<&str>,
    len: usize,
    patience: Duration,
) -> io::Result<()> {
    const TRIES: u32 = 3;
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM.cloexec(), Some(Protocol::UDP))?;
    if let Some(mark) = mark {
        socket.set_mark(mark)?;
    }
    if let Some(device) = device {
        socket.bind_device(Some(device.as_bytes()))?;
    }
    match to {
        SocketAddr::V4(_) => set_int(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?,
        SocketAddr::V6(_) => set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO)?,
    }
    socket.connect(&to.into())?;
    socket.set_read_timeout(Some(patience / TRIES))?;
    let probe = vec![0; len];
    for _ in 0..TRIES {
        socket.send(&probe)?;
        match io::Read::read(&mut (&socket), &mut [0; 64]) {
            Ok(_) => return Ok(()),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Whether a socket of `device`, if one is named, can currently be bound to the address of `local`; its port does not matter.
pub fn is_own(local: SocketAddr, device: Option<&str>) -> bool {
    let mut any_port = local;
    any_port.set_port(0);
    let tried =
        Socket::new(Domain::for_address(local), Type::DGRAM.cloexec(), Some(Protocol::UDP)).and_then(|socket| {
            // The addresses of a VRF belong only to its devices.
            device.map_or(Ok(()), |device| socket.bind_device(Some(device.as_bytes())))?;
            socket.bind(&any_port.into())
        });
    tried.err().is_none_or(|error| error.kind() != io::ErrorKind::AddrNotAvailable)
}

/// Whether a send was refused because of its size.
pub fn is_too_big(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

impl AsFd for UdpLane {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

pub(crate) fn set_int(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let size = mem::size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` is an int of `size` bytes that outlives the call.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Fills `words` with a socket option made of 32-bit words; `None` if the kernel has fewer.
pub(crate) fn get_words(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    words: &mut [u32],
) -> Option<()> {
    let room = mem::size_of_val(words) as libc::socklen_t;
    let mut size = room;
    // SAFETY: the kernel writes at most `size` bytes to `words`, for which any bytes are valid.
    let done = unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, words.as_mut_ptr().cast(), &raw mut size) };
    (done == 0 && size == room).then_some(())
}

#[cfg(test)]
mod tests;
