//! What `status` and the log say of the lanes.

use super::Daemon;
use super::document::traffic;
use crate::changes::Changes;
use crate::config::LaneMedium;
use crate::config::{self, Directions, LaneSocket, PeerLane};
use crate::status;
use wavelane_base::{Address, PortId, Span};
use wavelane_gateway::{Choice, Controller, LaneStatus, PeerId, Traffic};

/// An inbound lane has been silent for too long after this many times the longest silence of a peer that keeps its lanes open as
/// we do.
const IN_SILENT_KEEPALIVES: u64 = 2;

/// What a failed lane means where no other is used.
const PINNED: &str = "choice = \"pinned\" uses no other lane, \"pinned+fallback\" would";

/// A lane of a peer's.
#[derive(Clone, Copy)]
struct Of<'a> {
    peer: usize,
    /// Its place among the peer's tables; `None` if it has no table.
    place: Option<usize>,
    /// Its place among those of them that lead out.
    out: Option<usize>,
    table: Option<&'a PeerLane>,
    /// The gateway's status of it; `None` if it is inbound, or leads nowhere yet.
    known: Option<&'a LaneStatus>,
    port: usize,
}

/// What a lane is called: as in the file or, if it has no table there, by its number, where it is not the first.
fn name(place: Option<usize>, number: Option<u8>) -> String {
    match (place, number) {
        (Some(place), _) => config::lane_name(place),
        (None, None | Some(0)) => "lane".into(),
        (None, Some(number)) => format!("lane ({})", u16::from(number) + 1),
    }
}

/// By which port of the gateway a lane leaves or comes; `sockets` are those of the ports 1, 2, ...
fn port_of(lane: &PeerLane, sockets: &[Option<LaneSocket>]) -> usize {
    let own = lane.socket.as_ref().and_then(|own| sockets.iter().position(|s| s.as_ref() == Some(own)));
    own.map_or(0, |place| place + 1)
}

impl Daemon {
    /// All lanes of a peer: those of the file in its order, then those that answer lanes of the peer's.
    pub(super) fn lane_documents(&self, peer: usize, known: &[LaneStatus]) -> Vec<status::LaneReport> {
        let sockets = self.devices.sockets();
        let tables = self.config.peers.get(peer).map(|p| p.lanes.as_slice()).unwrap_or_default();
        let mut outs = 0;
        let mut all: Vec<Of<'_>> = Vec::new();
        for (place, table) in tables.iter().enumerate() {
            let out = (table.ways != Directions::In).then_some(outs);
            outs += usize::from(out.is_some());
            let lane = known.iter().find(|lane| lane.place.is_some() && lane.place == out);
            let port = port_of(table, &sockets);
            all.push(Of { peer, place: Some(place), out, table: Some(table), known: lane, port });
        }
        let others = known.iter().filter(|lane| tables.is_empty() || lane.place.is_none());
        all.extend(others.map(|lane| Of {
            peer,
            place: None,
            out: lane.place,
            table: None,
            known: Some(lane),
            port: usize::from(lane.port.0),
        }));
        if all.is_empty() {
            all.push(Of { peer, place: None, out: Some(0), table: None, known: None, port: 0 });
        }
        all.into_iter().map(|lane| self.lane_document(lane, &sockets)).collect()
    }

    fn lane_document(&self, of: Of<'_>, sockets: &[Option<LaneSocket>]) -> status::LaneReport {
        let own = of.port.checked_sub(1).and_then(|place| sockets.get(place)).and_then(Option::as_ref);
        let peer = self.config.peers.get(of.peer);
        let table = of.table.cloned().unwrap_or_default();
        let (known, ms) = (of.known, |span: Span| span.as_nanos() as f64 / 1e6);
        let heard = self.gateway.silence_by(self.now, PeerId(of.peer), PortId(of.port as u16));
        let unused = self.unused(of);
        let starts = [table.first_rate().unwrap_or(Controller::START_RATE), Controller::START_RATE];
        status::LaneReport {
            name: name(of.place, known.map(|lane| lane.number)),
            number: known.map(|lane| lane.number),
            by: own.map_or_else(|| self.config.listen.to_string(), LaneSocket::name),
            address: known.and_then(|lane| lane.address).map(|at| self.shown(at)),
            configured_address: of
                .table
                .map_or_else(|| peer.and_then(|p| p.address.clone()), PeerLane::written_address),
            device: own.and_then(|socket| socket.device.clone()),
            mark: own.and_then(|socket| socket.mark),
            local: own.filter(|socket| socket.medium.has_ip).map(|socket| socket.local.to_string()),
            direction: table.ways.word().into(),
            medium: LaneMedium::of(own).word.into(),
            radio: own.and_then(LaneSocket::radio_words),
            metered: known.map_or(table.knobs.metered, |lane| lane.metered),
            metered_there: known.is_some_and(|lane| lane.metered_there),
            bulk: known.map_or(table.knobs.bulk, |lane| lane.bulk),
            small: known.map_or(table.knobs.small, |lane| lane.small),
            works: known.map_or(of.out.is_none() && unused.is_none(), |lane| lane.works),
            spare: known.is_some_and(|lane| lane.spare),
            unused,
            socket_s: self.now.since(known.and_then(|lane| lane.since).unwrap_or(self.started)).as_secs_f64(),
            rtt_ms: known.and_then(|lane| lane.rtt).map(ms),
            // The start rate is no measurement.
            rate_bps: known.and_then(|lane| lane.rate).filter(|rate| !starts.contains(rate)).map(|rate| rate.as_bps()),
            loss: known.map_or(0.0, |lane| if lane.loss.is_finite() { lane.loss } else { 0.0 }),
            path_mtu: known.map(|lane| lane.path_mtu),
            path_mtu_cause: known.and_then(|lane| lane.path_mtu_cause.clone()),
            delivered_bytes: known.map_or(0, |lane| lane.delivered_bytes),
            lost_packets: known.map_or(0, |lane| lane.lost_packets),
            // An inbound lane has no lane of ours: its socket brings nothing else.
            traffic: known.map_or_else(
                || traffic(Traffic::default(), self.gateway.received_by(PeerId(of.peer), PortId(of.port as u16))),
                |lane| traffic(lane.sent, lane.received),
            ),
            silence_ms: heard.map(ms),
        }
    }

    /// What `status` says of a lane out that the gateway knows.
    pub(super) fn lane_named(&self, peer: usize, known: &LaneStatus) -> status::LaneReport {
        let own = known.place.and_then(|out| self.out_lane(peer, out));
        let (place, table) = (own.map(|(place, _)| place), own.map(|(_, table)| table));
        let port = usize::from(known.port.0);
        let of = Of { peer, place, out: known.place, table, known: Some(known), port };
        self.lane_document(of, &self.devices.sockets())
    }

    /// What this machine lacks for a lane by `port`.
    fn obstacle(&self, port: usize, table: Option<&PeerLane>) -> Option<String> {
        let absent = || self.lanes.get(port).is_some_and(|lane| lane.socket.is_none());
        if let Some(why) = self.devices.absence(port).filter(|_| absent()) {
            return Some(why);
        }
        let socket = table.and_then(|lane| lane.socket.as_ref())?;
        let device = socket.device.as_deref()?;
        (socket.medium.device.is_up(device) == Some(false)).then(|| format!("device {device} is set down"))
    }

    /// Why a lane carries nothing now; `None` if it does, or may at once.
    fn unused(&self, of: Of<'_>) -> Option<String> {
        if let Some(why) = self.obstacle(of.port, of.table) {
            return Some(why);
        }
        let peer_up = self.peers.get(of.peer).is_some_and(|contact| contact.up);
        let Some(out) = of.out.or_else(|| of.known.map(|_| usize::MAX)) else {
            return self.in_silence(of.peer, of.port);
        };
        if of.known.is_none_or(|lane| lane.address.is_none()) {
            let written = of.table.map_or_else(
                || self.config.peers.get(of.peer).and_then(|p| p.address.clone()),
                PeerLane::written_address,
            );
            return Some(match (written, self.names.failure(of.peer, out)) {
                (Some(name), Some(why)) => format!("no address for '{name}' ({why})"),
                (Some(name), None) => format!("the address of '{name}' is not known yet"),
                (None, _) => "the peer has not called yet, and its address is not configured".into(),
            });
        }
        let lane = of.known?;
        match (lane.works && peer_up, lane.spare) {
            (false, _) if self.is_pinned_to(of.peer, out) => Some(format!("no answer; {PINNED}")),
            (false, _) => Some(match self.why_silent(of.port) {
                Some(why) => format!("no answer: {why}"),
                None => "no answer".into(),
            }),
            (true, true) if lane.rtt.is_none() => Some("in reserve, and nothing has come back by it yet".into()),
            (true, true) if lane.metered_there => {
                Some("in reserve: it is metered at the peer's end, and another lane works".into())
            }
            (true, true) if lane.metered => Some("in reserve: it is metered, and another lane works".into()),
            (true, true) => Some("in reserve: another lane stands before it".into()),
            (true, false) => None,
        }
    }

    /// Whether traffic to a peer waits for this lane alone.
    fn is_pinned_to(&self, peer: usize, out: usize) -> bool {
        let several = |p: &config::Peer| p.lanes.iter().filter(|lane| lane.ways != Directions::In).count() > 1;
        out == 0 && self.config.peers.get(peer).is_some_and(|p| p.choice == Choice::Pinned && several(p))
    }

    /// What is wrong with an inbound lane.
    fn in_silence(&self, peer: usize, port: usize) -> Option<String> {
        let keepalive = self.config.peers.get(peer).and_then(|p| p.keepalive).unwrap_or(config::KEEPALIVE);
        match self.gateway.silence_by(self.now, PeerId(peer), PortId(port as u16)) {
            None => Some(self.with_cause(port, "nothing of the peer's has come by it yet".into())),
            Some(silence) if silence > keepalive.max(config::KEEPALIVE).times(IN_SILENT_KEEPALIVES) => {
                let text = format!("nothing of the peer's has come by it for {:.0} s", silence.as_secs_f64());
                Some(self.with_cause(port, text))
            }
            Some(_) => None,
        }
    }

    /// What a port without IP, of which nothing can be asked, shows of the cause of silence.
    fn why_silent(&self, port: usize) -> Option<String> {
        self.lanes.get(port)?.socket.as_ref()?.why_silent()
    }

    fn with_cause(&self, port: usize, text: String) -> String {
        self.why_silent(port).map_or(text.clone(), |why| format!("{text}: {why}"))
    }

    /// The lanes to and from a peer that has none with IP, and what their ports show.
    pub(super) fn silent_ports(&self, peer: usize) -> Option<String> {
        let sockets = self.devices.sockets();
        let tables = &self.config.peers.get(peer)?.lanes;
        let whys = tables.iter().enumerate().map(|(place, lane)| {
            lane.line()?;
            Some(format!("{}: {}", config::lane_name(place), self.why_silent(port_of(lane, &sockets))?))
        });
        let whys: Option<Vec<String>> = whys.collect();
        whys.filter(|whys| !whys.is_empty()).map(|whys| whys.join("; "))
    }

    /// Why no lane to the peer, or none from it, can be used, if that is so.
    pub(super) fn why_no_lane(&self, peer: usize) -> Option<String> {
        let sockets = self.devices.sockets();
        let tables = &self.config.peers.get(peer)?.lanes;
        let lack = |without: Directions| {
            let lanes = tables.iter().enumerate().filter(|(_, lane)| lane.ways != without);
            let whys: Option<Vec<String>> = lanes
                .map(|(place, lane)| {
                    let why = self.obstacle(port_of(lane, &sockets), Some(lane))?;
                    Some(format!("{}: {why}", config::lane_name(place)))
                })
                .collect();
            whys.filter(|whys| !whys.is_empty()).map(|whys| whys.join("; "))
        };
        lack(Directions::In).or_else(|| lack(Directions::Out))
    }

    /// The inbound lanes of a peer that answers by no other.
    pub(super) fn brought_by(&self, peer: usize) -> Option<String> {
        let tables = &self.config.peers.get(peer)?.lanes;
        if tables.iter().any(|lane| lane.ways == Directions::Both) {
            return None;
        }
        let name = |(place, lane): (usize, &PeerLane)| {
            let by = lane.socket.as_ref().map_or_else(|| self.config.listen.to_string(), LaneSocket::name);
            format!("{} ({by})", config::lane_name(place))
        };
        let brings = tables.iter().enumerate().filter(|(_, lane)| lane.ways == Directions::In);
        let names: Vec<String> = brings.map(name).collect();
        (!names.is_empty()).then(|| names.join(" or "))
    }

    /// The mark and the device of the lane that leads to `address`.
    pub(super) fn way_to(&self, peer: usize, address: Address) -> (Option<u32>, Option<String>) {
        let found = self.names.addresses();
        let place = found.get(peer).and_then(|lanes| lanes.iter().position(|at| *at == Some(address)));
        let lane = place.and_then(|out| self.out_lane(peer, out));
        let socket = lane.and_then(|(_, lane)| lane.socket.as_ref());
        (socket.and_then(|socket| socket.mark), socket.and_then(|socket| socket.device.clone()))
    }

    /// Where the first lane out with an address leads, as the file has it.
    pub(super) fn written_of(&self, peer: usize) -> Option<String> {
        let mut out = self.config.peers.get(peer)?.lanes.iter().filter(|lane| lane.ways != Directions::In);
        out.find_map(PeerLane::written_address)
    }

    /// The `out`-th outbound lane of a peer, and its place among all.
    pub(super) fn out_lane(&self, peer: usize, out: usize) -> Option<(usize, &PeerLane)> {
        self.config.peers.get(peer)?.lanes.iter().enumerate().filter(|(_, lane)| lane.ways != Directions::In).nth(out)
    }

    /// Says which lanes out of peers that answer have failed or work again.
    pub(super) fn tell_of_lanes(&mut self) {
        let now = self.now;
        for peer in 0..self.peers.len() {
            if !self.peers[peer].up {
                continue;
            }
            let outs =
                self.config.peers.get(peer).map_or(0, |p| p.lanes.iter().filter(|l| l.ways != Directions::In).count());
            self.peers[peer].lanes.resize_with(outs, || Changes::new(now, true));
            for out in 0..outs {
                let works = !self.gateway.lane_failed(PeerId(peer), out);
                if let Some(gone) = self.peers[peer].lanes[out].turn(now, works) {
                    self.tell_of_lane(peer, out, works, gone);
                }
            }
            self.tell_of_answering_lanes(peer);
        }
    }
    /// The same of lanes without a table here: they answer lanes of the peer, which calls.
    fn tell_of_answering_lanes(&mut self, peer: usize) {
        let now = self.now;
        let has_tables = self.config.peers.get(peer).is_some_and(|p| !p.lanes.is_empty());
        let states = self.gateway.lane_failures(PeerId(peer));
        let answering = |&(_, (place, _)): &(usize, (Option<usize>, bool))| !has_tables || place.is_none();
        let answering: Vec<(usize, bool)> =
            states.into_iter().enumerate().filter(answering).map(|(at, (_, failed))| (at, !failed)).collect();
        self.peers[peer].answering.resize_with(answering.len(), || Changes::new(now, true));
        // One alone is the peer itself.
        if answering.len() + self.peers[peer].lanes.len() < 2 {
            return;
        }
        for (place, (at, works)) in answering.into_iter().enumerate() {
            let Some(unsaid) = self.peers[peer].answering[place].turn(now, works) else { continue };
            let status = self.gateway.status(now);
            let Some((lane, p)) = status.peers.get(peer).and_then(|p| Some((p.lanes.get(at)?, p))) else { continue };
            let socket = lane
                .port
                .0
                .checked_sub(1)
                .and_then(|own| self.devices.sockets().get(usize::from(own))?.as_ref().map(LaneSocket::name));
            let by = socket.unwrap_or_else(|| self.config.listen.to_string());
            let to = lane.address.map(|to| format!(" to {to}")).unwrap_or_default();
            let what = if works { "works again" } else { "has failed: no answer" };
            let text = format!("peer '{}', lane by {by}{to} {what}{}", p.name, Changes::unsaid(unsaid));
            self.tell_of_change(works, &text);
        }
    }
    fn tell_of_lane(&mut self, peer: usize, out: usize, works: bool, unsaid: u64) {
        let known = self.gateway.status(self.now).peers.get(peer).map(|p| p.lanes.clone()).unwrap_or_default();
        let Some(p) = self.config.peers.get(peer) else { return };
        let Some(place) = p.lanes.iter().enumerate().filter(|(_, l)| l.ways != Directions::In).nth(out).map(|(i, _)| i)
        else {
            return;
        };
        let documents = self.lane_documents(peer, &known);
        let Some(lane) = documents.get(place) else { return };
        if lane.address.is_none() && lane.configured_address.is_none() {
            // It waits for the peer's first call.
            return;
        }
        let to = lane.address.as_ref().or(lane.configured_address.as_ref());
        let to = to.map(|to| format!(" to {to}")).unwrap_or_default();
        let what = match (works, &lane.unused) {
            (true, _) => "works again".into(),
            (false, Some(why)) if self.is_pinned_to(peer, out) => format!("has failed: {why}"),
            (false, Some(why)) => format!("has failed: {why}; what it had on its way goes by the others"),
            (false, None) => "has failed".into(),
        };
        let text = format!("peer '{}', {} by {}{to} {what}{}", p.name, lane.name, lane.by, Changes::unsaid(unsaid));
        self.tell_hook(peer, Some(lane.name.clone()), works);
        self.tell_of_change(works, &text);
    }
    fn tell_of_change(&mut self, works: bool, text: &str) {
        if works {
            self.say(text);
        } else {
            self.warn(text);
        }
    }
}
