//! The engine on our own TCP: packets come and go by a device, and one thread has them all.

use super::config::{DEVICE, Mode, Settings};
use super::serve::Body;
use super::strangers::Strangers;
use super::{
    Opening, Proxy, ProxyError, SPLIT, TOKEN_LINKS, TOKEN_TUN, closed, refused, status, system, tell, unsplit,
};
use crate::config::OnFailure;
use crate::config::marks::MARK_OWN;
use crate::counters::Counters;
use crate::log::Log;
use crate::start::{self, StartError};
use crate::system::interface;
use crate::system::rules::{Rules, RulesError};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use wavelane_base::{Entropy, Instant, Span};
use wavelane_door::{FlowEvent, Fragments, Gathered, Gone, Offered, OwnDoor, Refusal, Snoop, Syn, other};
use wavelane_gateway::Reason;
use wavelane_host::clock::NodeClock;
use wavelane_host::links::LinkChanges;
use wavelane_host::nft;
use wavelane_host::poller::{Poller, Ready, Watch};
use wavelane_host::raw::RawSender;
use wavelane_host::tun::OffloadTun;
use wavelane_host::{caps, entropy};
use wavelane_tcp::{Config as TcpConfig, Keepalive};
use wavelane_wire::tcp::TcpPacket;

/// Packets or super-packets read before anything else is looked after.
const READS_PER_ROUND: usize = 64;
/// A client is asked whether it is there, and given up where `rto_max` is set, after as long as Linux waits before it asks: one that
/// sleeps, or is out of reach, stays connected.
const CLIENT_PATIENCE: Span = Span::from_secs(7_200);

/// Our TCP towards a client.
fn of_client(config: TcpConfig) -> TcpConfig {
    let keepalive = Keepalive { idle: CLIENT_PATIENCE, interval: Span::from_secs(75), probes: 9 };
    let tries = CLIENT_PATIENCE.as_nanos() / config.rto_max.as_nanos().max(1);
    let data_retries = match config.rto_max < TcpConfig::default().rto_max {
        true => config.data_retries.max(u32::try_from(tries).unwrap_or(u32::MAX)),
        false => config.data_retries,
    };
    TcpConfig { keepalive: Some(keepalive), data_retries, ..config }
}

/// See the module's description.
pub(super) struct Userspace {
    pub(super) door: OwnDoor,
    tun: OffloadTun,
    /// The device has packets.
    readable: bool,
    raw: RawSender,
    /// Word of links that come up.
    links: LinkChanges,
    buffer: Vec<u8>,
    outgoing: Outgoing,
    /// Packets that are none of ours and were sent on.
    pub(super) plain: u64,
    /// After a process that ended without an orderly stop.
    strangers: Option<Strangers>,
    fragments: Fragments,
    /// In mode `snoop`.
    pub(super) snoop: Snoop,
}

/// Packets for the device, which is read meanwhile.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Outgoing {
    fn push(&mut self, packet: &[u8]) {
        self.bytes.extend_from_slice(packet);
        self.ends.push(self.bytes.len());
    }
    fn send(&mut self, tun: &mut OffloadTun) {
        let mut from = 0;
        for end in self.ends.drain(..) {
            tun.queue(&self.bytes[from..end]);
            from = end;
        }
        self.bytes.clear();
    }
}

impl Proxy<Userspace> {
    pub(super) fn start(settings: Settings, file: &Path) -> Result<Self, ProxyError> {
        let Opening { settings, config, control, signals, lock, beside } = Opening::open(settings)?;
        let mut remarks: Vec<String> = lock.remark.clone().into_iter().collect();
        let opened = || -> Result<(OffloadTun, RawSender, Rules), StartError> {
            nft::run("ip", &["link", "set", "lo", "up"], "").map_err(RulesError::Tool)?;
            let tun = interface::make_for_proxy(DEVICE)?;
            let raw = RawSender::open(MARK_OWN).map_err(RulesError::Listener)?;
            let (rules, _) = Rules::install(&config, &[], false, lock)?;
            Ok((tun, raw, rules))
        };
        let (tun, raw, rules) = opened().map_err(|why| closed(&config, why))?;
        remarks.push(format!("packets go through the device {DEVICE}"));
        let strangers = match rules.found_orphans().then(Strangers::open) {
            None => None,
            Some(Ok(strangers)) => {
                remarks.push("warning: the process before this one did not stop in order: connections that it had are reset when their ends next send".into());
                Some(strangers)
            }
            Some(Err(e)) => {
                remarks.push(format!("warning: the process before this one did not stop in order, and its connections cannot be told from those that pass by ({e}), so that they hang: load nf_conntrack_netlink (`modprobe nf_conntrack_netlink`)"));
                None
            }
        };
        let poller = Poller::new().map_err(system("epoll"))?;
        poller.add(&tun, TOKEN_TUN, Watch::Readable).map_err(system("epoll"))?;
        let links = LinkChanges::open().map_err(system("word of links"))?;
        poller.add(&links, TOKEN_LINKS, Watch::Readable).map_err(system("epoll"))?;
        caps::keep_only(&start::CAPABILITIES).map_err(system("giving up privileges"))?;
        let clock = NodeClock;
        let (usual, towards) = settings.own_tcp();
        let entropy = Entropy::live(entropy::fill);
        // Refusals are sent otherwise, from the address that the kernel chooses.
        let no_address = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let mut door = OwnDoor::of_proxy(clock.now(), no_address, &usual, towards, entropy);
        door.set_callers(of_client);
        door.set_memory_max(settings.memory());
        let body = Userspace {
            door,
            tun,
            readable: true,
            raw,
            links,
            buffer: vec![0; wavelane_tcp::PACKET_ROOM],
            outgoing: Outgoing::default(),
            plain: 0,
            strangers,
            fragments: Fragments::default(),
            snoop: Snoop::new(2 * settings.connections_max, settings.bytes()),
        };
        Self::with(file, (settings, &config), (control, signals, beside), (poller, clock, rules), body, &remarks)
    }

    fn receive(&mut self) -> io::Result<()> {
        for _ in 0..READS_PER_ROUND {
            let Self { body, pair, settings, counters, now, log, .. } = self;
            let Userspace { door, tun, buffer, outgoing, raw, plain, strangers, fragments, snoop, .. } = body;
            let drained = tun.receive(1, |packet| {
                if settings.mode == Mode::Snoop {
                    if snoop.handle(*now, packet, |host| settings.snoops(host)) {
                        outgoing.push(&one_hop_more(packet));
                    }
                    return repeat(snoop, outgoing);
                }
                if settings.mode == Mode::Mirror {
                    // As far as whoever splits it: read, and written again.
                    counters.one(if TcpPacket::parse(packet).is_ok() { "packets_mirrored" } else { "packets_unread" });
                    return outgoing.push(&one_hop_more(packet));
                }
                let gathered = fragments.take(*now, packet);
                let (packet, pieces) = match &gathered {
                    Gathered::Whole => (packet, &[][..]),
                    Gathered::Kept => return,
                    Gathered::Complete { packet, pieces } => (&packet[..], &pieces[..]),
                };
                match door.offer(*now, pair, packet, pair.flows() < settings.connections_max) {
                    Offered::Taken => {
                        // At once, as many acknowledgements go as segments called for.
                        serve(*now, door, pair, |fate| {
                            decided(settings, (counters, log, *now), (raw, outgoing, plain, strangers), &fate);
                        });
                        drain(*now, door, buffer, raw, outgoing);
                    }
                    Offered::NoRoom(syn) => {
                        counters.one("connections_beyond_max");
                        let fate = Fate::NoRoom(syn, packet, "as many as `connections_max` are open");
                        decided(settings, (counters, log, *now), (raw, outgoing, plain, strangers), &fate);
                    }
                    Offered::Foreign if strangers.as_mut().is_some_and(|s| s.is_orphan(packet)) => {
                        counters.one("orphans_reset");
                        door.reset_stranger(packet);
                        drain(*now, door, buffer, raw, outgoing);
                    }
                    Offered::Foreign if pieces.is_empty() => {
                        *plain += 1;
                        outgoing.push(&one_hop_more(packet));
                    }
                    Offered::Foreign => {
                        *plain += pieces.len() as u64;
                        pieces.iter().for_each(|piece| outgoing.push(&one_hop_more(piece)));
                    }
                }
            });
            let gone = |e| {
                io::Error::other(format!(
                    "the device {DEVICE} cannot be read ({e}): another program took it away; start wavelaned again"
                ))
            };
            let drained = drained.map_err(gone)?;
            outgoing.send(tun);
            if drained {
                body.readable = false;
                break;
            }
        }
        Ok(())
    }
}

/// Sends again what was lost.
fn repeat(snoop: &mut Snoop, outgoing: &mut Outgoing) {
    while let Some(packet) = snoop.poll_packet() {
        outgoing.push(&one_hop_more(&packet));
    }
}

/// What becomes of a connection that begins.
enum Fate<'a> {
    Split((SocketAddr, SocketAddr)),
    Refused((SocketAddr, SocketAddr), Reason),
    /// We have no room for what this packet asks for, and why.
    NoRoom(Syn, &'a [u8], &'static str),
}

/// Moves what can be moved between the halves.
fn serve(now: Instant, door: &mut OwnDoor, pair: &mut wavelane_door::Pair, mut decided: impl FnMut(Fate<'_>)) -> bool {
    let mut acted = false;
    loop {
        let mut more = false;
        while let Some(event) = pair.poll_event() {
            more = true;
            match event {
                FlowEvent::Refused(flow, why) => match (door.flow_gone(now, flow), why) {
                    (None, _) => {}
                    (Some(Gone { syn, held, .. }), Reason::NoRoom) => {
                        if let Some(held) = held {
                            decided(Fate::NoRoom(syn, &held, "no port is left for it"));
                        }
                    }
                    (Some(Gone { syn, held, .. }), why) => {
                        decided(Fate::Refused((syn.source, syn.target), why));
                        door.refuse_syn(&syn, held, why);
                    }
                },
                event => {
                    if let FlowEvent::Accepted(flow) = event
                        && let Some(ends) = door.ends_of(other(flow))
                    {
                        decided(Fate::Split(ends));
                    }
                    door.handle_event(now, pair, event);
                }
            }
        }
        more |= door.service(now, pair);
        if !more {
            return acted;
        }
        acted = true;
    }
}

/// Takes the door's packets.
fn drain(now: Instant, door: &mut OwnDoor, buffer: &mut [u8], raw: &RawSender, outgoing: &mut Outgoing) {
    while let Some((refusal, to)) = door.take_refusal() {
        refuse(raw, refusal, to);
    }
    while let Some(len) = door.poll_packet(now, buffer) {
        outgoing.push(&buffer[..len]);
    }
}

fn refuse(raw: &RawSender, refusal: Refusal, to: IpAddr) {
    // What is not sent is asked for again.
    let _ = match (refusal, to) {
        (Refusal::Icmp6(message), IpAddr::V6(to)) => raw.send_icmp6(&message, to),
        (Refusal::Packet(packet) | Refusal::Icmp6(packet), to) => raw.send(&packet, to),
    };
}

/// Says what becomes of a connection; what the proxy has no room for goes plainly, or is refused.
fn decided(
    settings: &Settings,
    (counters, log, now): (&mut Counters, &mut Log, Instant),
    (raw, outgoing, plain, strangers): (&RawSender, &mut Outgoing, &mut u64, &mut Option<Strangers>),
    fate: &Fate<'_>,
) {
    let (syn, packet) = match fate {
        Fate::Split(ends) => return tell(log, now, *ends, SPLIT),
        Fate::Refused(ends, why) => return tell(log, now, *ends, &refused(*why)),
        Fate::NoRoom(syn, packet, why) => {
            tell(log, now, (syn.source, syn.target), &unsplit(settings.on_failure, why));
            (syn, packet)
        }
    };
    if settings.on_failure == OnFailure::Closed {
        counters.one("connections_refused");
        return refuse(raw, syn.reset(), syn.source.ip());
    }
    counters.one("connections_passed");
    *plain += 1;
    strangers.iter_mut().for_each(|strangers| strangers.passes((syn.source, syn.target)));
    outgoing.push(&one_hop_more(packet));
}

/// A packet that crosses this host twice, once to us, with the hop that this cost.
fn one_hop_more(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= 20 && packet[8] < u8::MAX => {
            packet[8] += 1;
            // RFC 1624, equation 3: one more in the upper half of that word.
            let sum = u32::from(u16::from_be_bytes([packet[10], packet[11]]));
            let sum = u32::from(!(sum as u16)) + 0x0100;
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Some(6) if packet.len() >= 40 => packet[7] = packet[7].saturating_add(1),
        _ => {}
    }
    packet
}

impl Body for Userspace {
    fn settle(proxy: &mut Proxy<Self>) -> io::Result<bool> {
        if proxy.body.readable {
            proxy.receive()?;
        }
        let Proxy { body, pair, settings, counters, now, log, .. } = proxy;
        let Self { door, tun, buffer, outgoing, raw, plain, strangers, .. } = body;
        for _ in 0..2 {
            serve(*now, door, pair, |fate| {
                decided(settings, (counters, log, *now), (raw, outgoing, plain, strangers), &fate);
            });
            drain(*now, door, buffer, raw, outgoing);
        }
        outgoing.send(tun);
        tun.flush();
        Ok(body.readable)
    }
    fn ready(proxy: &mut Proxy<Self>, ready: Ready) {
        match ready.token {
            TOKEN_TUN => proxy.body.readable = true,
            TOKEN_LINKS => {
                proxy.body.links.drain();
                // Whatever it was: a link that is still down costs a packet of each connection that waits.
                proxy.body.door.call_back(proxy.now);
            }
            _ => {}
        }
    }
    fn look(proxy: &mut Proxy<Self>) {
        let due = proxy.body.door.poll_timeout().is_some_and(|wakeup| wakeup.at <= proxy.now);
        if due {
            proxy.body.door.handle_timeout(proxy.now, &mut proxy.pair);
        }
        let Userspace { snoop, outgoing, .. } = &mut proxy.body;
        snoop.handle_timeout(proxy.now);
        repeat(snoop, outgoing);
    }
    fn deadline(&self) -> Option<Instant> {
        self.door.poll_timeout().map(|wakeup| wakeup.at).into_iter().chain(self.snoop.poll_timeout()).min()
    }
    fn waits(&self) -> bool {
        false
    }
    fn tick(_: &mut Proxy<Self>) {}
    fn stop(proxy: &mut Proxy<Self>) {
        let Proxy { body, pair, now, .. } = proxy;
        body.door.stop(*now, pair);
        drain(*now, &mut body.door, &mut body.buffer, &body.raw, &mut body.outgoing);
        body.outgoing.send(&mut body.tun);
        body.tun.flush();
    }
    fn check(_: &Settings) -> Result<(), ProxyError> {
        Ok(())
    }
    fn tune(proxy: &mut Proxy<Self>, settings: &Settings) {
        let (usual, towards) = settings.own_tcp();
        let Proxy { body, pair, settings: before, now, .. } = proxy;
        body.door.tune(&usual, towards);
        body.door.set_memory_max(settings.memory());
        body.snoop.set_bounds(2 * settings.connections_max, settings.bytes());
        if before.targets != settings.targets || before.exempt != settings.exempt {
            // Their packets do not come here any more.
            body.door.end_those(*now, pair, |_, target| !settings.splits(target));
        }
    }
    fn note_gap(proxy: &mut Proxy<Self>, is_near: bool) {
        proxy.body.door.note_gap(is_near);
    }
    fn document(proxy: &Proxy<Self>) -> String {
        status::of_userspace(proxy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wavelane_wire::ip::Ip;

    #[test]
    fn a_hop_more_keeps_the_checksum() {
        for (ttl, sum_before) in [(1, 0), (63, 0), (254, 7)] {
            let mut packet = vec![0_u8; 24];
            packet[0] = 0x45;
            packet[3] = 24;
            packet[8] = ttl;
            packet[9] = 6;
            packet[12] = sum_before;
            let sum = wavelane_wire::ip::checksum(&[&packet[..20]]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            let more = one_hop_more(&packet);
            assert!(more[8] == ttl + 1 && Ip::parse(&more).is_ok(), "{more:?}");
        }
    }
}
