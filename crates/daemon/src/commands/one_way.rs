//! What the kernel drops before it reaches a lane: it arrived by another interface than that of the route back.

use crate::config::LaneMedium;
use crate::config::{Config, Directions, PeerLane, lane_name};
use std::net::IpAddr;
use std::path::Path;
use wavelane_base::Address;
use wavelane_host::routes::towards;

/// The value of `rp_filter` that drops what comes from an address reached by another interface (ip-sysctl).
const STRICT: u8 = 1;

/// What the kernel drops of a one-way lane: packets from an address whose route uses another interface.
pub(super) fn filtered_here(config: &Config) -> Vec<String> {
    let by = |to: IpAddr| towards(to, None).ok().flatten().and_then(|way| wavelane_host::interface_name(way.device));
    let conf = Path::new("/proc/sys/net/ipv4/conf");
    let mut warnings = filtered(config, conf);
    warnings.extend(filtered_by_device(config, conf, by));
    warnings
}

/// For two-way lanes with a device: what arrives by it is dropped if the kernel's route back uses another interface.
fn filtered_by_device(config: &Config, conf: &Path, by: impl Fn(IpAddr) -> Option<String>) -> Vec<String> {
    let mut warnings = Vec::new();
    for peer in &config.peers {
        for (place, lane) in peer.lanes.iter().enumerate().filter(|(_, lane)| lane.ways == Directions::Both) {
            let Some(socket) = lane.socket.as_ref().filter(|socket| socket.medium.has_ip) else { continue };
            let Some(device) = &socket.device else { continue };
            let Some(to) = lane.number().and_then(Address::ip).map(|to| to.ip()).filter(IpAddr::is_ipv4) else {
                continue;
            };
            if setting(conf, device).max(setting(conf, "all")) != STRICT {
                continue;
            }
            let other = by(to);
            if other.as_ref() != Some(device) {
                let other = other.map_or_else(|| "it has no route".into(), |other| format!("its route is by {other}"));
                warnings.push(format!(
                    "peer '{}', {}: what comes from {to} by {device} is dropped, because {other} (rp_filter 1): run `sysctl -w net.ipv4.conf.{device}.rp_filter=2`",
                    peer.name,
                    lane_name(place)
                ));
            }
        }
    }
    warnings
}

/// An interface's `rp_filter`.
fn setting(conf: &Path, interface: &str) -> u8 {
    let text = std::fs::read_to_string(conf.join(interface).join("rp_filter")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// The same, of the settings in the folder `conf`.
fn filtered(config: &Config, conf: &Path) -> Vec<String> {
    let value = |name: &str| setting(conf, name);
    let udp = |lane: &&PeerLane| LaneMedium::of(lane.socket.as_ref()).has_ip;
    let taken = config.intercept.iter().flat_map(|intercept| &intercept.interfaces);
    let others: Vec<&str> = taken.map(String::as_str).chain(["all", "default", "lo"]).collect();
    let mut warnings = Vec::new();
    for peer in &config.peers {
        let lanes: Vec<&PeerLane> =
            peer.lanes.iter().filter(udp).filter(|lane| lane.ways != Directions::Both).collect();
        if lanes.is_empty() {
            continue;
        }
        // Packets of a lane that is not in the file arrive at `listen`, by any interface.
        let brought: Vec<&&PeerLane> = lanes.iter().filter(|lane| lane.ways == Directions::In).collect();
        let device = |lane: &&&PeerLane| lane.socket.as_ref().and_then(|socket| socket.device.clone());
        let devices: Vec<String> = brought.iter().filter_map(device).collect();
        let mut names = if !brought.is_empty() && devices.len() == brought.len() {
            devices
        } else {
            let entries = std::fs::read_dir(conf).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
        };
        names.sort();
        names.retain(|name| !others.contains(&name.as_str()) && value(name).max(value("all")) == STRICT);
        if !names.is_empty() {
            let settings: Vec<String> = names.iter().map(|name| format!("net.ipv4.conf.{name}.rp_filter=2")).collect();
            warnings.push(format!(
                "peer '{}' has one-way lanes, and what comes by {} from an address that is reached another way is dropped (rp_filter 1): run `sysctl -w {}` for the interface of such a lane",
                peer.name,
                names.join(", "),
                settings.join(" ")
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn check_warns_of_a_strict_rp_filter() {
        let dir = std::env::temp_dir().join(format!("wavelane-rp-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        for (name, value) in
            [("all", 0), ("default", 1), ("lo", 1), ("radio", 1), ("modem", 2), ("lan0", 1), ("eth9", 1)]
        {
            std::fs::create_dir_all(dir.join(name)).unwrap();
            std::fs::write(dir.join(name).join("rp_filter"), format!("{value}\n")).unwrap();
        }
        crate::keys::write_key(&dir.join("a.key"), &[1; 32]).unwrap();
        let warned = |lanes: &str| {
            let key = crate::keys::to_base64(&[9; 32]);
            let text = format!(
                "[gateway]\nname = \"a\"\nkey = \"a.key\"\n[intercept]\ninterfaces = [\"lan0\"]\n\
                 [[peer]]\nname = \"b\"\npublic_key = \"{key}\"\nroutes = [\"10.3.0.0/24\"]\n{lanes}"
            );
            let config = Config::parse(&text, "x", &dir).unwrap();
            let mut warnings = filtered(&config, &dir);
            // The kernel would send everything by `modem`.
            warnings.extend(filtered_by_device(&config, &dir, |_| Some("modem".into())));
            warnings
        };
        let both = |device: &str, to: &str| format!("[[peer.lane]]\naddress = \"{to}\"\ndevice = \"{device}\"\n");
        let back = warned(&format!("{}{}", both("modem", "192.0.2.1:1"), both("radio", "192.0.2.1:1"))).concat();
        assert!(back.contains("peer 'b', lane 2: what comes from 192.0.2.1 by radio is dropped"), "{back}");
        assert!(back.contains("its route is by modem") && back.ends_with("net.ipv4.conf.radio.rp_filter=2`"), "{back}");
        assert!(!back.contains("lane 1"), "{back}");
        let out = "[[peer.lane]]\naddress = \"192.0.2.1:1\"\ndirection = \"out\"\n";
        let by = |device: &str| format!("{out}[[peer.lane]]\ndevice = \"{device}\"\ndirection = \"in\"\n");
        assert_eq!(warned(""), Vec::<String>::new());
        assert_eq!(warned("[[peer.lane]]\naddress = \"192.0.2.1:1\"\n"), Vec::<String>::new());
        let anywhere = warned(out).concat();
        assert!(anywhere.contains("what comes by eth9, radio from"), "{anywhere}");
        let radio = warned(&by("radio")).concat();
        assert!(radio.contains("by radio from") && radio.contains("net.ipv4.conf.radio.rp_filter=2`"), "{radio}");
        assert_eq!(warned(&by("modem")), Vec::<String>::new());
        // Frames without IP are not filtered.
        let ethernet = "[[peer.lane]]\nmedium = \"ethernet\"\ndevice = \"radio\"\naddress = \"02:00:00:00:00:01\"\ndirection = \"out\"\n";
        assert_eq!(warned(ethernet), Vec::<String>::new());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
