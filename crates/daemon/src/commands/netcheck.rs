//! `wavelane netcheck`: what of the running gateway's links is in order and what is not, each with its remedy.

use super::ask::Asking;
use super::{CommandError, report};
use crate::about::SeenLane;
use crate::request::{Answer, Ask};
use crate::status::{Peer, Report};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

/// A peer that does not say within this time what it sees is passed over.
const PATIENCE: Duration = Duration::from_secs(5);

/// Of fewer packets both ways nothing is said of loss: those sent before the two sides met were lost to nobody's antenna.
const JUDGED_FROM: u64 = 100;

/// `wavelane netcheck`.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(after_help = "Exit codes: 0 all is in order, 1 something is not, 2 refused.")]
pub struct NetcheckArgs {
    /// Only this peer.
    #[arg(value_name = "PEER")]
    pub peer: Option<String>,
    /// The daemon's control socket; by default the only one in the usual place.
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Netcheck {
    /// Each finding in a line.
    pub text: String,
    /// Whether all is in order.
    pub sound: bool,
}

/// Looks at a running gateway's links.
pub fn netcheck(args: &NetcheckArgs) -> Result<Netcheck, CommandError> {
    let (_, report) = report(args.control.as_deref())?;
    let known = |name: &String| report.peers.iter().any(|p| p.name == *name);
    if let Some(name) = args.peer.as_ref().filter(|name| !known(name)) {
        let names: Vec<&str> = report.peers.iter().map(|p| p.name.as_str()).collect();
        return Err(CommandError::NoPeer { name: name.clone(), names: names.join(", ") });
    }
    // One that does not say, being older or busy, leaves what addresses tell.
    let seen = |peer: &Peer| asked(args, &peer.name).unwrap_or_default();
    Ok(examine(&report, args.peer.as_deref(), seen, source_to))
}

/// What the peer sees of our lanes.
fn asked(args: &NetcheckArgs, peer: &str) -> Option<Vec<SeenLane>> {
    let mut asking = Asking::begin(args.control.as_deref()).ok()?;
    asking.ask(&Ask::About { peer: peer.into() }).ok()?;
    match asking.hear(PATIENCE) {
        Ok(Some(Answer::About(about))) => Some(about.seen),
        _ => None,
    }
}

/// The address that this host sends from to `target`, by `device` if one is given; it sends nothing to find that out.
fn source_to(device: Option<&str>, target: SocketAddr) -> Option<IpAddr> {
    if let Some(device) = device {
        return wavelane_host::addresses_of(device).into_iter().find(|own| own.is_ipv4() == target.is_ipv4());
    }
    let any: IpAddr = if target.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(target).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Whether an address is only valid on its own site, so that others see another one.
fn is_of_a_site(address: IpAddr) -> bool {
    match address {
        // RFC 6598: between a subscriber and a carrier's NAT.
        IpAddr::V4(a) => a.is_private() || a.octets()[0] == 100 && a.octets()[1] & 0xc0 == 64,
        IpAddr::V6(a) => a.is_unique_local(),
    }
}

struct Findings {
    text: String,
    sound: bool,
}

impl Findings {
    fn fine(&mut self, what: &str) {
        self.text += &format!("  ok    {what}\n");
    }
    fn wrong(&mut self, what: &str) {
        self.text += &format!("  wrong {what}\n");
        self.sound = false;
    }
    fn note(&mut self, what: &str) {
        self.text += &format!("  note  {what}\n");
    }
}

fn examine(
    report: &Report,
    only: Option<&str>,
    seen: impl Fn(&Peer) -> Vec<SeenLane>,
    source: impl Fn(Option<&str>, SocketAddr) -> Option<IpAddr>,
) -> Netcheck {
    let mut found = Findings { text: format!("gateway {}\n", report.name), sound: true };
    if let Some(why) = &report.reload_refused {
        found.wrong(&format!("the last reload was refused: {why}"));
    }
    if let Some(left) = report.trial_left_s {
        found.note(&format!("the configuration is on trial for {left:.0} s more: `wavelane reload --keep` keeps it"));
    }
    report.went_back.iter().for_each(|why| found.wrong(why));
    report.hindrances.iter().for_each(|why| found.wrong(why));
    // Anybody may call; a peer that lacks its key is silent, which is wrong.
    report.unknown_callers.iter().for_each(|who| found.note(who));
    if report.door.intercepting && !report.door.honest {
        found
            .note("connections are answered before the far server has answered: install iptables, and load xt_NFQUEUE");
    }
    for line in report.serial.iter().filter(|_| only.is_none()) {
        found.text += &format!("serial line {}\n", line.device);
        match &line.unused {
            None => found.fine(&format!("{} carries IP ({})", line.interface, line.line)),
            Some(why) => found.wrong(&format!("nothing passes: {why}")),
        }
    }
    for peer in report.peers.iter().filter(|p| only.is_none_or(|name| p.name == name)) {
        found.text += &format!("peer {}\n", peer.name);
        answers(&mut found, peer, report);
        lanes(&mut found, peer);
        let seen = if peer.up { seen(peer) } else { Vec::new() };
        match super::nat::findings(peer, &seen, &source) {
            Some(lines) => lines.iter().for_each(|line| found.note(line)),
            None => nat(&mut found, peer, &source),
        }
    }
    Netcheck { text: found.text, sound: found.sound }
}

fn answers(found: &mut Findings, peer: &Peer, report: &Report) {
    let misled = report.counters.iter().any(|c| c.name == "dropped_mac" && c.value > 0);
    match (&peer.cause, peer.up) {
        (_, true) => {
            let at = peer.address.as_deref().unwrap_or("an unknown address");
            found.fine(&format!("it answers from {at}: both keys are right, and the port is open both ways"));
        }
        (Some(cause), _) => found.wrong(&format!("it does not answer: {cause}")),
        // Who called is not known: a handshake with another key for ours cannot be read.
        (None, _) if peer.address.is_none() && misled => found.wrong(&format!(
            "it has not called, but somebody calls with another key than ours (dropped_mac): compare public_key there with {}",
            report.public_key
        )),
        (None, _) if peer.address.is_none() => found.wrong(
            "it has not called, and no address of it is configured: start it, look in its log, and give one of the two the other's `address`",
        ),
        (None, _) => found.wrong("it does not answer, and the cause is looked for: ask again in ten seconds"),
    }
    let crossed = peer.traffic.sent_packets + peer.traffic.received_packets;
    if peer.up && crossed >= JUDGED_FROM && peer.loss.max(peer.loss_in) > 0.2 {
        let (out, back) = (peer.loss * 100.0, peer.loss_in * 100.0);
        found.note(&format!(
            "{out:.0} % of packets are lost out and {back:.0} % in: look at the antenna or the cable first"
        ));
    }
    if peer.distrusted > 0 {
        found.wrong(&format!("it, or a relay behind it, changed or withheld octets {} times", peer.distrusted));
    }
}

fn lanes(found: &mut Findings, peer: &Peer) {
    for lane in &peer.lanes {
        let name = format!("{} by {}", lane.name, lane.by);
        match &lane.unused {
            // Of a single lane the peer's line says it.
            Some(_) if peer.lanes.len() == 1 && !peer.up => {}
            Some(why) if why.starts_with("in reserve") => found.fine(&format!("{name}: {why}")),
            Some(why) => found.wrong(&format!("{name} is not used: {why}")),
            None => {
                let rtt = lane.rtt_ms.map_or(String::new(), |ms| format!(", round trip {ms:.1} ms"));
                let mtu = lane.path_mtu.map_or(String::new(), |mtu| format!(", packets of {mtu} bytes pass"));
                found.fine(&format!("{name} is used{rtt}{mtu}"));
            }
        }
        lane.path_mtu_cause.iter().for_each(|cause| found.wrong(&format!("{name}: {cause}")));
    }
}

/// Whether somebody translates our address on the way, as far as addresses tell.
fn nat(found: &mut Findings, peer: &Peer, source: &impl Fn(Option<&str>, SocketAddr) -> Option<IpAddr>) {
    let Some(target) = peer.address.as_deref().and_then(|at| at.parse::<SocketAddr>().ok()) else { return };
    let Some(own) = source(None, target) else { return };
    if is_of_a_site(own) && !is_of_a_site(target.ip()) && !target.ip().is_loopback() {
        // A peer that calls and is answered reaches this host through it.
        let is_called = peer.up && peer.lanes.iter().all(|lane| lane.configured_address.is_none());
        let then = if is_called { "the peer reaches it there" } else { super::nat::HAS_TO_CALL };
        found.note(&format!("this host sends from {own}, so a NAT stands before it: {then}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::LaneReport;

    fn peer() -> Peer {
        let lane = LaneReport {
            name: "lane".into(),
            by: "0.0.0.0:4780".into(),
            path_mtu: Some(1_452),
            ..LaneReport::default()
        };
        let address = Some("192.0.2.7:4780".into());
        Peer { name: "shore".into(), up: true, address, lanes: vec![lane], ..Peer::default() }
    }

    fn of(peer: Peer, own: [u8; 4]) -> Netcheck {
        examine(&Report { peers: vec![peer], ..Report::default() }, None, |_| Vec::new(), |_, _| Some(own.into()))
    }

    #[test]
    fn a_sound_link_is_said_to_be_one() {
        let found = of(peer(), [198, 51, 100, 4]);
        assert!(found.sound, "{found:?}");
        assert!(found.text.contains("ok    it answers from 192.0.2.7:4780: both keys are right"), "{found:?}");
        assert!(found.text.contains("packets of 1452 bytes pass") && !found.text.contains("NAT"), "{found:?}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_remedy() {
        let wrong = |change: &dyn Fn(&mut Peer), part: &str| {
            let mut it = peer();
            change(&mut it);
            let found = of(it, [198, 51, 100, 4]);
            assert!(!found.sound && found.text.contains(part), "{part}: {found:?}");
        };
        let down = |p: &mut Peer| (p.up, p.cause) = (false, Some("nothing listens: start it".into()));
        wrong(&down, "wrong it does not answer: nothing listens: start it");
        wrong(&|p| (p.up, p.address) = (false, None), "no address of it is configured");
        wrong(&|p| p.up = false, "ask again");
        let counters = vec![crate::status::counter("dropped_mac", 8)];
        let silent = Peer { up: false, address: None, ..peer() };
        let report = Report { public_key: "KEY".into(), peers: vec![silent], counters, ..Report::default() };
        let found = examine(&report, None, |_| Vec::new(), |_, _| None);
        assert!(!found.sound && found.text.contains("compare public_key there with KEY"), "{found:?}");
        wrong(&|p| p.lanes[0].unused = Some("device wwan0 is not there".into()), "is not used: device wwan0");
        wrong(
            &|p| p.lanes[0].path_mtu_cause = Some("packets of 1200 bytes are lost".into()),
            "packets of 1200 bytes are lost",
        );
        wrong(&|p| p.distrusted = 2, "withheld octets 2 times");
        let report = Report { unknown_callers: vec!["192.0.2.9:4780 calls".into()], ..Report::default() };
        let found = examine(&report, None, |_| Vec::new(), |_, _| None);
        assert!(found.sound && found.text.contains("note  192.0.2.9:4780 calls"), "{found:?}");
        let lossy = |sent_packets| {
            let traffic = crate::status::Traffic { sent_packets, ..Default::default() };
            of(Peer { loss: 0.4, loss_in: 0.1, traffic, ..peer() }, [198, 51, 100, 4]).text.contains("40 % of packets")
        };
        assert!(lossy(JUDGED_FROM) && !lossy(JUDGED_FROM - 1));
    }

    #[test]
    fn a_serial_line_is_part_of_it() {
        let serial = |unused: Option<&str>| {
            let line = crate::status::Serial { unused: unused.map(Into::into), ..Default::default() };
            let report = Report { serial: Some(line), peers: vec![peer()], ..Report::default() };
            let of = |only| examine(&report, only, |_| Vec::new(), |_, _| None);
            (of(None), of(Some("shore")))
        };
        let (all, of_peer) = serial(Some("PPP is down: the other end does not answer"));
        assert!(!all.sound && all.text.contains("wrong nothing passes: PPP is down"), "{all:?}");
        assert!(of_peer.sound, "{of_peer:?}");
        assert!(serial(None).0.sound);
    }

    #[test]
    fn a_nat_before_this_host_is_told_by_addresses() {
        for own in [[192, 168, 1, 4], [10, 0, 0, 2], [100, 72, 3, 4]] {
            let found = of(peer(), own);
            assert!(found.sound && found.text.contains("a NAT stands before it"), "{found:?}");
        }
        let near = Peer { address: Some("10.0.0.9:4780".into()), ..peer() };
        assert!(!of(near, [10, 0, 0, 2]).text.contains("NAT"), "both are of one site");
    }
}
