//! What a gateway tells a neighbour about its configuration, as far as it is that neighbour's business; and where the two contradict
//! one another.

use crate::config::{Config, Directions, Peer, Source, prefix_text, width};
use crate::keys;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::net::IpAddr;
use wavelane_base::IpPrefix;
use wavelane_wire::datagram::WIRE_VERSION;

/// The document's format name.
const FORMAT: &str = "wavelane-about/1";
/// No document is longer: with every list as long as a file may have it.
pub(crate) const ABOUT_MAX: usize = 256 << 10;
/// Clocks that differ by less are in order: it takes as long to ask.
const CLOCKS_APART_S: f64 = 5.0;

/// One side's configuration towards the other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    format: String,
    /// This side's name for itself.
    pub(crate) name: String,
    /// Its name for the other.
    peer: String,
    /// Version of the program.
    version: String,
    wire_version: u8,
    /// Its time of day, seconds since 1970.
    clock_s: f64,
    /// Networks that it reaches through the other.
    routes: Vec<String>,
    /// Networks that the other may reach through it.
    targets: Vec<String>,
    /// Networks on its own side; nothing if it does not say.
    serves: Option<Vec<String>>,
    /// Networks from which the other's connections and packets may come; nothing if sources are not looked at.
    sources: Option<Vec<String>>,
    /// Whether it connects from the applications' own addresses.
    keeps_sources: bool,
    /// The MTU of its packet door, if it has one.
    tun_mtu: Option<u16>,
    /// That door's own addresses, which packets reach whatever it serves. Older programs do not say.
    tun_addresses: Vec<String>,
    /// Whether TCP to the other is split.
    split: bool,
    /// Whether it seals flows from edge to edge.
    seal: bool,
    /// How many of its lanes lead to the other.
    lanes: usize,
    /// Its public key, the one that it has for the other, and whether a preshared key goes with it. Older programs do not say.
    key: Option<String>,
    peer_key: Option<String>,
    preshared: Option<bool>,
    /// Where the other's lanes come from, as it sees them.
    #[serde(default)]
    pub(crate) seen: Vec<SeenLane>,
}

/// Where one of the other's lanes comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SeenLane {
    /// The lane's number at the other.
    pub(crate) lane: u8,
    /// Its address and port.
    pub(crate) address: String,
    /// Others that it came from in the last ten minutes.
    pub(crate) before: Vec<String>,
}

fn texts(prefixes: &[IpPrefix]) -> Vec<String> {
    prefixes.iter().map(prefix_text).collect()
}

impl About {
    /// What `config` says towards `peer`, at a time of day.
    pub(crate) fn of(config: &Config, peer: &Peer, wall_nanos: u64) -> Self {
        let keeps_sources = config.source == Source::Keep;
        let behind = || texts(&[peer.routes.as_slice(), peer.allow_sources.as_deref().unwrap_or_default()].concat());
        // Packets' sources are always looked at.
        let looks = keeps_sources || config.tun.is_some() || peer.allow_sources.is_some();
        let out = peer.lanes.iter().filter(|lane| lane.ways != Directions::In).count();
        Self {
            format: FORMAT.into(),
            name: config.name.clone(),
            peer: peer.name.clone(),
            version: env!("WAVELANE_VERSION").into(),
            wire_version: WIRE_VERSION,
            clock_s: wall_nanos as f64 / 1e9,
            routes: texts(&peer.routes),
            targets: texts(config.targets(peer)),
            serves: config.serves.as_deref().map(texts),
            sources: looks.then(behind),
            keeps_sources,
            tun_mtu: config.tun.as_ref().map(|tun| tun.mtu),
            tun_addresses: config
                .tun
                .iter()
                .flat_map(|tun| tun.addresses.iter().map(|own| host_text(own.address)))
                .collect(),
            split: peer.split,
            seal: config.seals(),
            lanes: out.max(1),
            key: Some(keys::to_base64(&keys::public_key(&config.private_key))),
            peer_key: Some(keys::to_base64(&peer.public_key)),
            preshared: Some(peer.preshared_key.is_some()),
            seen: Vec::new(),
        }
    }

    /// Reads what a neighbour said.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok().filter(|about: &Self| about.format == FORMAT)
    }
}

/// What the two sides say together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// Each finding in a line.
    pub text: String,
    /// Whether nothing is wrong.
    pub sound: bool,
}

impl Compared {
    fn wrong(&mut self, what: &str) {
        let _ = writeln!(self.text, "  wrong {what}");
        self.sound = false;
    }
    fn note(&mut self, what: &str) {
        let _ = writeln!(self.text, "  note  {what}");
    }
    fn fine(&mut self, what: &str) {
        let _ = writeln!(self.text, "  ok    {what}");
    }
}

/// Those of `parts` that no block of `whole` covers. Text that is no block, from a neighbour, counts as not covered.
/// The network of one host.
fn host_text(address: IpAddr) -> String {
    prefix_text(&IpPrefix { address, bits: width(address) })
}

fn uncovered(parts: &[String], whole: &[String]) -> Vec<String> {
    let whole: Vec<IpPrefix> = whole.iter().filter_map(|text| text.parse().ok()).collect();
    let covered = |part: &IpPrefix| whole.iter().any(|block| block.covers(part));
    parts.iter().filter(|text| !text.parse().is_ok_and(|part| covered(&part))).cloned().collect()
}

/// Where the two sides contradict one another. `spread_s` is how long the other's time of day was on its way, at most.
pub(crate) fn compare(ours: &About, theirs: &About, spread_s: f64) -> Compared {
    let mut found = Compared { text: format!("this gateway and peer {}\n", ours.peer), sound: true };
    same_keys(&mut found, ours, theirs);
    reach(&mut found, ours, theirs, ("here", "there"));
    reach(&mut found, theirs, ours, ("there", "here"));
    let both: Vec<&String> = ours.routes.iter().filter(|route| theirs.routes.contains(route)).collect();
    for route in both {
        found.wrong(&format!("each takes {route} for a network behind the other: remove it from the peer's `routes` on the side that has it"));
    }
    match (ours.tun_mtu, theirs.tun_mtu) {
        (Some(_), None) => {
            found.wrong("only this side has a [tun] table, so what is not TCP is lost there: add one there")
        }
        (None, Some(_)) => found.wrong(
            "only the other side has a [tun] table, so what it sends that is not TCP is lost here: add one here",
        ),
        (Some(a), Some(b)) if a != b => {
            found.note(&format!("tun.mtu is {a} here and {b} there: the larger packets are cut on their way"))
        }
        _ => {}
    }
    if ours.seal != theirs.seal {
        let side = if ours.seal { "there" } else { "here" };
        found.wrong(&format!(
            "flows over relays are sealed on one side alone, so they are refused: set gateway.seal {side} too"
        ));
    }
    let apart = theirs.clock_s - ours.clock_s;
    if apart.abs() > CLOCKS_APART_S + spread_s {
        let what = if apart > 0.0 { "ahead of" } else { "behind" };
        found.note(&format!("its clock is {:.0} s {what} this one: logs do not match, and a restart with a clock set back may be refused; run an NTP client on both", apart.abs()));
    }
    if ours.version != theirs.version {
        found.note(&format!(
            "here runs {}, there {}: they talk (wire version {}); upgrade the other when convenient",
            ours.version, theirs.version, theirs.wire_version
        ));
    }
    if found.sound {
        found.fine("routes, permissions and doors of both sides fit together");
    }
    found
}

/// Whether each has the other's key. The file may name others than those by which the gateways talk now.
fn same_keys(found: &mut Compared, ours: &About, theirs: &About) {
    let differ = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
    if differ(&ours.key, &theirs.peer_key) {
        found.wrong("the other side has another public key for this gateway: put that of this file's `key` there (`wavelane check` prints it), or name the former `key` here");
    }
    if differ(&ours.peer_key, &theirs.key) {
        found.wrong("the peer's `public_key` here is not the key that it has: put that here");
    }
    match (ours.preshared, theirs.preshared) {
        (Some(true), Some(false)) => found
            .wrong("only this side has a preshared_key for the other, so neither would understand the other: name a copy of it there"),
        (Some(false), Some(true)) => found
            .wrong("only the other side has a preshared_key for this one, so neither would understand the other: name a copy of it here"),
        _ => {}
    }
}

/// Whether what `one` wants to reach is what `other` lets it.
fn reach(found: &mut Compared, one: &About, other: &About, (here, there): (&str, &str)) {
    let reached: Vec<String> = other.targets.iter().chain(&other.tun_addresses).cloned().collect();
    for route in uncovered(&one.routes, &reached) {
        found.wrong(&format!("{route} is a route {here}, and not served {there}: list it in gateway.serves or the peer's allow_targets {there}, or remove the route {here}"));
    }
    if let (Some(serves), Some(sources)) = (&one.serves, &other.sources)
        && !one.routes.is_empty()
    {
        for network in uncovered(serves, sources) {
            found.wrong(&format!("what comes from {network}, a network {here}, is refused {there}: list it in the peer's `routes` or allow_sources {there}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(blocks: &[&str]) -> Vec<String> {
        blocks.iter().map(|block| (*block).to_owned()).collect()
    }

    /// A ship and its shore, which fit together.
    fn sides() -> (About, About) {
        let ship = About {
            format: FORMAT.into(),
            peer: "shore".into(),
            version: "1".into(),
            clock_s: 1_000.0,
            routes: list(&["10.3.0.0/24"]),
            targets: list(&["10.1.0.0/24"]),
            serves: Some(list(&["10.1.0.0/24"])),
            sources: Some(list(&["10.3.0.0/16"])),
            split: true,
            lanes: 1,
            key: Some("A".into()),
            peer_key: Some("B".into()),
            preshared: Some(false),
            ..About::default()
        };
        let shore = About {
            peer: "ship".into(),
            routes: list(&["10.1.0.0/24"]),
            targets: list(&["10.3.0.0/16"]),
            serves: Some(list(&["10.3.0.0/16"])),
            sources: Some(list(&["10.1.0.0/24"])),
            key: Some("B".into()),
            peer_key: Some("A".into()),
            ..ship.clone()
        };
        (ship, shore)
    }

    #[test]
    fn sides_that_fit_are_said_to() {
        let (ship, shore) = sides();
        let found = compare(&ship, &shore, 0.0);
        assert!(found.sound && found.text.contains("  ok    routes, permissions and doors"), "{found:?}");
        assert!(!found.text.contains("note"), "{found:?}");
        // One that does not say is taken for right.
        let found = compare(&ship, &About { key: None, peer_key: None, preshared: None, ..shore }, 0.0);
        assert!(found.sound, "{found:?}");
    }

    #[test]
    fn each_contradiction_is_named_with_its_remedy() {
        let found = |sound: bool, change: &dyn Fn(&mut About, &mut About), part: &str| {
            let (mut ship, mut shore) = sides();
            change(&mut ship, &mut shore);
            let found = compare(&ship, &shore, 1.0);
            assert!(found.sound == sound && found.text.contains(part), "{part}: {found:?}");
        };
        found(
            false,
            &|ship, _| ship.routes.push("10.4.0.0/24".into()),
            "wrong 10.4.0.0/24 is a route here, and not served there: list it in gateway.serves",
        );
        found(
            false,
            &|_, shore| shore.routes.push("nonsense".into()),
            "wrong nonsense is a route there, and not served here",
        );
        found(
            false,
            &|_, shore| shore.targets = list(&["10.3.0.0/25"]),
            "10.3.0.0/24 is a route here, and not served there",
        );
        found(
            false,
            &|_, shore| shore.sources = Some(vec![]),
            "what comes from 10.1.0.0/24, a network here, is refused there",
        );
        found(
            false,
            &|ship, shore| (ship.routes, shore.routes) = (list(&["0.0.0.0/0"]), list(&["0.0.0.0/0"])),
            "each takes 0.0.0.0/0 for a network behind the other",
        );
        found(false, &|ship, _| ship.tun_mtu = Some(1_400), "only this side has a [tun] table");
        found(false, &|_, shore| shore.tun_mtu = Some(1_400), "only the other side has a [tun] table");
        let with_route = |ship: &mut About| ship.routes.push("10.9.0.2/32".into());
        found(false, &|ship, _| with_route(ship), "10.9.0.2/32 is a route here, and not served there");
        let (mut ship, mut shore) = sides();
        with_route(&mut ship);
        shore.tun_addresses = list(&["10.9.0.2/32"]);
        assert!(compare(&ship, &shore, 0.0).sound, "its device's own address is reached as it is");
        found(
            true,
            &|ship, shore| (ship.tun_mtu, shore.tun_mtu) = (Some(1_400), Some(1_280)),
            "note  tun.mtu is 1400 here and 1280 there",
        );
        found(false, &|ship, _| ship.key = Some("C".into()), "the other side has another public key for this gateway");
        found(
            false,
            &|_, shore| shore.key = Some("C".into()),
            "the peer's `public_key` here is not the key that it has",
        );
        found(false, &|ship, _| ship.preshared = Some(true), "only this side has a preshared_key");
        found(false, &|_, shore| shore.preshared = Some(true), "only the other side has a preshared_key");
        found(false, &|_, shore| shore.seal = true, "set gateway.seal here too");
        found(true, &|_, shore| shore.clock_s += 60.0, "note  its clock is 60 s ahead of this one");
        found(true, &|_, shore| shore.version = "2".into(), "note  here runs 1, there 2");
    }

    #[test]
    fn only_documents_are_read() {
        let (ship, _) = sides();
        assert_eq!(About::read(serde_json::to_string(&ship).unwrap_or_default().as_bytes()), Some(ship));
        for wrong in ["", "{}", "[1]", "{\"format\":\"wavelane-status/1\"}"] {
            assert_eq!(About::read(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
