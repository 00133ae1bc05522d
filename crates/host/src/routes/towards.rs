//! Route that the kernel would use (`ip route get`).

use super::{ANSWER_ROOM, HEADER, NLM_F_REQUEST, NLMSG_ERROR, ROUTE, RTA_DST, RTA_OIF, RTM_GETROUTE, RTM_NEWROUTE};
use super::{attributes, gateway, messages, netlink, u32_at};
use nix::sys::socket::{MsgFlags, NetlinkAddr, recv, sendto};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

/// Request the deciding entry of the table, and an error if there is none (`RTM_F_FIB_MATCH`).
const FIB_MATCH: u32 = 0x2000;

// linux/rtnetlink.h and linux/if_link.h
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const LINK: usize = 16;
const IFLA_MTU: u16 = 4;

/// Where the kernel would send packets for an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// The index of the outgoing device.
    pub device: u32,
    /// The next hop, if the target is not on the link.
    pub next_hop: Option<IpAddr>,
}

/// The route to `to`, only via `device` if one is named; `None` if there is none.
pub fn towards(to: IpAddr, device: Option<u32>) -> io::Result<Option<Way>> {
    let fd = netlink(0)?;
    sendto(fd.as_raw_fd(), &request(to, device), &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut buf = vec![0; ANSWER_ROOM];
    let n = recv(fd.as_raw_fd(), &mut buf, MsgFlags::empty())?;
    for (kind, _, body) in messages(&buf[..n]) {
        match kind {
            RTM_NEWROUTE => return Ok(parse(body)),
            NLMSG_ERROR => {
                let code = u32_at(body, 0).map_or(0, u32::cast_signed);
                let none = [-libc::ENETUNREACH, -libc::EHOSTUNREACH, -libc::EACCES, -libc::EINVAL];
                return if none.contains(&code) { Ok(None) } else { Err(io::Error::from_raw_os_error(-code)) };
            }
            _ => {}
        }
    }
    Ok(None)
}

/// The MTU of an interface; `None` if no interface has that index.
pub fn interface_mtu(index: u32) -> Option<u32> {
    let fd = netlink(0).ok()?;
    let mut out = ((HEADER + LINK) as u32).to_ne_bytes().to_vec();
    out.extend(RTM_GETLINK.to_ne_bytes());
    out.extend(NLM_F_REQUEST.to_ne_bytes());
    out.extend([0; 12]);
    out.extend(index.to_ne_bytes());
    out.extend([0; 8]);
    sendto(fd.as_raw_fd(), &out, &NetlinkAddr::new(0, 0), MsgFlags::empty()).ok()?;
    let mut buf = vec![0; ANSWER_ROOM];
    let n = recv(fd.as_raw_fd(), &mut buf, MsgFlags::empty()).ok()?;
    let link = messages(&buf[..n]).find(|(kind, _, _)| *kind == RTM_NEWLINK)?.2;
    attributes(link.get(LINK..)?).find(|(kind, _)| *kind == IFLA_MTU).and_then(|(_, value)| u32_at(value, 0))
}

fn request(to: IpAddr, device: Option<u32>) -> Vec<u8> {
    let (family, bits, octets) = match to {
        IpAddr::V4(v4) => (libc::AF_INET, 32, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, 128, v6.octets().to_vec()),
    };
    let mut body = vec![family as u8, bits, 0, 0, 0, 0, 0, 0];
    body.extend(FIB_MATCH.to_ne_bytes());
    let mut attribute = |kind: u16, value: &[u8]| {
        body.extend(((4 + value.len()) as u16).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(value);
    };
    attribute(RTA_DST, &octets);
    if let Some(device) = device {
        attribute(RTA_OIF, &device.to_ne_bytes());
    }
    let mut out = Vec::with_capacity(HEADER + ROUTE + 32);
    out.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    out.extend(RTM_GETROUTE.to_ne_bytes());
    out.extend(NLM_F_REQUEST.to_ne_bytes());
    out.extend([0; 8]);
    out.extend(body);
    out
}

/// Parses an answer.
fn parse(body: &[u8]) -> Option<Way> {
    let (mut device, mut next_hop) = (None, None);
    for (kind, value) in attributes(body.get(ROUTE..)?) {
        match kind {
            RTA_OIF => device = u32_at(value, 0),
            _ => next_hop = gateway(kind, value).or(next_hop),
        }
    }
    Some(Way { device: device?, next_hop })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::interface_index;
    use crate::netns::{Netns, may_administer_network};

    #[test]
    fn the_way_to_an_address_is_the_kernels() {
        if !may_administer_network() {
            eprintln!("SKIPPED (needs root): the way to an address");
            return;
        }
        let ns = Netns::new("t-towards").unwrap();
        ns.run(|| {
            for line in [
                "link add d0 type veth peer name d1",
                "address add 192.0.2.1/24 dev d0",
                "address add 203.0.113.1/24 dev d1",
                "link set d0 up mtu 1300",
                "link set d1 up",
                "route add default via 192.0.2.9",
                "route add 198.51.100.0/24 via 203.0.113.9 metric 500",
            ] {
                assert!(std::process::Command::new("ip").args(line.split(' ')).status().unwrap().success(), "{line}");
            }
            let index = |name: &str| interface_index(name).unwrap();
            let way = |to: &str, by: Option<&str>| {
                let way = towards(to.parse().unwrap(), by.map(index)).unwrap();
                way.map(|way| (way.device, way.next_hop.map(|hop| hop.to_string())))
            };
            assert_eq!(way("192.0.2.7", None), Some((index("d0"), None)));
            assert_eq!(way("10.1.1.1", None), Some((index("d0"), Some("192.0.2.9".into()))));
            assert_eq!(way("198.51.100.7", Some("d1")), Some((index("d1"), Some("203.0.113.9".into()))));
            assert_eq!(way("10.1.1.1", Some("d1")), None, "none by that device");
            assert_eq!(way("2001:db8::7", None), None);
            assert_eq!((interface_mtu(index("d0")), interface_mtu(9_999)), (Some(1_300), None));
        })
        .unwrap();
    }
}
