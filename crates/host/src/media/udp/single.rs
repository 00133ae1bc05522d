//! A UDP socket that gives datagrams one by one, each with its whole TOS octet.

use super::ancillary::{self, Ancillary, CONTROL_ROOM, Control};
use super::set_int;
use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::{io, mem};

/// The socket. It is not blocking.
#[derive(Debug)]
pub struct SingleUdp(Socket);

impl SingleUdp {
    /// Binds `local`; an IPv6 one bound to no address takes IPv4 as well.
    pub fn bind(local: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM.cloexec().nonblocking(), Some(Protocol::UDP))?;
        set_int(&socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        if local.is_ipv6() {
            socket.set_only_v6(!local.ip().is_unspecified())?;
            set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        }
        socket.bind(&local.into())?;
        Ok(Self(socket))
    }
    /// From now on it hears `to` alone.
    pub fn connect(&self, to: SocketAddr) -> io::Result<()> {
        self.0.connect(&to.into())
    }
    /// The bound address.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }
    /// Reads a datagram: its length, of which `buffer` has as much as fits, its sender and its TOS octet.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr, u8)> {
        let mut name = SockAddrStorage::zeroed();
        let mut control = Control([0; CONTROL_ROOM]);
        let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: all-zero is a valid value of this C structure.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_namelen = name.size_of();
        header.msg_name = (&raw mut name).cast();
        header.msg_iov = &raw mut iov;
        header.msg_iovlen = 1;
        header.msg_control = (&raw mut control).cast();
        header.msg_controllen = CONTROL_ROOM as _;
        // SAFETY: every pointer set above refers to memory that outlives the call and is of the stated length.
        let got = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut header, libc::MSG_TRUNC) };
        let len = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: the kernel wrote an address of that length.
        let name = unsafe { SockAddr::new(name, header.msg_namelen) };
        let from = name.as_socket().ok_or(io::ErrorKind::InvalidData)?;
        Ok((len, from, Ancillary::of(&header).tos))
    }
    /// Sends a datagram.
    pub fn send(&self, bytes: &[u8], to: SocketAddr, tos: u8) -> io::Result<()> {
        let name = SockAddr::from(to);
        let mut control = Control([0; CONTROL_ROOM]);
        let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: all-zero is a valid value of this C structure.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_name = name.as_ptr().cast_mut().cast();
        header.msg_namelen = name.len();
        header.msg_iov = &raw mut iov;
        header.msg_iovlen = 1;
        ancillary::write(&mut header, &mut control, to, (None, tos, None));
        // SAFETY: `header` points at live memory of the stated lengths; the kernel does not write to it.
        let sent = unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const header, 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsFd for SingleUdp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
