//! A lane's UDP socket: don't-fragment, ECN in and out, batches in.
#![allow(unsafe_code, reason = "recvmmsg, sendmsg and IP_MTU_DISCOVER have no safe wrapper that carries the TOS byte")]

use crate::clock::wall_nanos;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use wavelane_base::{Ecn, Span};

/// Datagrams taken in one call.
pub const BATCH: usize = 32;
/// Longest datagram a lane may carry, with room to notice a longer one.
const DATAGRAM_ROOM: usize = 9_216;
/// Socket buffer asked of the kernel each way; it may grant less.
const SOCKET_BUFFER: usize = 4 << 20;
/// Room for the control messages holding the TOS byte and the arrival time.
const CONTROL_ROOM: usize = 64;

/// A datagram that seems to have waited longer was stamped before the wall clock was set: then nothing is known.
const WAITED_MAX: Span = Span::from_secs(1);

/// What became of a datagram given to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// The kernel took it.
    Yes,
    /// The socket has no room: wait until it is writable and offer it again.
    Blocked,
    /// Larger than the local interface carries.
    TooBig,
    /// Refused for another reason (no route, peer's port closed, firewall): counts as lost.
    Lost,
}

/// A datagram as received.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Its bytes.
    pub bytes: &'a mut [u8],
    /// Who sent it.
    pub from: SocketAddr,
    /// Its ECN mark.
    pub ecn: Ecn,
    /// How long it lay in the socket before it was read: what a busy machine adds is not the link's delay.
    pub waited: Span,
}

/// The socket and the buffers of one batch.
pub struct UdpLane {
    socket: Socket,
    /// The socket is one of IPv6, and speaks IPv4 by mapped addresses if it is bound to none.
    six: bool,
    buffers: Vec<u8>,
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_ROOM]);

impl UdpLane {
    /// Binds `local` and marks everything sent with `mark`, if one is given. Bound to `[::]` it speaks both IP
    /// versions.
    pub fn bind(local: SocketAddr, mark: Option<u32>) -> io::Result<Self> {
        let six = local.is_ipv6();
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM.cloexec().nonblocking(), Some(Protocol::UDP))?;
        socket.set_recv_buffer_size(SOCKET_BUFFER)?;
        socket.set_send_buffer_size(SOCKET_BUFFER)?;
        if let Some(mark) = mark {
            socket.set_mark(mark)?;
            // Root may exceed net.core.*mem_max; others keep what they were granted.
            for option in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
                let _ = set_int(&socket, libc::SOL_SOCKET, option, SOCKET_BUFFER as libc::c_int);
            }
        }
        set_int(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
        set_int(&socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        if six {
            socket.set_only_v6(!local.ip().is_unspecified())?;
            set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
            set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        }
        set_int(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        socket.bind(&local.into())?;
        Ok(Self { socket, six, buffers: vec![0; BATCH * DATAGRAM_ROOM] })
    }
    /// The bound address.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }
    /// Takes up to [`BATCH`] waiting datagrams, gives each to `take`, and returns how many there were.
    pub fn receive(&mut self, mut take: impl FnMut(Datagram<'_>)) -> io::Result<usize> {
        // SAFETY: all-zero is a valid value of these C structures.
        let mut names: [libc::sockaddr_in6; BATCH] = unsafe { mem::zeroed() };
        let mut controls = [Control([0; CONTROL_ROOM]); BATCH];
        // SAFETY: as above.
        let mut iovs: [libc::iovec; BATCH] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        for (i, buffer) in self.buffers.chunks_exact_mut(DATAGRAM_ROOM).enumerate() {
            iovs[i] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            let header = &mut messages[i].msg_hdr;
            header.msg_name = (&raw mut names[i]).cast();
            header.msg_namelen = mem::size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            header.msg_iov = &raw mut iovs[i];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut controls[i]).cast();
            header.msg_controllen = CONTROL_ROOM as _;
        }
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: every pointer set above refers to memory that outlives the call and is of the stated length.
        let got = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                flags as _,
                std::ptr::null_mut(),
            )
        };
        if got < 0 {
            let error = io::Error::last_os_error();
            // A closed peer port or an ICMP error about an earlier datagram is reported here and means nothing more.
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) };
        }
        let got = usize::try_from(got).unwrap_or(0);
        let read_at = wall_nanos();
        for (i, buffer) in self.buffers.chunks_exact_mut(DATAGRAM_ROOM).take(got).enumerate() {
            let length = messages[i].msg_len as usize;
            let header = &messages[i].msg_hdr;
            let Some(from) = sender(&names[i]).filter(|_| header.msg_flags & libc::MSG_TRUNC == 0) else { continue };
            let (ecn, stamp) = ecn_and_stamp(header);
            let waited = stamp.and_then(|at| read_at.checked_sub(at)).map_or(Span::ZERO, Span::from_nanos);
            let waited = if waited > WAITED_MAX { Span::ZERO } else { waited };
            take(Datagram { bytes: &mut buffer[..length], from, ecn, waited });
        }
        Ok(got)
    }
    /// Offers one datagram to the kernel.
    pub fn send(&self, bytes: &[u8], to: SocketAddr, ecn: Ecn) -> Sent {
        let to = match to {
            SocketAddr::V4(v4) if self.six => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
            SocketAddr::V6(_) if !self.six => return Sent::Lost,
            same => same,
        };
        // What the IP header will be decides where the ECN mark is given.
        let (level, kind) = match to {
            SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_none() => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            _ => (libc::IPPROTO_IP, libc::IP_TOS),
        };
        let name = SockAddr::from(to);
        // SAFETY: all-zero is a valid value of this C structure.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = Control([0; CONTROL_ROOM]);
        header.msg_name = name.as_ptr().cast_mut().cast();
        header.msg_namelen = name.len();
        header.msg_iov = &raw mut iov;
        header.msg_iovlen = 1;
        if ecn != Ecn::NotEct {
            let size = mem::size_of::<libc::c_int>() as libc::c_uint;
            header.msg_control = (&raw mut control).cast();
            // SAFETY: CMSG_SPACE and CMSG_LEN only compute; the first header fits into `control`, which is aligned.
            unsafe {
                header.msg_controllen = libc::CMSG_SPACE(size) as _;
                let cmsg = libc::CMSG_FIRSTHDR(&raw const header);
                (*cmsg).cmsg_level = level;
                (*cmsg).cmsg_type = kind;
                (*cmsg).cmsg_len = libc::CMSG_LEN(size) as _;
                libc::CMSG_DATA(cmsg).cast::<libc::c_int>().write_unaligned(tos_of(ecn));
            }
        }
        // SAFETY: `header` points at live memory of the stated lengths; the kernel does not write to it.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
        if sent >= 0 {
            return Sent::Yes;
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EAGAIN) => Sent::Blocked,
            Some(libc::EMSGSIZE) => Sent::TooBig,
            _ => Sent::Lost,
        }
    }
}

impl AsFd for UdpLane {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Who sent a datagram; a mapped address is the IPv4 address that it means.
fn sender(name: &libc::sockaddr_in6) -> Option<SocketAddr> {
    let (ip, port) = match libc::c_int::from(name.sin6_family) {
        libc::AF_INET => {
            // SAFETY: the kernel wrote a sockaddr_in, as the family says; it is smaller and no more strictly aligned.
            let name = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            (Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr)).into(), name.sin_port)
        }
        libc::AF_INET6 => (Ipv6Addr::from(name.sin6_addr.s6_addr).to_canonical(), name.sin6_port),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be(port)))
}

/// The low two bits of the TOS byte (RFC 3168, section 5).
fn tos_of(ecn: Ecn) -> libc::c_int {
    match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    }
}

/// The ECN mark, and the wall clock's nanoseconds at which the kernel got the datagram.
fn ecn_and_stamp(header: &libc::msghdr) -> (Ecn, Option<u64>) {
    let (mut tos, mut stamp) = (0, None);
    // SAFETY: the kernel filled `msg_control` up to `msg_controllen`; the CMSG macros stay within it, and each message
    // is read as what its type says it holds.
    unsafe {
        let mut cmsg = libc::CMSG_FIRSTHDR(header);
        while !cmsg.is_null() {
            match ((*cmsg).cmsg_level, (*cmsg).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) => tos = *libc::CMSG_DATA(cmsg),
                // An int (RFC 3542, section 6.5), of which the low byte is the class.
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    tos = libc::CMSG_DATA(cmsg).cast::<libc::c_int>().read_unaligned() as u8;
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let at = libc::CMSG_DATA(cmsg).cast::<libc::timespec>().read_unaligned();
                    stamp = u64::try_from(at.tv_sec).ok().map(|s| s * 1_000_000_000 + at.tv_nsec as u64);
                }
                _ => {}
            }
            cmsg = libc::CMSG_NXTHDR(header, cmsg);
        }
    }
    (ecn_of(tos), stamp)
}

fn ecn_of(tos: u8) -> Ecn {
    match tos & 3 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn datagrams_keep_bytes_sender_and_ecn() {
        // Receiver, sender, and the address by which the receiver is reached.
        keeps("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1");
        if UdpLane::bind("[::1]:0".parse().unwrap(), None).is_err() {
            eprintln!("SKIPPED (no IPv6 loopback here): lanes over IPv6");
            return;
        }
        keeps("[::1]:0", "[::1]:0", "::1");
        keeps("[::]:0", "[::1]:0", "::1");
        keeps("[::]:0", "127.0.0.1:0", "127.0.0.1");
        keeps("127.0.0.1:0", "[::]:0", "127.0.0.1");
    }

    fn keeps(receiver: &str, sender: &str, address: &str) {
        let mut a = UdpLane::bind(receiver.parse().unwrap(), None).unwrap();
        let b = UdpLane::bind(sender.parse().unwrap(), None).unwrap();
        let marks = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];
        let to = SocketAddr::new(address.parse().unwrap(), a.local().unwrap().port());
        for (i, mark) in marks.into_iter().enumerate() {
            assert_eq!(b.send(&[i as u8; 100], to, mark), Sent::Yes, "{sender} to {to}");
        }
        let mut got = Vec::new();
        let from = SocketAddr::new(address.parse().unwrap(), b.local().unwrap().port());
        let n = a.receive(|d| {
            assert_eq!(d.from, from);
            got.push((d.bytes[0], d.bytes.len(), d.ecn));
        });
        assert_eq!(n.unwrap(), 4);
        let expected: Vec<_> = marks.into_iter().enumerate().map(|(i, m)| (i as u8, 100, m)).collect();
        assert_eq!(got, expected);
        assert_eq!(a.receive(|_| panic!("nothing waits")).unwrap(), 0);
    }

    #[test]
    fn time_spent_in_the_socket_is_told() {
        let mut a = UdpLane::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let b = UdpLane::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let before = wall_nanos();
        assert_eq!(b.send(&[1], a.local().unwrap(), Ecn::NotEct), Sent::Yes);
        let sent = wall_nanos();
        while wall_nanos() < sent + 20_000_000 {
            std::hint::spin_loop();
        }
        let reading = wall_nanos();
        let mut waited = None;
        a.receive(|d| waited = Some(d.waited)).unwrap();
        let range = Span::from_nanos(reading - sent)..=Span::from_nanos(wall_nanos() - before);
        assert!(range.contains(&waited.unwrap()), "{waited:?} not in {range:?}");
    }

    #[test]
    fn a_datagram_beyond_the_interface_is_told_apart_from_a_lost_one() {
        let a = UdpLane::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        assert_eq!(a.send(&vec![0; 66_000], a.local().unwrap(), Ecn::NotEct), Sent::TooBig);
    }

    #[test]
    fn a_busy_port_is_an_error() {
        let a = UdpLane::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let again = UdpLane::bind(a.local().unwrap(), None).err().unwrap();
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
    }
}
