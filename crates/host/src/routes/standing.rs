//! What stands in the kernel's routing tables, policy rules and nft rulesets, and word of changes to them.
//!
//! Contents are compared as the kernel's own messages, so nothing of them needs to be understood here.

use super::{ANSWER_ROOM, ROUTES_MAX, TABLE_MAIN, address, attribute, attributes, messages, netlink, request, u32_at};
use super::{
    HEADER, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, ROUTE, RTA_DST, RTA_OIF, RTA_TABLE, RTM_NEWROUTE,
};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto, socket,
};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use wavelane_base::IpPrefix;

/// Links, addresses of both versions, routes of both versions, policy rules of both versions, IPv4's settings of interfaces, disciplines
/// and filters of `tc` (linux/rtnetlink.h).
const STATE_GROUPS: [u32; 9] = [1, 5, 9, 7, 11, 8, 19, 24, 4];
/// linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h
const NFNLGRP_NFTABLES: u32 = 7;
const NFT_MSG_GETGEN: u16 = 10 << 8 | 16;
const NFT_MSG_NEWGEN: u16 = 10 << 8 | 15;
const NFTA_GEN_ID: u16 = 1;
const NFGEN: usize = 4;
/// linux/rtnetlink.h, linux/fib_rules.h
const RTM_NEWRULE: u16 = 32;
const RTM_GETRULE: u16 = 34;
const RTM_NEWQDISC: u16 = 36;
const RTM_NEWTCLASS: u16 = 40;
const FRA_PRIORITY: u16 = 6;
const RTA_CACHEINFO: u16 = 12;
/// Messages read at once; the rest wait for the next call.
const MESSAGES_MAX: usize = 4_096;

/// Sockets that receive word of changes. Where one cannot be had, changes are found by looking.
#[derive(Debug)]
pub struct StateWatch {
    sockets: Vec<OwnedFd>,
}

/// Why a wait ended; neither if the time is up.
#[derive(Clone, Copy, Debug)]
pub struct Woken {
    /// The caller's bell is readable, or its other end closed.
    pub bell: bool,
    /// Something changed.
    pub changed: bool,
}

impl StateWatch {
    /// Watches this thread's network namespace. Word of nft rulesets needs CAP_NET_ADMIN.
    pub fn open() -> Self {
        let groups = STATE_GROUPS.iter().fold(0, |bits, group| bits | 1 << (group - 1));
        let rulesets = || {
            let fd = netfilter()?;
            bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 1 << (NFNLGRP_NFTABLES - 1)))?;
            Ok::<OwnedFd, io::Error>(fd)
        };
        Self { sockets: [netlink(groups), rulesets()].into_iter().flatten().collect() }
    }
    /// Waits for a change, for the bell, or for the time to be up.
    pub fn wait(&self, bell: BorrowedFd<'_>, time: Duration) -> Woken {
        let mut all = vec![PollFd::new(bell, PollFlags::POLLIN)];
        all.extend(self.sockets.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
        pause(&mut all, time);
        let ready: Vec<bool> = all.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        drop(all);
        let mut changed = false;
        for fd in self.sockets.iter().zip(&ready[1..]).filter_map(|(fd, ready)| ready.then_some(fd)) {
            let mut buf = [0; 4_096];
            for _ in 0..MESSAGES_MAX {
                match recv(fd.as_raw_fd(), &mut buf, MsgFlags::MSG_DONTWAIT) {
                    Ok(len) => changed |= !is_of_rates(&buf[..len]),
                    // What was lost may be anything.
                    Err(Errno::ENOBUFS) => changed = true,
                    Err(Errno::EINTR) => {}
                    Err(_) => break,
                }
            }
        }
        Woken { bell: ready[0], changed }
    }
    /// Waits for the bell only.
    pub fn rest(bell: BorrowedFd<'_>, time: Duration) {
        pause(&mut [PollFd::new(bell, PollFlags::POLLIN)], time);
    }
}

/// Whether it is word of a discipline or a class that is set up or changed, as a shaper does several times a second: neither takes
/// packets away without a filter.
fn is_of_rates(message: &[u8]) -> bool {
    let kind = message.get(4..6).and_then(|kind| kind.try_into().ok()).map(u16::from_ne_bytes);
    kind.is_some_and(|kind| [RTM_NEWQDISC, RTM_NEWTCLASS].contains(&kind))
}

fn pause(all: &mut [PollFd<'_>], time: Duration) {
    let time = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
    // An interrupted wait is a short one.
    let _ = poll(all, time);
}

fn netfilter() -> io::Result<OwnedFd> {
    Ok(socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkNetFilter)?)
}

/// The policy rules of both IP versions with one of these priorities, in an order of their own.
pub fn policy_rules(priorities: &[u32]) -> io::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
        let mut ask = request(family, 0);
        ask[4..6].copy_from_slice(&RTM_GETRULE.to_ne_bytes());
        // Without the attribute that names a table.
        ask.truncate(HEADER + ROUTE);
        ask[..4].copy_from_slice(&((HEADER + ROUTE) as u32).to_ne_bytes());
        dump(&ask, RTM_NEWRULE, |body| {
            let mut all = attributes(body.get(ROUTE..).unwrap_or(&[]));
            let priority = all.find_map(|(kind, value)| (kind == FRA_PRIORITY).then(|| u32_at(value, 0))).flatten();
            if priority.is_some_and(|priority| priorities.contains(&priority)) {
                // Its flags say whether its interface is there now.
                found.push([&body[..8], &body[ROUTE..]].concat());
            }
        })?;
    }
    found.sort_unstable();
    Ok(found)
}

/// The routes of both IP versions in one of these tables, in an order of their own.
pub fn table_routes(tables: &[u32]) -> io::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    let mut names: BTreeMap<u32, String> = BTreeMap::new();
    let mut name_of =
        |index: u32| names.entry(index).or_insert_with(|| crate::interface_name(index).unwrap_or_default()).clone();
    for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
        for table in tables {
            dump(&request(family, *table), RTM_NEWROUTE, |body| {
                let (Some(head), Some(rest)) = (body.get(..8), body.get(ROUTE..)) else { return };
                let of = attributes(rest).find_map(|(kind, value)| (kind == RTA_TABLE).then(|| u32_at(value, 0)));
                if of.flatten() != Some(*table) || found.len() >= ROUTES_MAX {
                    return;
                }
                // Neither the flags of the carrier nor ages; a device that was made again has its name and another number.
                let mut one = head.to_vec();
                for (kind, value) in attributes(rest).filter(|(kind, _)| *kind != RTA_CACHEINFO) {
                    one.extend(kind.to_ne_bytes());
                    match u32_at(value, 0).filter(|_| kind == RTA_OIF) {
                        Some(index) => one.extend(name_of(index).as_bytes()),
                        None => one.extend(value),
                    }
                }
                found.push(one);
            })?;
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The networks that the main table has the kernel reach by one device, by both IP versions.
pub fn networks_by(device: u32) -> io::Result<Vec<IpPrefix>> {
    let mut found = Vec::new();
    for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
        let mut ask = request(family, TABLE_MAIN);
        attribute(&mut ask, RTA_OIF, &device.to_ne_bytes());
        let length = (ask.len() as u32).to_ne_bytes();
        ask[..4].copy_from_slice(&length);
        dump(&ask, RTM_NEWROUTE, |body| {
            let (Some(bits), Some(table), Some(rest)) = (body.get(1), body.get(4), body.get(ROUTE..)) else { return };
            let one = |wanted| attributes(rest).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
            // A kernel that does not filter lists all.
            let is_by =
                one(RTA_OIF).and_then(|value| u32_at(value, 0)) == Some(device) && u32::from(*table) == TABLE_MAIN;
            let any = if family == libc::AF_INET as u8 { [0; 4].as_slice() } else { &[0; 16] };
            if let Some(address) = address(one(RTA_DST).unwrap_or(any)).filter(|_| is_by && found.len() < ROUTES_MAX) {
                found.push(IpPrefix { address, bits: *bits });
            }
        })?;
    }
    Ok(found)
}

/// The number that changes with every change of the nft rulesets of this network namespace; `None` if it cannot be had.
pub fn ruleset_generation() -> Option<u32> {
    let fd = netfilter().ok()?;
    let mut ask = Vec::new();
    ask.extend(((HEADER + NFGEN) as u32).to_ne_bytes());
    ask.extend(NFT_MSG_GETGEN.to_ne_bytes());
    ask.extend(NLM_F_REQUEST.to_ne_bytes());
    ask.extend([0; 8 + NFGEN]);
    sendto(fd.as_raw_fd(), &ask, &NetlinkAddr::new(0, 0), MsgFlags::empty()).ok()?;
    let mut buf = [0; 4_096];
    // The kernel answers within the call above.
    let n = recv(fd.as_raw_fd(), &mut buf, MsgFlags::MSG_DONTWAIT).ok()?;
    let (_, _, body) = messages(&buf[..n]).find(|(kind, ..)| *kind == NFT_MSG_NEWGEN)?;
    let id = attributes(body.get(NFGEN..)?).find(|(kind, _)| *kind == NFTA_GEN_ID)?.1;
    Some(u32::from_be_bytes(id.get(..4)?.try_into().ok()?))
}

/// Has everything of one kind listed.
pub(super) fn dump(ask: &[u8], kind: u16, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    debug_assert!(ask[6..8] == (NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes(), "a request for a list");
    let fd = netlink(0)?;
    let _ = crate::udp::set_int(&fd, libc::SOL_NETLINK, super::NETLINK_GET_STRICT_CHK, 1);
    sendto(fd.as_raw_fd(), ask, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut buf = vec![0; ANSWER_ROOM];
    loop {
        let n = match recv(fd.as_raw_fd(), &mut buf, MsgFlags::empty()) {
            Ok(n) => n,
            Err(Errno::EINTR) => continue,
            Err(e) => return Err(e.into()),
        };
        for (found, _, body) in messages(&buf[..n]) {
            match found {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => match u32_at(body, 0).map_or(0, u32::cast_signed) {
                    // A table that does not exist has no routes, and neither has a kernel without IPv6.
                    0 => {}
                    code if [-libc::ENOENT, -libc::EAFNOSUPPORT, -libc::EOPNOTSUPP].contains(&code) => return Ok(()),
                    code => return Err(io::Error::from_raw_os_error(-code)),
                },
                _ if found == kind => take(body),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::netns::{Netns, may_administer_network};
    use std::os::unix::net::UnixStream;

    #[test]
    fn rules_routes_and_rulesets_are_seen_and_told_of() {
        if !may_administer_network() {
            eprintln!("SKIPPED (needs root): word of policy rules, routes and rulesets");
            return;
        }
        let ns = Netns::new("t-standing").unwrap();
        ns.run(|| {
            let sh = |line: &str| {
                let mut words = line.split(' ');
                let status = std::process::Command::new(words.next().unwrap()).args(words).status().unwrap();
                assert!(status.success(), "{line}");
            };
            let seen = || (policy_rules(&[77]).unwrap(), table_routes(&[99]).unwrap(), ruleset_generation());
            sh("ip link set lo up");
            let (watch, (_ring, bell)) = (StateWatch::open(), UnixStream::pair().unwrap());
            let told = || watch.wait(bell.as_fd(), Duration::from_secs(1)).changed;
            let (rules, routes, generation) = seen();
            assert_eq!((rules.len(), routes.len(), generation.is_some()), (0, 0, true));
            for line in [
                "ip rule add fwmark 7 lookup 99 priority 77",
                "ip -6 rule add fwmark 7 lookup 99 priority 77",
                "ip route add unreachable 192.0.2.0/24 table 99",
                "nft add table inet other",
            ] {
                sh(line);
                assert!(told(), "{line}");
            }
            let all = seen();
            assert_eq!((all.0.len(), all.1.len()), (2, 1));
            assert_ne!(all.2, generation);
            assert!(!watch.wait(bell.as_fd(), Duration::ZERO).changed);
            assert_eq!(seen(), all, "what did not change is the same");
            // Made again it has another number.
            sh("ip tuntap add t0 mode tun");
            let with_device = |line: &str| {
                sh("ip link set t0 up");
                sh(line);
                table_routes(&[99]).unwrap()
            };
            let through = with_device("ip route add 198.51.100.0/24 dev t0 table 99");
            sh("ip link del t0");
            assert_eq!(table_routes(&[99]).unwrap(), all.1);
            sh("ip tuntap add t1 mode tun");
            sh("ip tuntap add t0 mode tun");
            assert_eq!(with_device("ip route add 198.51.100.0/24 dev t0 table 99"), through);
            for line in ["192.0.2.0/25 dev t0", "default dev t0", "2001:db8::/32 dev t0", "198.18.0.0/15 dev lo"] {
                sh(&format!("ip route add {line}"));
            }
            let by = networks_by(crate::interface_index("t0").unwrap()).unwrap();
            let by: Vec<String> = by.iter().map(|network| format!("{}/{}", network.address, network.bits)).collect();
            for network in ["192.0.2.0/25", "0.0.0.0/0", "2001:db8::/32"] {
                assert!(by.iter().any(|one| one == network), "{network}: {by:?}");
            }
            assert!(!by.iter().any(|one| one.starts_with("198.")), "{by:?}");
            sh("ip link del t0");
            sh("ip rule del priority 77");
            sh("ip route flush table 99");
            assert!(told());
            assert_eq!((seen().0.len(), seen().1.len()), (1, 0));
        })
        .unwrap();
    }
}
