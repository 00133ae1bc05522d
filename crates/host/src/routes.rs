//! A routing table of the kernel: its contents and change notifications (linux/rtnetlink.h).
//!
//! A notification only triggers a new read of the whole table, because the kernel drops notifications that are not read in time and sends
//! none for the IPv4 routes that are removed with their interface.

mod devices;
mod objects;
mod standing;
mod towards;

pub use devices::{Device, devices, root_qdisc};
pub use standing::{StateWatch, Woken, networks_by, policy_rules, ruleset_generation, table_routes};
pub use towards::{Way, interface_mtu, towards};

use crate::udp::set_int;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto, socket,
};
use objects::{Objects, RTA_NH_ID};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use wavelane_base::IpPrefix;

/// The table that `ip route` shows by default (`RT_TABLE_MAIN`).
pub const TABLE_MAIN: u32 = 254;
/// This host's own addresses (`RT_TABLE_LOCAL`), which the kernel looks up first.
const TABLE_LOCAL: u32 = 255;

// linux/netlink.h
pub(crate) const NLM_F_REQUEST: u16 = 1;
pub(crate) const NLM_F_DUMP: u16 = 0x300;
const NLM_F_DUMP_INTR: u16 = 0x10;
pub(crate) const NLMSG_ERROR: u16 = 2;
pub(crate) const NLMSG_DONE: u16 = 3;
const NLA_TYPE_MASK: u16 = 0x3fff;
const NETLINK_GET_STRICT_CHK: libc::c_int = 12;
pub(crate) const HEADER: usize = 16;
// linux/rtnetlink.h
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const ROUTE: usize = 12;
const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;
const RTN_BLACKHOLE: u8 = 6;
const RTN_UNREACHABLE: u8 = 7;
const RTN_PROHIBIT: u8 = 8;
const RTN_THROW: u8 = 9;
const RTM_F_CLONED: u32 = 0x200;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTNH: usize = 8;
/// The interface or its carrier is missing (`RTNH_F_DEAD`, `RTNH_F_LINKDOWN`).
const RTNH_UNUSABLE: u32 = 1 | 16;
/// Links, addresses of both versions, routes of both versions, next hops that routes share.
const GROUPS: [u32; 6] = [1, 5, 9, 7, 11, 32];

/// Space for one answer; the kernel writes at most 32 KiB at once.
const ANSWER_ROOM: usize = 64 << 10;
/// Maximum number of reads of a table that changes while it is read.
const READS_MAX: usize = 4;
/// Maximum number of routes read from a table.
pub const ROUTES_MAX: usize = 1 << 16;

/// A block of addresses and where the kernel sends its traffic: of several routes to it the one with the least metric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelRoute {
    /// The block.
    pub prefix: IpPrefix,
    /// The next hops' addresses, `None` where targets are on the link or this host. If empty, traffic to the block is refused or dropped.
    pub next_hops: Vec<Option<IpAddr>>,
    metric: u32,
}

/// A watched table.
#[derive(Debug)]
pub struct RouteWatch {
    news: OwnedFd,
    table: u32,
}

impl RouteWatch {
    /// Watches table `table` of this thread's network namespace.
    pub fn open(table: u32) -> io::Result<Self> {
        let groups = GROUPS.iter().fold(0, |bits, group| bits | 1 << (group - 1));
        Ok(Self { news: netlink(groups)?, table })
    }

    /// Waits until a change may have affected the table; `false` once `stop` is readable or its other end closed.
    pub fn wait(&self, stop: BorrowedFd<'_>) -> io::Result<bool> {
        let mut both = [PollFd::new(self.news.as_fd(), PollFlags::POLLIN), PollFd::new(stop, PollFlags::POLLIN)];
        loop {
            match poll(&mut both, PollTimeout::NONE) {
                Err(nix::errno::Errno::EINTR) => {}
                Err(e) => return Err(e.into()),
                Ok(_) => break,
            }
        }
        if both[1].revents().is_some_and(|events| !events.is_empty()) {
            return Ok(false);
        }
        let mut buf = [0; 8 << 10];
        loop {
            // ENOBUFS: more messages arrived than fit, which also signals a change.
            match recv(self.news.as_raw_fd(), &mut buf, MsgFlags::MSG_DONTWAIT) {
                Ok(_) | Err(nix::errno::Errno::ENOBUFS | nix::errno::Errno::EINTR) => {}
                Err(nix::errno::Errno::EAGAIN) => return Ok(true),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// The table's routes that overlap one of the blocks `wanted`, and this host's own addresses among those.
    pub fn read(&self, wanted: &[IpPrefix]) -> io::Result<Vec<KernelRoute>> {
        let mut routes = Vec::new();
        for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
            for read in 1.. {
                let mut found = Found { wanted, routes: BTreeMap::new(), objects: Objects::read()? };
                let still = self.dump(family, self.table, &mut found)?;
                let still = self.dump(family, TABLE_LOCAL, &mut found)? && still;
                // A table that keeps changing is used as it is: its next change causes a new notification.
                if still || read == READS_MAX {
                    routes.extend(found.routes.into_values());
                    break;
                }
            }
        }
        Ok(routes)
    }

    /// `false` if the table changed meanwhile.
    fn dump(&self, family: u8, table: u32, found: &mut Found<'_>) -> io::Result<bool> {
        let fd = netlink(0)?;
        // Without it (Linux before 4.20) the routes of all tables are returned, and filtered here.
        let _ = set_int(&fd, libc::SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1);
        sendto(fd.as_raw_fd(), &request(family, table), &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        let mut buf = vec![0; ANSWER_ROOM];
        let mut whole = true;
        loop {
            let n = match recv(fd.as_raw_fd(), &mut buf, MsgFlags::empty()) {
                Ok(n) => n,
                Err(nix::errno::Errno::EINTR) => continue,
                Err(e) => return Err(e.into()),
            };
            for (kind, flags, body) in messages(&buf[..n]) {
                whole &= flags & NLM_F_DUMP_INTR == 0;
                match kind {
                    NLMSG_DONE => return Ok(whole),
                    NLMSG_ERROR => match u32_at(body, 0).map_or(0, u32::cast_signed) {
                        // A table that does not exist yet has no routes, and neither has a kernel without IPv6.
                        0 => {}
                        code if [-libc::ENOENT, -libc::EAFNOSUPPORT, -libc::EOPNOTSUPP].contains(&code) => {
                            return Ok(true);
                        }
                        code => return Err(io::Error::from_raw_os_error(-code)),
                    },
                    RTM_NEWROUTE => found.take(body, table)?,
                    _ => {}
                }
            }
        }
    }
}

fn netlink(groups: u32) -> io::Result<OwnedFd> {
    let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    bind(fd.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(fd)
}

/// A request for all routes of a table.
fn request(family: u8, table: u32) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(((HEADER + ROUTE + 8) as u32).to_ne_bytes());
    out.extend(RTM_GETROUTE.to_ne_bytes());
    out.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    out.extend([0; 8]);
    out.extend([family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    out.extend(8_u16.to_ne_bytes());
    out.extend(RTA_TABLE.to_ne_bytes());
    out.extend(table.to_ne_bytes());
    out
}

/// Writes an attribute behind others.
pub(crate) fn attribute(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).expect("attributes here are a few bytes long");
    out.extend_from_slice(&length.to_ne_bytes());
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// The messages in the received bytes: kind, flags and body.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, u16, &[u8])> {
    core::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let body = bytes.get(HEADER..length)?;
        let one = (u16_at(bytes, 4)?, u16_at(bytes, 6)?, body);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(one)
    })
}

/// Attributes: kind and value.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    core::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let one = (u16_at(bytes, 2)? & NLA_TYPE_MASK, bytes.get(4..length)?);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(one)
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// An IP address; its version follows from the number of octets.
fn address(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?))),
        16 => Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?))),
        _ => None,
    }
}

/// A gateway's address, from either attribute: `RTA_VIA` begins with its family.
fn gateway(kind: u16, value: &[u8]) -> Option<IpAddr> {
    match kind {
        RTA_GATEWAY => address(value),
        RTA_VIA => address(value.get(2..)?),
        _ => None,
    }
}

/// The next hops of a multipath route.
fn several(mut bytes: &[u8]) -> Vec<Option<IpAddr>> {
    let mut hops = Vec::new();
    while let Some(length) = u16_at(bytes, 0).map(usize::from) {
        let (Some(flags), Some(rest)) = (bytes.get(2), bytes.get(RTNH..length)) else { break };
        if u32::from(*flags) & RTNH_UNUSABLE == 0 {
            hops.push(attributes(rest).find_map(|(kind, value)| gateway(kind, value)));
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    hops
}

/// Routes read from a table.
struct Found<'a> {
    wanted: &'a [IpPrefix],
    routes: BTreeMap<(IpAddr, u8), KernelRoute>,
    objects: Objects,
}

impl Found<'_> {
    /// Accepts a route if it is of `table`, has a next hop or refuses traffic, and overlaps the wanted blocks.
    fn take(&mut self, body: &[u8], table: u32) -> io::Result<()> {
        let Some(route) = parse(body, table, &self.objects) else { return Ok(()) };
        let meets = |block: &IpPrefix| block.covers(&route.prefix) || route.prefix.contains(block.address);
        if !self.wanted.iter().any(meets) {
            return Ok(());
        }
        let key = (route.prefix.address, route.prefix.bits);
        let full = self.routes.len() == ROUTES_MAX;
        match self.routes.get_mut(&key) {
            None if full => {
                let what = format!(
                    "more than {ROUTES_MAX} routes lie within the peers' `routes`: name smaller networks there"
                );
                return Err(io::Error::other(what));
            }
            None => _ = self.routes.insert(key, route),
            // The host's own addresses are looked up first.
            Some(other) if table == TABLE_LOCAL => *other = route,
            Some(other) if route.metric < other.metric => *other = route,
            // IPv6's way of listing several next hops.
            Some(other) if route.metric == other.metric && route.prefix.address.is_ipv6() => {
                other.next_hops.extend(route.next_hops);
            }
            Some(_) => {}
        }
        Ok(())
    }
}

/// A route of `table` in the kernel's format; `None` for anything else.
fn parse(body: &[u8], table: u32, objects: &Objects) -> Option<KernelRoute> {
    let &[family, bits, source_bits, service, short_table, _, _, kind] = body.get(..8)? else { return None };
    let flags = u32_at(body, 8)?;
    let six = i32::from(family) == libc::AF_INET6;
    // Routes for only some sources or types of service are not considered.
    if flags & RTM_F_CLONED != 0 || source_bits != 0 || service != 0 || bits > if six { 128 } else { 32 } {
        return None;
    }
    let mut first = if six { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
    let (mut number, mut metric, mut via, mut device, mut over_several, mut object) =
        (u32::from(short_table), 0, None, false, None, None);
    for (kind, value) in attributes(body.get(ROUTE..)?) {
        match kind {
            RTA_DST => first = address(value).filter(|a| a.is_ipv6() == six)?,
            RTA_PRIORITY => metric = u32_at(value, 0)?,
            RTA_TABLE => number = u32_at(value, 0)?,
            RTA_OIF => device = true,
            RTA_MULTIPATH => over_several = Some(several(value)),
            RTA_NH_ID => object = u32_at(value, 0),
            _ => via = gateway(kind, value).or(via),
        }
    }
    // The kernel need not spell out what a next-hop object says (`nexthop_compat_mode`).
    let object = object.filter(|_| via.is_none() && !device && over_several.is_none());
    if let (RTN_UNICAST, Some(object)) = (kind, object.map(|id| objects.get(id))) {
        let next_hops = if flags & RTNH_UNUSABLE == 0 { object? } else { return None };
        return (number == table).then_some(KernelRoute {
            prefix: IpPrefix { address: first, bits },
            next_hops,
            metric,
        });
    }
    let next_hops = match kind {
        _ if number != table => return None,
        RTN_LOCAL if table == TABLE_LOCAL => vec![None],
        // The other entries of the local table are broadcast addresses.
        _ if table == TABLE_LOCAL => return None,
        RTN_UNICAST if over_several.is_some() => over_several.unwrap_or_default(),
        RTN_UNICAST if flags & RTNH_UNUSABLE != 0 || via.is_none() && !device => Vec::new(),
        RTN_UNICAST => vec![via],
        // `throw` ends the search of this table, the only one that is considered.
        RTN_BLACKHOLE | RTN_UNREACHABLE | RTN_PROHIBIT | RTN_THROW => Vec::new(),
        _ => return None,
    };
    // Ignored where no hop works: the kernel then continues with the next route.
    if kind == RTN_UNICAST && next_hops.is_empty() {
        return None;
    }
    Some(KernelRoute { prefix: IpPrefix { address: first, bits }, next_hops, metric })
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
