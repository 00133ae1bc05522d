//! The network devices of this namespace, as the kernel lists them: what /sys shows may be another namespace's.

use super::standing::dump;
use super::{HEADER, NLM_F_REQUEST, attributes, u32_at};
use std::io;

// linux/rtnetlink.h, linux/if_link.h and linux/netlink.h
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const LINK: usize = 16;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
// struct tcmsg: family, interface, handle, parent, info.
const QDISC: usize = 20;
const ROOT: u32 = u32::MAX;
/// Most devices that are listed: as many as some bridges have ports.
const DEVICES_MAX: usize = 4_096;

/// A network device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its Ethernet address, if it has one.
    pub ethernet: Option<[u8; 6]>,
    /// Whether it is a bridge.
    pub is_bridge: bool,
    /// The kernel's number of it, and of the device that it is a port of.
    pub index: u32,
    /// See `index`.
    pub master: Option<u32>,
}

/// All of them.
pub fn devices() -> io::Result<Vec<Device>> {
    let mut ask = ((HEADER + LINK) as u32).to_ne_bytes().to_vec();
    ask.extend(RTM_GETLINK.to_ne_bytes());
    ask.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    ask.extend([0; 8 + LINK]);
    let mut found = Vec::new();
    dump(&ask, RTM_NEWLINK, |body| {
        let all = || attributes(body.get(LINK..).unwrap_or(&[]));
        let one = |wanted| all().find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
        let text = |value: &[u8]| String::from_utf8_lossy(value).trim_end_matches('\0').to_owned();
        let kind = one(IFLA_LINKINFO).and_then(|info| attributes(info).find(|(kind, _)| *kind == IFLA_INFO_KIND));
        if let Some(name) = one(IFLA_IFNAME).filter(|_| found.len() < DEVICES_MAX) {
            let ethernet = one(IFLA_ADDRESS).and_then(|octets| octets.try_into().ok());
            let is_bridge = kind.is_some_and(|(_, kind)| text(kind) == "bridge");
            let number = |octets: &[u8]| octets.try_into().map_or(0, u32::from_ne_bytes);
            let index = body.get(4..8).map_or(0, number);
            found.push(Device { name: text(name), ethernet, is_bridge, index, master: one(IFLA_MASTER).map(number) });
        }
    })?;
    Ok(found)
}

/// The handle of the queueing discipline that somebody set as an interface's root; 0 if that is the kernel's own.
pub fn root_qdisc(interface: u32) -> io::Result<u32> {
    let mut ask = ((HEADER + QDISC) as u32).to_ne_bytes().to_vec();
    ask.extend(RTM_GETQDISC.to_ne_bytes());
    ask.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    ask.extend([0; 8 + QDISC]);
    let mut handle = 0;
    dump(&ask, RTM_NEWQDISC, |body| {
        if (u32_at(body, 4), u32_at(body, 12)) == (Some(interface), Some(ROOT)) {
            handle = u32_at(body, 8).unwrap_or(0);
        }
    })?;
    Ok(handle)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::netns::{Netns, may_administer_network};
    use crate::tool::run;

    #[test]
    fn devices_have_names_addresses_and_may_be_bridges() {
        if !may_administer_network() {
            return eprintln!("SKIPPED (needs root): a list of devices");
        }
        let ns = Netns::new("t-devices").unwrap();
        ns.run(|| {
            run("ip", &["link", "add", "br7", "address", "02:00:00:00:00:07", "type", "bridge"], "").unwrap();
            run("ip", &["link", "add", "e0", "type", "veth", "peer", "name", "e1"], "").unwrap();
            run("ip", &["link", "set", "e0", "master", "br7"], "").unwrap();
            let all = devices().unwrap();
            let named = |name: &str| all.iter().find(|device| device.name == name).unwrap();
            assert!(named("br7").is_bridge && named("br7").ethernet == Some([2, 0, 0, 0, 0, 7]));
            assert!(!named("e1").is_bridge && named("lo").ethernet == Some([0; 6]));
            assert_eq!((named("e0").master, named("e1").master), (Some(named("br7").index), None));
            let root = |name: &str| root_qdisc(crate::interface_index(name).unwrap()).unwrap();
            run("tc", &["qdisc", "add", "dev", "e0", "root", "handle", "574c:", "pfifo"], "").unwrap();
            assert_eq!((root("e0"), root("e1")), (0x574c_0000, 0));
            run("tc", &["qdisc", "del", "dev", "e0", "root"], "").unwrap();
            assert_eq!(root("e0"), 0);
        })
        .unwrap();
    }
}
