//! The addresses whose TCP is taken. The kernel's sets know no longest match, so it is worked out here.

use super::Down;
use super::tables::OF_SITES;
use crate::config::{Attached, Config, prefix_text, width};
use crate::system::family::Family;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wavelane_base::IpPrefix;
use wavelane_host::nft::{ToolError, run};

/// The networks that peers with split TCP have, each once.
pub(crate) fn split_routes(config: &Config, family: Family) -> Vec<IpPrefix> {
    routes(config, family, true)
}

/// The networks of all peers, each once.
pub(crate) fn all_routes(config: &Config, family: Family) -> Vec<IpPrefix> {
    routes(config, family, false)
}

fn routes(config: &Config, family: Family, only_split: bool) -> Vec<IpPrefix> {
    let peers = config.peers.iter().filter(|p| p.split || !only_split);
    let mut all: Vec<IpPrefix> =
        peers.flat_map(|p| p.routes.iter().copied()).filter(|r| Family::of(r) == family).collect();
    all.sort_by_key(|r| (r.address, r.bits));
    all.dedup();
    all
}

/// A network that one of this host's interfaces is attached to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Attachment {
    pub(crate) network: IpPrefix,
    device: String,
}

impl Attachment {
    /// What a line of the kernel's main table says: that an address of this host is within the network, as the kernel or a DHCP client
    /// wrote it (dhcpcd takes the kernel's own route away), or that a router said so (RFC 4861, prefix information). Not what else leads
    /// straight into a device, such as another tunnel's networks.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let after = |key: &str| words.iter().skip_while(|word| **word != key).nth(1).copied();
        let first = words.first()?;
        // A neighbour alone, as PPP has one, is listed without its length.
        let host = || first.parse().ok().map(|address| IpPrefix { address, bits: width(address) });
        let network: IpPrefix = first.parse().ok().or_else(host)?;
        let device = after("dev")?.to_owned();
        let is_own = || after("src").and_then(|own| own.parse().ok()).is_some_and(|own| network.contains(own));
        let is_attached = after("via").is_none()
            && match (after("proto"), network.address) {
                (Some("kernel"), _) => true,
                (Some("ra"), IpAddr::V6(_)) => true,
                _ => is_own(),
            };
        is_attached.then_some(Self { network, device })
    }
    pub(crate) fn device(&self) -> &str {
        &self.device
    }
    /// Whether it is left alone under a wider network of a peer. A network that we serve always is: what peers send there would come
    /// back to them otherwise.
    pub(crate) fn is_left_alone(&self, config: &Config) -> bool {
        let within = |wider: &IpPrefix| wider.covers(&self.network);
        let interfaces = config.intercept.iter().flat_map(|i| &i.interfaces);
        let is_served =
            interfaces.clone().any(|name| *name == self.device) || config.serves.iter().flatten().any(within);
        is_served
            || match config.attached {
                Attached::None => false,
                Attached::Private => {
                    OF_SITES.iter().flat_map(|of| of.split(", ")).any(|of| of.parse().is_ok_and(|of| within(&of)))
                }
                Attached::All => true,
            }
    }
}

impl std::fmt::Display for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", prefix_text(&self.network), self.device)
    }
}

/// The networks that are left alone under a wider one of a peer; a proxy's are those of its file.
pub(crate) fn attached(config: &Config) -> Result<Vec<IpPrefix>, ToolError> {
    if let Some(proxy) = config.intercept.as_ref().and_then(|i| i.proxy.as_ref()) {
        return Ok(proxy.exempt.clone());
    }
    let mut found: Vec<IpPrefix> =
        attachments(config)?.into_iter().filter(|a| a.is_left_alone(config)).map(|a| a.network).collect();
    found.dedup();
    Ok(found)
}

/// The networks that this host's interfaces are attached to, as the kernel's main table lists them, other than by our device.
pub(crate) fn attachments(config: &Config) -> Result<Vec<Attachment>, ToolError> {
    let device = config.tun.as_ref().map(|tun| tun.name.as_str());
    let mut found = Vec::new();
    for family in Family::here() {
        // The scope of IPv6 routes says nothing.
        let scope: &[&str] = if family == Family::V4 { &["scope", "link"] } else { &[] };
        let listing = run("ip", &[&[family.ip_flag(), "route", "show", "table", "main"], scope].concat(), "")?;
        found.extend(listing.lines().filter_map(Attachment::parse).filter(|a| Some(a.device.as_str()) != device));
    }
    found.sort_by(|a, b| {
        (a.network.address, a.network.bits, &a.device).cmp(&(b.network.address, b.network.bits, &b.device))
    });
    found.dedup();
    Ok(found)
}

/// Those of the `attached` networks that a wider network of a peer covers: they are reached plainly, packets and TCP alike, unless
/// a peer has the same network or a part of it.
pub(crate) fn excepted<'a>(networks: &'a [IpPrefix], attached: &'a [IpPrefix]) -> impl Iterator<Item = IpPrefix> + 'a {
    let inside = |a: &IpPrefix| networks.iter().any(|r| r.contains(a.address) && r.bits < a.bits);
    attached.iter().filter(move |a| inside(a) && !networks.contains(a)).copied()
}

/// The elements of the set of targets whose TCP is taken: the split networks less what belongs to peers that are `down`, and less
/// the `attached` networks that they cover.
pub(super) fn taken(config: &Config, family: Family, down: &Down, attached: &[IpPrefix]) -> Vec<String> {
    part_taken(config, split_routes(config, family), (family, down, attached))
}

/// The same of other `networks` of the peers.
pub(super) fn part_taken(
    config: &Config,
    networks: Vec<IpPrefix>,
    (family, down, attached): (Family, &Down, &[IpPrefix]),
) -> Vec<String> {
    let excepted: Vec<IpPrefix> =
        excepted(&networks, attached).filter(|network| Family::of(network) == family).collect();
    if down.is_empty() && excepted.is_empty() {
        return networks.into_iter().flat_map(|r| element(family, r)).collect();
    }
    // Between two ends of networks the longest match is the same for every address.
    let spans: Vec<(u128, u128)> = networks.iter().chain(&excepted).map(span).collect();
    let mut starts: Vec<u128> =
        spans.iter().flat_map(|(first, last)| [Some(*first), last.checked_add(1)]).flatten().collect();
    starts.sort_unstable();
    starts.dedup();
    // Whether a network's TCP is taken, by length: a peer that is up stands in for others that have the same network.
    let wanted: BTreeSet<(u8, u128)> = networks.iter().map(|network| (network.bits, span(network).0)).collect();
    let mut all: BTreeMap<(u8, u128), bool> = excepted.iter().map(|n| ((n.bits, span(n).0), false)).collect();
    for peer in &config.peers {
        let is_up = !down.contains(&peer.public_key);
        for network in peer.routes.iter().filter(|network| Family::of(network) == family) {
            let key = (network.bits, span(network).0);
            if wanted.contains(&key) {
                *all.entry(key).or_default() |= is_up;
            }
        }
    }
    let lengths: BTreeSet<u8> = all.keys().map(|(bits, _)| *bits).collect();
    let is_taken = |at: u128| {
        let found =
            |bits: &u8| all.get(&(*bits, span(&IpPrefix { address: address(family, at), bits: *bits }).0)).copied();
        // Behind the last network the addresses may be at an end.
        at <= last_of(family) && lengths.iter().rev().find_map(found).unwrap_or(false)
    };
    let mut ranges: Vec<(u128, u128)> = Vec::new();
    for (i, first) in starts.iter().enumerate().filter(|(_, at)| is_taken(**at)) {
        let last = starts.get(i + 1).map_or(last_of(family), |next| next - 1);
        match ranges.last_mut() {
            Some(before) if before.1 + 1 == *first => before.1 = last,
            _ => ranges.push((*first, last)),
        }
    }
    let text = |(first, last)| format!("{}-{}", address(family, first), address(family, last));
    ranges.into_iter().map(text).collect()
}

/// A network as elements of a set: everything as two halves, since a set cannot hold an interval of zero bits on every
/// nft version.
pub(super) fn element(family: Family, network: IpPrefix) -> Vec<String> {
    match network.bits {
        0 => family.halves().map(str::to_owned).to_vec(),
        _ => vec![prefix_text(&network)],
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u32::from(a).into(),
        IpAddr::V6(a) => a.into(),
    }
}

fn address(family: Family, number: u128) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::from(number as u32).into(),
        Family::V6 => Ipv6Addr::from(number).into(),
    }
}

fn last_of(family: Family) -> u128 {
    [u32::MAX.into(), u128::MAX][family as usize]
}

/// First and last address.
fn span(network: &IpPrefix) -> (u128, u128) {
    let host_bits = u32::from(width(network.address) - network.bits);
    let first = number(network.address).checked_shr(host_bits).map_or(0, |high| high << host_bits);
    (first, first | 1u128.checked_shl(host_bits).map_or(u128::MAX, |size| size - 1))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::keys;

    /// A configuration with these networks, one list per peer.
    fn with_routes(peers: &[&[&str]]) -> Config {
        let folder = std::env::temp_dir().join(format!(
            "wavelane-ranges-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        std::fs::create_dir_all(&folder).unwrap();
        keys::write_key(&folder.join("a.key"), &[1; 32]).unwrap();
        let mut text = "[gateway]\nname = \"a\"\nkey = \"a.key\"\nlisten = \"[::]:4780\"\n".to_owned();
        for (i, routes) in peers.iter().enumerate() {
            let key = keys::to_base64(&[i as u8 + 9; 32]);
            text += &format!("[[peer]]\nname = \"p{i}\"\npublic_key = \"{key}\"\nroutes = {routes:?}\n");
        }
        let config = Config::parse(&text, "x", &folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        config
    }

    fn taken_of(peers: &[&[&str]], down: &[usize], family: Family) -> Vec<String> {
        let config = with_routes(peers);
        let down: Down = down.iter().map(|i| config.peers[*i].public_key).collect();
        taken(&config, family, &down, &[])
    }

    /// A quadratic search would take minutes.
    #[test]
    fn very_many_networks_are_no_trouble() {
        let many: Vec<String> = (0..11_000_u32).map(|n| format!("10.{}.{}.0/25", n >> 8, n & 255)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let peers: [&[&str]; 2] = [&["10.0.0.0/8"], &many];
        assert_eq!(taken_of(&peers, &[0], Family::V4).len(), 11_000);
        assert_eq!(taken_of(&peers, &[1], Family::V4).len(), 11_000);
    }

    #[test]
    fn attached_networks_under_a_covering_route_are_left_alone() {
        let config = with_routes(&[&["0.0.0.0/0"], &["10.3.0.0/24", "192.168.7.128/25"]]);
        let attached: Vec<IpPrefix> =
            ["10.3.0.0/24", "192.168.7.0/24", "fd00::/64"].iter().map(|n| n.parse().unwrap()).collect();
        let but_the_lan = ["0.0.0.0-192.168.6.255", "192.168.7.128-255.255.255.255"];
        assert_eq!(
            taken(&config, Family::V4, &Down::new(), &attached),
            but_the_lan,
            "a peer's own networks are its own"
        );
        let apart: Vec<IpPrefix> = vec!["10.4.0.0/24".parse().unwrap()];
        let narrow = with_routes(&[&["10.3.0.0/24"]]);
        assert_eq!(taken(&narrow, Family::V4, &Down::new(), &apart), ["10.3.0.0/24"]);
    }

    #[test]
    fn public_networks_that_this_host_becomes_attached_to_stay_in_the_tunnel() {
        let mut config = with_routes(&[&["0.0.0.0/0", "::/0"]]);
        config.serves = Some(vec!["203.0.113.0/24".parse().unwrap()]);
        config.intercept = Some(crate::config::Intercept { interfaces: vec!["lan0".into()], local: true, proxy: None });
        let left = |config: &Config| -> Vec<&str> {
            let lines = [
                "10.2.0.0/24 dev wan0 proto kernel scope link src 10.2.0.1 ",
                "100.64.0.0/10 dev wan0 proto kernel scope link",
                "fe80::/64 dev wan0 proto kernel metric 256 pref medium",
                "fd00:2::/64 dev wan0 proto kernel metric 256 pref medium",
                // As a hostile network hands them out.
                "8.0.0.0/7 dev wan0 proto kernel scope link",
                "8.8.8.0/24 dev wan0 proto kernel scope link",
                "10.0.0.0/7 dev wan0 proto kernel scope link",
                "2001:4860::/32 dev wan0 proto kernel metric 256 pref medium",
                // What this host is the router of.
                "198.51.100.0/24 dev lan0 proto kernel scope link",
                "2001:db8:1::/64 dev lan0 proto kernel metric 256 pref medium",
                "203.0.113.128/25 dev dmz0 proto kernel scope link",
            ];
            let found = lines.map(|line| (line, Attachment::parse(line).unwrap()));
            found
                .iter()
                .filter(|(_, a)| a.is_left_alone(config))
                .map(|(line, _)| line.split(' ').next().unwrap())
                .collect()
        };
        let served = ["198.51.100.0/24", "2001:db8:1::/64", "203.0.113.128/25"];
        let private = ["10.2.0.0/24", "100.64.0.0/10", "fe80::/64", "fd00:2::/64"];
        assert_eq!(left(&config), [&private[..], &served].concat());
        config.attached = Attached::None;
        assert_eq!(left(&config), served);
        config.attached = Attached::All;
        assert_eq!(left(&config).len(), 11);
    }

    #[test]
    fn a_network_is_attached_if_an_address_of_ours_or_a_router_says_so() {
        let attached = |line: &str| Attachment::parse(line).map(|a| a.to_string());
        for (line, says) in [
            ("192.168.1.0/24 dev eth0 proto kernel src 192.168.1.5 metric 100 ", "192.168.1.0/24 (eth0)"),
            ("10.64.64.64 dev ppp0 proto kernel scope link src 10.0.0.7 ", "10.64.64.64/32 (ppp0)"),
            ("192.168.1.0/24 dev eth0 proto dhcp src 192.168.1.5 metric 202 ", "192.168.1.0/24 (eth0)"),
            ("2001:db8:1::/64 dev eth0 proto ra metric 202 pref medium", "2001:db8:1::/64 (eth0)"),
            ("2001:db8:2::/64 dev eth0 proto kernel metric 256 expires 86000sec pref medium", "2001:db8:2::/64 (eth0)"),
        ] {
            assert_eq!(attached(line).as_deref(), Some(says), "{line}");
        }
        for line in [
            "default dev ppp0 scope link",
            // As wg-quick writes them.
            "10.9.0.0/24 dev wg0 ",
            "10.9.0.0/24 dev wg0 proto static src 10.8.0.1",
            "10.9.0.0/24 via 10.8.0.1 dev tun0 proto static src 10.9.0.1",
            "2001:db8:3::/64 via fe80::1 dev eth0 proto ra metric 1024 pref medium",
            "fd09::/64 dev wg0 metric 1024 pref medium",
            "unreachable 10.9.0.0/24",
            "\tnexthop via 10.8.0.1 dev eth0 weight 1",
        ] {
            assert_eq!(attached(line), None, "{line}");
        }
    }

    #[test]
    fn networks_of_a_down_peer_are_left_out_by_longest_match() {
        let peers: [&[&str]; 2] = [&["10.0.0.0/8", "fd00::/16"], &["10.3.0.0/24", "10.4.0.0/24"]];
        assert_eq!(taken_of(&peers, &[], Family::V4), ["10.0.0.0/8", "10.3.0.0/24", "10.4.0.0/24"]);
        let around = ["10.0.0.0-10.2.255.255", "10.3.1.0-10.3.255.255", "10.4.1.0-10.255.255.255"];
        assert_eq!(taken_of(&peers, &[1], Family::V4), around);
        let within = ["10.3.0.0-10.3.0.255", "10.4.0.0-10.4.0.255"];
        assert_eq!(taken_of(&peers, &[0], Family::V4), within);
        assert_eq!(taken_of(&peers, &[0], Family::V6), [""; 0]);
        assert_eq!(taken_of(&peers, &[0, 1], Family::V4), [""; 0]);
    }

    #[test]
    fn one_of_equal_peers_keeps_a_network_intercepted() {
        let peers: [&[&str]; 3] = [&["10.3.0.0/24", "10.4.0.0/24"], &["10.3.0.0/24"], &["10.0.0.0/8"]];
        let but_one = ["10.0.0.0-10.3.255.255", "10.4.1.0-10.255.255.255"];
        assert_eq!(taken_of(&peers, &[0], Family::V4), but_one);
        let but_both = ["10.0.0.0-10.2.255.255", "10.3.1.0-10.3.255.255", "10.4.1.0-10.255.255.255"];
        assert_eq!(taken_of(&peers, &[0, 1], Family::V4), but_both);
    }

    #[test]
    fn everything_has_two_ends() {
        let peers: [&[&str]; 2] = [&["0.0.0.0/0", "::/0"], &["255.0.0.0/8", "ff00::/8"]];
        assert_eq!(taken_of(&peers, &[1], Family::V4), ["0.0.0.0-254.255.255.255"]);
        assert_eq!(taken_of(&peers, &[0], Family::V4), ["255.0.0.0-255.255.255.255"]);
        let last = "ff00::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        assert_eq!(taken_of(&peers, &[0], Family::V6), [last]);
        let adjoining: [&[&str]; 2] = [&["10.0.0.0/9", "10.128.0.0/9"], &["192.168.0.0/16"]];
        assert_eq!(taken_of(&adjoining, &[1], Family::V4), ["10.0.0.0-10.255.255.255"]);
    }
}
