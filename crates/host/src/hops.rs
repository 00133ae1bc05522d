//! UDP probes with a limited hop count: which router reports the expiry, and after what time.
#![allow(unsafe_code, reason = "the error queue has no safe wrapper")]

use crate::udp::set_int;
use socket2::{Domain, Protocol, SockAddrStorage, Socket, Type};
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use wavelane_base::Span;

use crate::clock::wall_nanos;

/// Space for the control messages: an extended error with its address, and a time.
const CONTROL_ROOM: usize = 256;
/// An answer that seems to have waited longer was stamped before the time of day was changed.
const WAITED_MAX: u64 = 1_000_000_000;

/// A socket whose packets have a chosen hop limit.
#[derive(Debug)]
pub struct HopSocket {
    socket: Socket,
    six: bool,
}

/// An ICMP message about one of our packets.
#[derive(Clone, Debug)]
pub struct HopAnswer {
    /// Its sender.
    pub from: IpAddr,
    /// Time exceeded; otherwise the packet arrived, or was refused.
    pub exceeded: bool,
    /// The payload of our packet, as far as the message quotes it.
    pub payload: Vec<u8>,
    /// How long it waited in the socket before it was read.
    pub waited: Span,
}

#[repr(C, align(8))]
struct Control([u8; CONTROL_ROOM]);

impl HopSocket {
    /// A socket for packets to `target`.
    pub fn open(target: SocketAddr) -> io::Result<Self> {
        let socket =
            Socket::new(Domain::for_address(target), Type::DGRAM.cloexec().nonblocking(), Some(Protocol::UDP))?;
        let six = target.is_ipv6();
        if six {
            set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
        } else {
            set_int(&socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1)?;
        }
        set_int(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        socket.connect(&target.into())?;
        Ok(Self { socket, six })
    }

    /// Sends `payload` with the hop limit `hops`. An error of an earlier packet may be reported here; it does not affect this one.
    pub fn send(&self, hops: u8, payload: &[u8]) -> io::Result<()> {
        if self.six {
            set_int(&self.socket, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, hops.into())?;
        } else {
            set_int(&self.socket, libc::IPPROTO_IP, libc::IP_TTL, hops.into())?;
        }
        match self.socket.send(payload) {
            Ok(_) => Ok(()),
            // Reports an earlier packet's error; this one was not sent.
            Err(_) => self.socket.send(payload).map(drop),
        }
    }

    /// The next waiting answer.
    pub fn answer(&self) -> Option<HopAnswer> {
        let mut payload = [0u8; 256];
        let mut control = Control([0; CONTROL_ROOM]);
        let name = SockAddrStorage::zeroed();
        let mut iov = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
        // SAFETY: all-zero is a valid value of this C structure.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_name = (&raw const name).cast_mut().cast();
        header.msg_namelen = name.size_of();
        header.msg_iov = &raw mut iov;
        header.msg_iovlen = 1;
        header.msg_control = (&raw mut control).cast();
        header.msg_controllen = CONTROL_ROOM as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: every pointer refers to memory that outlives the call and is of the stated length.
        let got = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut header, flags) };
        let got = usize::try_from(got).ok()?;
        let mut told = (None, false, None);
        // SAFETY: the kernel filled `msg_control` up to `msg_controllen`; the CMSG macros stay within it, and each message is read as the
        // type given in its header (ip(7), ipv6(7), socket(7)).
        unsafe {
            let mut cmsg = libc::CMSG_FIRSTHDR(&raw const header);
            while !cmsg.is_null() {
                let data = libc::CMSG_DATA(cmsg);
                match ((*cmsg).cmsg_level, (*cmsg).cmsg_type) {
                    (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                        let error = data.cast::<libc::sock_extended_err>().read_unaligned();
                        let offender = data.add(mem::size_of::<libc::sock_extended_err>());
                        (told.0, told.1) = of(&error, offender);
                    }
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let at = data.cast::<libc::timespec>().read_unaligned();
                        told.2 = u64::try_from(at.tv_sec).ok().map(|s| s * 1_000_000_000 + at.tv_nsec as u64);
                    }
                    _ => {}
                }
                cmsg = libc::CMSG_NXTHDR(&raw const header, cmsg);
            }
        }
        let waited = told.2.and_then(|at| wall_nanos().checked_sub(at)).filter(|w| *w < WAITED_MAX).unwrap_or(0);
        let from = told.0?;
        Some(HopAnswer { from, exceeded: told.1, payload: payload[..got].to_vec(), waited: Span::from_nanos(waited) })
    }

    /// Discards what the target itself sent.
    pub fn discard(&self) {
        while io::Read::read(&mut (&self.socket), &mut [0; 2_048]).is_ok() {}
    }
}

/// The error's sender, and whether a packet's hop limit was exceeded (RFC 792, type 11; RFC 4443, type 3).
///
/// # Safety
/// Behind `offender` lies a socket address, as behind every error of a network's (`SO_EE_OFFENDER`, ip(7)).
unsafe fn of(error: &libc::sock_extended_err, offender: *const u8) -> (Option<IpAddr>, bool) {
    match error.ee_origin {
        libc::SO_EE_ORIGIN_ICMP => {
            // SAFETY: the caller's promise; an ICMP error has an IPv4 address.
            let address = unsafe { offender.cast::<libc::sockaddr_in>().read_unaligned() };
            (Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into()), error.ee_type == 11)
        }
        libc::SO_EE_ORIGIN_ICMP6 => {
            // SAFETY: the caller's promise; an ICMPv6 error has an IPv6 address.
            let address = unsafe { offender.cast::<libc::sockaddr_in6>().read_unaligned() };
            (Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into()), error.ee_type == 3)
        }
        _ => (None, false),
    }
}

impl AsFd for HopSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::poller::{Poller, Watch};
    use std::time::Duration;

    #[test]
    fn a_closed_port_returns_the_payload() {
        let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = HopSocket::open(closed).unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(&socket, 1, Watch::Readable).unwrap();
        socket.send(1, b"payload").unwrap();
        poller.wait(Some(Duration::from_secs(5))).unwrap();
        let answer = socket.answer().unwrap();
        assert_eq!((answer.from.to_string().as_str(), answer.exceeded), ("127.0.0.1", false));
        assert_eq!(answer.payload, b"payload");
        assert!(answer.waited < Span::from_secs(1) && socket.answer().is_none());
    }
}
