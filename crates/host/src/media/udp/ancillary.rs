//! Ancillary data exchanged with the kernel beside a datagram (cmsg(3)): ECN, arrival time, segment size.

use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wavelane_base::Ecn;

/// Space for the control messages: TOS or traffic class, arrival time, segment size, our own address, and headers.
pub(crate) const CONTROL_ROOM: usize = 192;

/// A buffer aligned for control messages.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct Control(pub(crate) [u8; CONTROL_ROOM]);

/// The kernel's information about a received message.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ancillary {
    /// The octet of IPv4's type of service or IPv6's traffic class.
    pub(crate) tos: u8,
    /// Wall clock time in nanoseconds at which the kernel received it.
    pub(crate) stamp: Option<u64>,
    /// The size of each contained datagram but the last.
    pub(crate) segment: Option<u16>,
    /// The address of ours to which it was sent.
    pub(crate) at: Option<IpAddr>,
}

impl Ancillary {
    /// Its low two bits (RFC 3168, section 5).
    pub(crate) fn ecn(&self) -> Ecn {
        match self.tos & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
    pub(crate) fn of(header: &libc::msghdr) -> Self {
        let mut told = Self::default();
        // SAFETY: the kernel filled `msg_control` up to `msg_controllen`; the CMSG macros stay within it, and each message is read as the
        // type given in its header (ip(7), ipv6(7), socket(7), udp(7)).
        unsafe {
            let mut cmsg = libc::CMSG_FIRSTHDR(header);
            while !cmsg.is_null() {
                let data = libc::CMSG_DATA(cmsg);
                match ((*cmsg).cmsg_level, (*cmsg).cmsg_type) {
                    (libc::IPPROTO_IP, libc::IP_TOS) => told.tos = *data,
                    // An int (RFC 3542, section 6.5), of which the low byte is the class.
                    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                        told.tos = data.cast::<libc::c_int>().read_unaligned() as u8;
                    }
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let at = data.cast::<libc::timespec>().read_unaligned();
                        told.stamp = u64::try_from(at.tv_sec).ok().map(|s| s * 1_000_000_000 + at.tv_nsec as u64);
                    }
                    (libc::SOL_UDP, libc::UDP_GRO) => {
                        told.segment = u16::try_from(data.cast::<libc::c_int>().read_unaligned()).ok();
                    }
                    (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                        let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                        told.at = Some(Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr)).into());
                    }
                    (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                        let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                        let address = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                        // A multicast address cannot be a source of answers. The kernel also reports IPv4 destinations in IPv4's own
                        // control message, and that one is correct for broadcasts.
                        if !address.is_multicast() && address.to_ipv4_mapped().is_none() {
                            told.at = Some(address.into());
                        }
                    }
                    _ => {}
                }
                cmsg = libc::CMSG_NXTHDR(header, cmsg);
            }
        }
        told
    }
}

/// Puts what is not the default into `control` and hangs it into `header`: from which address, TOS octet, segment size.
pub(crate) fn write(
    header: &mut libc::msghdr,
    control: &mut Control,
    to: SocketAddr,
    (own, tos, segment): (Option<IpAddr>, u8, Option<u16>),
) {
    let mut at = 0;
    match own {
        Some(IpAddr::V4(own)) => {
            let ipi_spec_dst = libc::in_addr { s_addr: u32::from(own).to_be() };
            // No interface: the routes decide, and they may change.
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst, ipi_addr: libc::in_addr { s_addr: 0 } };
            put(control, &mut at, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
        }
        Some(IpAddr::V6(own)) => {
            let info = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: own.octets() }, ipi6_ifindex: 0 };
            put(control, &mut at, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
        }
        None => {}
    }
    if tos != 0 {
        // The IP version of the outgoing header decides where the mark is given.
        let (level, kind) = match to {
            SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_none() => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            _ => (libc::IPPROTO_IP, libc::IP_TOS),
        };
        put(control, &mut at, level, kind, libc::c_int::from(tos));
    }
    if let Some(size) = segment {
        put(control, &mut at, libc::SOL_UDP, libc::UDP_SEGMENT, size);
    }
    if at > 0 {
        header.msg_control = (&raw mut *control).cast();
        header.msg_controllen = at as _;
    }
}

fn put<T>(control: &mut Control, at: &mut usize, level: libc::c_int, kind: libc::c_int, value: T) {
    let size = mem::size_of::<T>() as libc::c_uint;
    // SAFETY: CMSG_SPACE and CMSG_LEN only compute.
    let (space, len) = unsafe { (libc::CMSG_SPACE(size) as usize, libc::CMSG_LEN(size)) };
    assert!(*at + space <= CONTROL_ROOM, "the room is for every message there is");
    // SAFETY: `control` is aligned, every message is a multiple of that alignment long, and this one fits.
    unsafe {
        let cmsg = control.0.as_mut_ptr().add(*at).cast::<libc::cmsghdr>();
        (*cmsg).cmsg_level = level;
        (*cmsg).cmsg_type = kind;
        (*cmsg).cmsg_len = len as _;
        libc::CMSG_DATA(cmsg).cast::<T>().write_unaligned(value);
    }
    *at += space;
}

/// The low two bits of the TOS byte (RFC 3168, section 5).
pub(crate) fn tos_of(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    }
}
