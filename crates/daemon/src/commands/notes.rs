//! What `init` and `check` remark besides errors: where names lead, and what may have been overlooked.

use crate::config::{self, Config, OnFailure, PEERS_SUFFIX, far_end};
use crate::system::device;
use crate::{epoch, names, peer_addresses};
use std::net::{IpAddr, SocketAddr};
use wavelane_base::Address;

/// Where a peer is.
pub(super) struct Place {
    /// Its name looked up, such as `at 192.0.2.7:4780`.
    pub(super) words: String,
    /// What is wrong with that.
    pub(super) remark: Option<String>,
    /// What names lead to.
    pub(super) hosts: Vec<IpAddr>,
}

impl Place {
    pub(super) fn of(peer: &config::Peer, listen: SocketAddr) -> Self {
        let all: Vec<Found> = peer.places(listen).iter().map(|(at, bound)| place_of(at.as_ref(), *bound)).collect();
        let at = all.iter().filter_map(|found| found.words.clone());
        let at: Vec<String> = at.map(|at| port(peer, &at).unwrap_or(at)).collect();
        let words = if at.is_empty() { "calls us".into() } else { format!("at {}", at.join(" and ")) };
        let hosts = all.iter().filter_map(|found| found.host).collect();
        Self { words, remark: all.into_iter().find_map(|found| found.remark), hosts }
    }
}

/// The port of the line that has this address.
fn port(peer: &config::Peer, address: &str) -> Option<String> {
    let sockets = peer.lanes.iter().filter_map(|lane| lane.socket.as_ref());
    let mut ports = sockets.filter(|socket| socket.line.is_some()).filter_map(|socket| socket.device.clone());
    ports.find(|port| far_end(port).to_string() == address)
}

/// The same of one lane.
#[derive(Default)]
struct Found {
    words: Option<String>,
    remark: Option<String>,
    host: Option<IpAddr>,
}

/// The same of one lane, whose socket is bound to `bound`; no place if the peer calls us by it.
fn place_of(address: Option<&String>, bound: SocketAddr) -> Found {
    let Some(written) = address else { return Found::default() };
    if let Ok(number) = written.parse::<Address>() {
        return Found { words: Some(number.to_string()), ..Found::default() };
    }
    let nowhere = |remark| Found { words: Some(written.clone()), remark: Some(remark), host: None };
    match names::look_up(written) {
        Ok(found) => match names::usable(&found, bound).first() {
            Some(at) => Found { words: Some(format!("{written} ({at})")), host: Some(at.ip()), ..Found::default() },
            None => nowhere(format!(
                "'{written}' is only {found:?}, which `listen` cannot reach: listen on [::]:4780 for both IP versions"
            )),
        },
        Err(e) => nowhere(format!(
            "no address for '{written}' now ({e}): correct it, or write the number; wavelaned starts and goes on to ask"
        )),
    }
}

/// Files of others in the places of those that the gateway keeps. They stay.
pub(super) fn foreign_files(config: &Config) -> Vec<String> {
    let beside = wavelane_host::files::with_suffix(&config.state, PEERS_SUFFIX);
    let mut found = Vec::new();
    if epoch::is_foreign(&config.state) {
        let lost =
            "so the boot epoch is not kept, and a clock set back before the next start would lock this gateway out";
        found.push((config.state.clone(), lost));
    }
    if peer_addresses::is_foreign(&beside) {
        found.push((beside, "so where peers without an address were last is not kept"));
    }
    let line = |(path, lost): (std::path::PathBuf, _)| {
        format!(
            "{} holds something else than this gateway keeps there, {lost}: remove it if nobody needs it, or name another `state`",
            path.display()
        )
    };
    found.into_iter().map(line).collect()
}

/// Peers that may reach nothing because the file lists no networks, not because it says so.
pub(super) fn unreachable(config: &Config) -> Vec<String> {
    let unsaid = config.peers.iter().filter(|peer| config.serves.is_none() && peer.allow_targets.is_none());
    let names: Vec<String> = unsaid.map(|peer| format!("'{}'", peer.name)).collect();
    if names.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "peer {} may reach nothing through this gateway: write gateway.serves = [\"10.3.0.0/24\"] with the networks on this side ([] if that is meant), or the peer's own allow_targets",
        names.join(", ")
    )]
}

/// Kernel settings that keep packets from being forwarded: with them a packet door for interfaces is not opened.
pub(super) fn unforwarded(config: &Config) -> Vec<String> {
    let intercepts = config.intercept.iter();
    let taken: Vec<&str> = intercepts.clone().flat_map(|i| device::unforwarded(config, i)).collect();
    let mut warnings: Vec<String> = if config.tun.is_some() {
        let refusals = intercepts.flat_map(|i| device::not_forwarding(config, i));
        refusals.map(|why| format!("wavelaned does not start as this host is now: {why}")).collect()
    } else {
        let lost = |setting: &&str| {
            let or = device::without_it(config.intercept.as_ref(), setting);
            format!("{setting} is 0, so what is not TCP is not forwarded: run `sysctl -w {setting}=1`{or}")
        };
        taken.iter().map(lost).collect()
    };
    let for_peers = device::unforwarded_for_peers(config).filter(|setting| !taken.contains(setting));
    let what = if config.tun.is_some() { "" } else { " (what is not TCP, and TCP while a gateway is down)" };
    warnings.extend(for_peers.map(|setting| {
        format!("{setting} is 0, so what peers send to the networks behind this host as packets{what} is lost: run `sysctl -w {setting}=1`, unless they use [[forward]]s alone")
    }));
    warnings
}

/// What is valid, and perhaps not what the operator intends.
pub(super) fn notes(config: &Config) -> Vec<String> {
    let mut notes = lacking_versions(config);
    notes.extend(unrelayed(config));
    notes.extend(plain(config));
    notes.extend(unsealable(config));
    notes.extend(config.mechanisms_notes());
    notes
}

/// Traffic that goes past the gateways while they cannot carry it: a first transfer "works" with a wrong key.
fn plain(config: &Config) -> Option<String> {
    (config.intercept.is_some() && config.on_failure == OnFailure::Open).then(|| {
        "while a peer is down, or its key is wrong, traffic for its networks goes plainly, past the gateways: `wavelane status` says whether it is up; on_failure = \"closed\" refuses such traffic".into()
    })
}

/// A gateway that seals and names nobody to seal for.
fn unsealable(config: &Config) -> Option<String> {
    (config.seals() && config.edges.is_empty()).then(|| {
        "gateway.seal: no [[edge]] is named, so every connection over other gateways is refused; name each gateway at whose end connections leave, with its key and networks, and set seal there too".into()
    })
}

/// Peers that reach what we serve and not what is behind other peers.
fn unrelayed(config: &Config) -> Option<String> {
    let routed = config.peers.iter().filter(|peer| !peer.routes.is_empty()).count();
    let bound: Vec<String> =
        config.peers.iter().filter(|p| p.allow_targets.is_none()).map(|p| format!("'{}'", p.name)).collect();
    (routed > 1 && !bound.is_empty()).then(|| {
        format!(
            "peer {} reaches what is in gateway.serves and nothing behind the other peers; list those networks in its allow_targets if this gateway is to pass flows on",
            bound.join(", ")
        )
    })
}

fn lacking_versions(config: &Config) -> Vec<String> {
    let everything =
        |peer: &config::Peer, six: bool| peer.routes.iter().any(|r| r.bits == 0 && r.address.is_ipv6() == six);
    let half = |peer: &&config::Peer| everything(peer, false) != everything(peer, true);
    let note = |peer: &config::Peer| {
        let (has, lacks, kind) =
            if everything(peer, false) { ("0.0.0.0/0", "::/0", "IPv6") } else { ("::/0", "0.0.0.0/0", "IPv4") };
        format!(
            "peer '{}' has the route {has} and not {lacks}: {kind} goes another way than by Wavelane; add {lacks} if that is not meant",
            peer.name
        )
    };
    config.peers.iter().filter(half).map(note).collect()
}
