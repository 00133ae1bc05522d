//! What stands between this host and a peer and translates addresses (NAT), by what the peer sees of our lanes.

use crate::about::SeenLane;
use crate::status::{LaneReport, Peer};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// The remedy where nobody can call this host.
pub(super) const HAS_TO_CALL: &str = "this gateway has to call (keep the peer's `address` here, and `keepalive` on)";
/// So far back the peer says where a lane came from: what it saw of a younger lane may be another socket's.
const REMEMBERED_S: f64 = 600.0;

/// This host's own end of a lane, where it leads, and whence the peer sees it come.
struct Sight {
    name: String,
    own: SocketAddr,
    to: SocketAddr,
    mapped: SocketAddr,
    /// Where it came from earlier.
    before: Vec<SocketAddr>,
    /// Whether this side calls.
    calls: bool,
}

impl Sight {
    /// Whether its own port is known, which the system may have chosen.
    fn has_port(&self) -> bool {
        self.own.port() != 0
    }
    fn is_mapped(&self) -> bool {
        self.own.ip() != self.mapped.ip() || self.has_port() && self.own.port() != self.mapped.port()
    }
}

/// An IPv4 address as such, also of a socket for both IP versions.
fn plain(at: SocketAddr) -> SocketAddr {
    SocketAddr::new(at.ip().to_canonical(), at.port())
}

fn parse(text: &str) -> Option<SocketAddr> {
    text.parse().ok().map(plain)
}

fn sight(
    lane: &LaneReport,
    seen: &[SeenLane],
    source: &impl Fn(Option<&str>, SocketAddr) -> Option<IpAddr>,
) -> Option<Sight> {
    // What the peer saw of a lane that has failed since is not where it is now.
    let of = seen.iter().find(|of| lane.works && Some(of.lane) == lane.number)?;
    let to = parse(lane.address.as_deref()?)?;
    let bound = parse(lane.local.as_deref().unwrap_or(&lane.by))?;
    let ip = if bound.ip().is_unspecified() { source(lane.device.as_deref(), to)? } else { bound.ip() };
    Some(Sight {
        name: format!("{} by {}", lane.name, lane.by),
        own: SocketAddr::new(ip, bound.port()),
        to,
        mapped: parse(&of.address)?,
        before: if lane.socket_s < REMEMBERED_S {
            Vec::new()
        } else {
            of.before.iter().filter_map(|at| parse(at)).collect()
        },
        calls: lane.configured_address.is_some(),
    })
}

/// Each finding in a line. `seen` is what the peer says, `source` the address that this host sends from by a device, if one is given, to a
/// target. `None` if the peer says nothing of use.
pub(super) fn findings(
    peer: &Peer,
    seen: &[SeenLane],
    source: impl Fn(Option<&str>, SocketAddr) -> Option<IpAddr>,
) -> Option<Vec<String>> {
    let sights: Vec<Sight> = peer.lanes.iter().filter_map(|lane| sight(lane, seen, &source)).collect();
    if sights.is_empty() {
        return None;
    }
    let mut lines = Vec::new();
    let mut behind: BTreeMap<SocketAddr, Vec<&Sight>> = BTreeMap::new();
    for sight in sights.iter().filter(|sight| sight.is_mapped()) {
        let Sight { name, own, mapped, before, .. } = sight;
        let (own, port) = match own.port() {
            0 => (own.ip().to_string(), ""),
            port if port == mapped.port() => (own.to_string(), " (the port is kept)"),
            _ => (own.to_string(), " (the port is another one)"),
        };
        let stands = format!("{name}: a NAT stands before this host, and the peer");
        lines.push(match sight.calls {
            true => format!("{stands} sees {own} as {mapped}{port}: {HAS_TO_CALL}"),
            false => format!("{stands} reaches {own} at {mapped}{port}"),
        });
        // A host that moves changes its address, a NAT that forgets the port alone.
        if let Some(other) = before.iter().find(|other| other.ip() == mapped.ip() && *other != mapped) {
            lines.push(format!(
                "{name}: in the last ten minutes the peer saw it at {other} as well, so the NAT forgets the port in between: a shorter `keepalive` keeps it"
            ));
        }
    }
    sights
        .iter()
        .filter(|sight| sight.is_mapped() && sight.has_port() && sight.calls)
        .for_each(|sight| behind.entry(sight.own).or_default().push(sight));
    for (own, sights) in behind {
        lines.push(mapping(own, &sights));
    }
    Some(lines)
}

/// How the NAT maps one address and port of ours, and what follows, as RFC 5780, section 4.3, tells it apart by where several lanes lead.
fn mapping(own: SocketAddr, sights: &[&Sight]) -> String {
    let first = sights[0];
    let others = || sights.iter().filter(|sight| sight.to != first.to);
    let Some(other) = others().next() else {
        return format!(
            "whether others may call {own} through that NAT is not known: one lane alone leaves there; a second one to another port of the peer would show it"
        );
    };
    let Some(differs) = others().find(|sight| sight.mapped != first.mapped) else {
        let what = match others().any(|sight| sight.to.ip() != first.to.ip()) {
            true => "endpoint-independent mapping",
            false => "endpoint-independent or address-dependent mapping",
        };
        return format!(
            "that NAT shows {own} to {} and {} as {} alike ({what}): while this gateway calls one of them, others may find it there",
            first.to, other.to, first.mapped
        );
    };
    let what = match differs.to.ip() == first.to.ip() {
        true => "address- and port-dependent mapping",
        false => "address-dependent mapping, or address- and port-dependent",
    };
    format!(
        "that NAT shows {own} to {} as {} and to {} as {} ({what}): nobody can call this host; where the other gateway is behind such a NAT too, give both a lane to a third that both can call",
        first.to, first.mapped, differs.to, differs.mapped
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// What is found where lanes by one socket, to these destinations, are seen at these addresses.
    fn of(lanes: &[(&str, &str)], before: &[&str]) -> Vec<String> {
        let lane = |(number, (to, _)): (usize, &(&str, &str))| LaneReport {
            name: format!("lane {}", number + 1),
            by: "0.0.0.0:4780".into(),
            number: Some(number as u8),
            address: Some((*to).into()),
            configured_address: Some((*to).into()),
            works: true,
            socket_s: REMEMBERED_S,
            ..LaneReport::default()
        };
        let seen = lanes.iter().enumerate().map(|(number, (_, address))| SeenLane {
            lane: number as u8,
            address: (*address).into(),
            before: before.iter().map(|at| (*at).into()).collect(),
        });
        let peer = Peer { lanes: lanes.iter().enumerate().map(lane).collect(), ..Peer::default() };
        findings(&peer, &seen.collect::<Vec<_>>(), |_, _| Some([10, 0, 0, 2].into())).unwrap()
    }

    #[test]
    fn the_kind_is_told_in_the_words_of_the_standard() {
        let (a, b, c) = ("192.0.2.7:4780", "192.0.2.7:4781", "203.0.113.8:4780");
        assert!(of(&[(a, "10.0.0.2:4780"), (c, "[::ffff:10.0.0.2]:4780")], &[]).is_empty(), "no NAT");
        let has = |lanes: &[(&str, &str)], parts: &[&str]| {
            let lines = of(lanes, &[]).join("\n");
            assert!(parts.iter().all(|part| lines.contains(part)), "{parts:?}: {lines}");
        };
        let kept = "lane 1 by 0.0.0.0:4780: a NAT stands before this host, and the peer sees 10.0.0.2:4780 as 198.51.100.1:4780 (the port is kept)";
        has(&[(a, "198.51.100.1:4780")], &[kept, "a second one to another port of the peer would show it"]);
        let one = "198.51.100.1:50001";
        has(&[(a, one), (c, one)], &["(the port is another one)", "(endpoint-independent mapping): while"]);
        has(&[(a, one), (b, one)], &["(endpoint-independent or address-dependent mapping)"]);
        has(
            &[(a, one), (b, "198.51.100.1:50002")],
            &["(address- and port-dependent mapping): nobody can call this host"],
        );
        has(
            &[(a, one), (c, "198.51.100.1:50002")],
            &["(address-dependent mapping, or address- and port-dependent): nobody"],
        );
        let lines = of(&[(a, one)], &["198.51.100.1:50009", "203.0.113.9:50001"]).join("\n");
        assert!(lines.contains("saw it at 198.51.100.1:50009 as well") && !lines.contains("203.0.113.9"), "{lines}");
    }

    #[test]
    fn only_what_holds_of_the_lane_that_is_there_is_said() {
        let found = |change: &dyn Fn(&mut LaneReport), mapped: &str| {
            let (to, mut lane) = (Some("192.0.2.7:4780".to_owned()), LaneReport::default());
            lane.name = "lane 1".into();
            lane.by = "10.0.0.2:4780".into();
            lane.number = Some(0);
            lane.address = to.clone();
            lane.configured_address = to;
            lane.works = true;
            lane.socket_s = REMEMBERED_S;
            change(&mut lane);
            let seen = SeenLane {
                lane: 0,
                address: mapped.into(),
                before: vec!["198.51.100.1:9".into(), "10.0.0.2:9".into()],
            };
            let peer = Peer { lanes: vec![lane], ..Peer::default() };
            findings(&peer, &[seen], |_, _| None).map(|lines| lines.join("\n"))
        };
        let nat = "198.51.100.1:4780";
        assert!(found(&|_| (), nat).unwrap().contains("198.51.100.1:9 as well, so the NAT"));
        let young = found(&|lane| lane.socket_s = REMEMBERED_S - 1.0, nat).unwrap();
        assert!(young.contains("a NAT stands") && !young.contains("as well"), "another lane's: {young}");
        assert_eq!(found(&|_| (), "10.0.0.2:4780").as_deref(), Some(""), "no NAT that could forget");
        assert_eq!(found(&|lane| lane.works = false, nat), None, "failed");
        let of_system = |lane: &mut LaneReport| lane.local = Some("10.0.0.2:0".into());
        let text = found(&of_system, nat).unwrap();
        assert!(
            text.contains("sees 10.0.0.2 as 198.51.100.1:4780: this gateway") && !text.contains("the port is"),
            "{text}"
        );
        assert_eq!(found(&of_system, "10.0.0.2:50001").as_deref(), Some(""), "its port is not known");
        let called = |lane: &mut LaneReport| (lane.configured_address, lane.socket_s) = (None, 0.0);
        let reached = "lane 1 by 10.0.0.2:4780: a NAT stands before this host, and the peer reaches 10.0.0.2:4780 at 198.51.100.1:4780 (the port is kept)";
        assert_eq!(found(&called, nat).as_deref(), Some(reached));
    }

    #[test]
    fn what_a_peer_says_beyond_addresses_is_not_repeated() {
        let lane = LaneReport {
            number: Some(0),
            by: "0.0.0.0:4780".into(),
            address: Some("192.0.2.7:4780".into()),
            works: true,
            ..LaneReport::default()
        };
        let peer = Peer { lanes: vec![lane], ..Peer::default() };
        let found = |address: &str| {
            let seen = SeenLane { lane: 0, address: address.into(), before: vec!["\u{1b}[2J".into()] };
            findings(&peer, &[seen], |_, _| Some([10, 0, 0, 2].into()))
        };
        assert_eq!(found("\u{1b}[2J"), None);
        assert_eq!(found("10.0.0.2:4780"), Some(vec![]));
        assert_eq!(findings(&peer, &[], |_, _| None), None);
    }
}
