//! A raw socket for packets that hold IPv4 packets (RFC 2003). Sending is [`crate::raw`]'s.
#![allow(unsafe_code, reason = "IP_MTU has no safe wrapper")]

use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Protocol number 4 (IANA protocol numbers).
const IPIP: libc::c_int = 4;
/// Space for waiting packets.
const BUFFER: usize = 4 << 20;
/// Any port: nothing is sent there.
const NO_PORT: u16 = 9;

/// The socket. The kernel puts fragments together before.
#[derive(Debug)]
pub struct IpipSocket(Socket);

impl IpipSocket {
    /// Opens it in the calling thread's network namespace (needs CAP_NET_RAW).
    pub fn open() -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::RAW.cloexec().nonblocking(), Some(Protocol::from(IPIP)))?;
        socket.set_recv_buffer_size(BUFFER)?;
        setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?;
        Ok(Self(socket))
    }
    /// The next packet with its IP header, if one is waiting, and the index of the interface that it came by.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, u32)>> {
        let mut control = nix::cmsg_space!(libc::in_pktinfo);
        let mut parts = [IoSliceMut::new(buffer)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let got = match recvmsg::<SockaddrIn>(self.0.as_raw_fd(), &mut parts, Some(&mut control), flags) {
            Ok(got) => got,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let by = got.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::Ipv4PacketInfo(info) => u32::try_from(info.ipi_ifindex).ok(),
            _ => None,
        });
        Ok(Some((got.bytes, by.unwrap_or(0))))
    }
}

impl AsFd for IpipSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The largest packet that the way to a host takes, as far as the kernel knows: of the interface, or less by what routers said.
pub fn path_mtu(to: Ipv4Addr) -> io::Result<u32> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect((to, NO_PORT))?;
    let mut mtu: libc::c_int = 0;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `mtu` is an int of `size` bytes that outlives the call.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_MTU, (&raw mut mtu).cast(), &raw mut size)
    };
    if done == 0 { u32::try_from(mtu).map_err(io::Error::other) } else { Err(io::Error::last_os_error()) }
}
