//! A link: everything between us and one neighbour above the session, that is its lanes and its flows.
//!
//! [`Link`] decides what one datagram carries. [`crate::lane`] says whether and how large, [`crate::hop`] fills it,
//! [`crate::session`] seals it. Nothing here knows a key or an address.

mod guard;
mod inbound;
mod share;

use crate::arq::{self, Piece};
use crate::fec::Decoder;
use crate::gateway::Controller;
use crate::hop::{Carried, Hop, HopConfig, Path};
use crate::lane::{LaneConfig, LaneReceiver, LaneSender, Outcome, PathView, Probe, Room};
use crate::packet::{Packets, PacketsConfig};
pub use crate::session::LANES_MAX;
use guard::{Guard, RESERVE};
use inbound::InboundLoss;
use share::{Service, Share};
use wavelane_base::{Class, Ecn, Instant, Octets, Span, Wakeup};
use wavelane_wire::Writer;
use wavelane_wire::datagram::{DATA_HEADER_LEN, TAG_LEN};
use wavelane_wire::frame::{Frame, Frames, Ranges, RepairFrame};

/// Most octets of a lane ack before its ranges.
const LANE_ACK_HEAD_MAX: usize = 2 + 5 * 8;
/// Ranges in an ack that shares its datagram with data; a datagram of its own may carry [`RANGES_ALONE`].
const RANGES_SHARED: usize = 12;
/// Ranges in an ack that travels alone.
const RANGES_ALONE: usize = 64;
/// Most datagrams made from symbols of which the neighbour is told; of more it repeats the contents.
const TO_TELL_MAX: usize = 64;
/// What a repair symbol costs beside its frame.
const SYMBOL_OVERHEAD: usize = 56;
/// Before this many of our packets have a known fate, the link counts as lossy: the first exchanges get copies.
const FATES_KNOWN_MIN: u64 = 50;
/// The loss assumed until then.
const LOSS_UNKNOWN: f64 = 0.01;
/// After this much silence while an answer is owed, the link counts as silent: it asks for a new session too.
pub const SILENCE: Span = Span::from_secs(1);

/// A batch is never longer than this at the lane's rate: what follows it, maybe more urgent, waits no longer.
const BATCH_SPAN: Span = Span::from_millis(1);

/// How a link is set up.
#[derive(Clone, Copy, Debug)]
pub struct LinkConfig {
    /// Our lane's number.
    pub lane: u8,
    /// Its controller.
    pub controller: Controller,
    /// Largest IP packet tried.
    pub mtu_max: usize,
    /// Octets around a datagram on this medium.
    pub overhead: usize,
    /// Flow limits.
    pub hop: HopConfig,
    /// The packet service; `None` turns it off.
    pub packets: Option<PacketsConfig>,
}

/// What one of our datagrams carried, kept until its fate is known.
#[derive(Debug, Default)]
pub struct Record {
    load: Load,
    repair: Part,
}

/// What a datagram carried for the two services.
#[derive(Debug, Default)]
struct Load {
    blocks: Vec<Carried>,
    packets: Vec<Piece>,
}

/// A datagram's part in forward erasure correction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Part {
    #[default]
    None,
    /// Symbols may cover it; its number.
    Protected(u64),
    /// It is a symbol.
    Symbol,
}

/// What is sealed next: the plaintext stands at `DATA_HEADER_LEN` of the caller's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Draft {
    /// Lane to seal under.
    pub lane: u8,
    /// Packet number to seal under.
    pub number: u64,
    /// Octets of plaintext.
    pub plain_len: usize,
    /// Service class of the most urgent content.
    pub class: Class,
}

/// One received, authenticated datagram, besides its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When it is handled.
    pub now: Instant,
    /// When the port got it.
    pub rx_time: Instant,
    /// The neighbour's lane.
    pub lane: u8,
    /// Its packet number.
    pub number: u64,
    /// Its ECN mark.
    pub ecn: Ecn,
}

/// Counters of a link; all only grow.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkCounters {
    /// Authenticated payloads that hold something we cannot read.
    pub malformed: u64,
    /// Datagrams composed.
    pub datagrams_sent: u64,
    /// Datagrams received and authenticated.
    pub datagrams_received: u64,
    /// Lane acks for lanes we do not have.
    pub stray_acks: u64,
    /// Datagrams of ours that repair symbols could cover.
    pub protected: u64,
    /// Repair symbols sent, and their octets.
    pub symbols_sent: u64,
    /// See `symbols_sent`.
    pub symbol_octets: u64,
    /// Protected datagrams of ours that were lost, and that the neighbour made from symbols.
    pub repaired: u64,
    /// Protected datagrams of ours that were lost, and had to be repeated.
    pub unrepaired: u64,
    /// Datagrams of the neighbour that we made from symbols.
    pub recovered: u64,
    /// Frames of the packet service, which is off here.
    pub unwanted_packets: u64,
}

/// One neighbour's lanes and flows.
#[derive(Debug)]
pub struct Link {
    config: LinkConfig,
    sender: LaneSender<Record>,
    /// One per lane of the neighbour, made when first heard.
    receivers: Vec<LaneReceiver>,
    /// Loss on the neighbour's lanes, in the same order.
    inbound: Vec<InboundLoss>,
    /// Repair symbols for what the neighbour sends, in the same order.
    decoders: Vec<Decoder>,
    /// Repair symbols for what we send.
    guard: Guard,
    /// Datagrams of the neighbour (lane, number) that we made from symbols and have not told it of.
    to_tell: Vec<(u8, u64)>,
    /// Our flows with the neighbour.
    pub hop: Hop,
    /// Our packets to and from the neighbour.
    pub packets: Option<Packets>,
    share: Share,
    counters: LinkCounters,
    /// When silence is worth reporting; set while an answer is owed.
    silence_at: Option<Instant>,
    /// Silence that nobody took yet.
    silent: bool,
    /// The neighbour must see a datagram of ours soon: it may not use a new session's keys before.
    confirm: bool,
}

impl Link {
    /// A link to a neighbour whose memory of us is empty.
    pub fn new(now: Instant, config: LinkConfig) -> Self {
        Self {
            config,
            sender: LaneSender::new(now, lane_config(&config)),
            receivers: Vec::new(),
            inbound: Vec::new(),
            decoders: Vec::new(),
            guard: Guard::default(),
            to_tell: Vec::new(),
            hop: Hop::new(config.hop),
            packets: config.packets.map(Packets::new),
            share: Share::default(),
            counters: LinkCounters::default(),
            silence_at: None,
            silent: false,
            confirm: false,
        }
    }

    /// The neighbour came back without its memory: lanes start over, flows are reset.
    pub fn restart(&mut self, now: Instant) {
        self.sender.restart(now);
        self.receivers.clear();
        self.inbound.clear();
        self.decoders.clear();
        self.guard = Guard::default();
        self.to_tell.clear();
        self.heard();
        self.hop.peer_restarted(now);
        if let Some(packets) = &mut self.packets {
            packets.restart();
        }
    }

    /// The neighbour's datagrams come from somewhere else now.
    pub fn address_changed(&mut self, now: Instant) {
        self.sender.address_changed(now);
    }

    /// A session that we initiated stands: send something soon.
    pub fn confirm_session(&mut self) {
        self.confirm = true;
    }

    /// Whether a session is needed: something is to be sent, or an answer is owed.
    pub fn wants_session(&self, now: Instant) -> bool {
        self.silence_at.is_some() || self.wants(now).is_some() || self.ack_due(now)
    }

    /// The class of the most urgent thing that waits.
    fn wants(&self, now: Instant) -> Option<Class> {
        let packets = self.packets.as_ref().and_then(Packets::wants);
        match (self.hop.wants(now), packets) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Whether an answer has been owed for another [`SILENCE`] since this was last asked.
    pub fn take_silence(&mut self) -> bool {
        core::mem::take(&mut self.silent)
    }

    /// What the lane knows of its path.
    pub fn path(&self, now: Instant) -> PathView {
        self.sender.path(now)
    }

    /// Counters for `status`.
    pub fn counters(&self) -> LinkCounters {
        let guard = self.guard.counters();
        LinkCounters {
            protected: guard.protected,
            symbols_sent: guard.symbols,
            symbol_octets: guard.symbol_octets,
            repaired: guard.repaired,
            unrepaired: guard.unrepaired,
            ..self.counters
        }
    }

    fn ack_due(&self, now: Instant) -> bool {
        self.receivers.iter().any(|lane| lane.ack_due(now))
    }

    /// Writes the plaintext of the next datagram at `buf[DATA_HEADER_LEN..]`, or says that nothing may leave now.
    pub fn compose(&mut self, now: Instant, buf: &mut [u8]) -> Option<Draft> {
        let probe = self.sender.poll_probe(now);
        if let Some(Probe::Mtu { datagram }) = probe {
            return self.compose_mtu_probe(now, buf, datagram);
        }
        if probe == Some(Probe::Tail) {
            self.hop.doubt_oldest();
        }
        let wanted = self.wants(now);
        if probe.is_none()
            && let Some(draft) = self.compose_symbol(now, wanted, buf)
        {
            return Some(draft);
        }
        let due = self.ack_due(now);
        let tail = probe == Some(Probe::Tail);
        let must_ping = probe.is_some() || self.confirm;
        let (class, datagram_max) = self.allowed(now, wanted, tail);
        if class.is_none() && !due && !must_ping {
            return None;
        }
        // A packet that just fits a datagram is not to be cut for the sake of room for symbols.
        let packets_wait = self.packets.as_ref().is_some_and(|packets| packets.wants().is_some());
        let may_protect = class == Some(Class::Bulk) && !tail && !packets_wait;
        let protect = may_protect && self.hop.budget.is_lossy() && self.hop.ends_soon(now);
        let reserve = if protect { RESERVE } else { 0 };
        let end = datagram_max.min(buf.len()).checked_sub(TAG_LEN + reserve)?;
        let mut w = Writer::new(buf.get_mut(DATA_HEADER_LEN..end)?);
        let mut record = Record::default();
        if protect {
            Frame::Protected.emit(&mut w).ok()?;
            record.repair = Part::Protected(self.sender.next_number());
        }
        if due {
            put_repaired(&mut self.to_tell, &mut w);
            let ranges = if class.is_some() { RANGES_SHARED } else { RANGES_ALONE };
            put_acks(now, &mut self.receivers, ranges, &mut w);
        }
        let mut eliciting = self.put_wish(now, class.is_some(), &mut w);
        if let Some(class) = class {
            let full = end.saturating_sub(DATA_HEADER_LEN);
            eliciting |= self.fill(now, class, full, &mut w, &mut record.load);
        }
        if must_ping && !eliciting {
            eliciting = Frame::Ping.emit(&mut w).is_ok();
        }
        if w.len() == usize::from(protect) {
            return None;
        }
        let plain_len = w.len();
        let app_limited = self.wants(now).is_none();
        if let Part::Protected(number) = record.repair {
            self.guard.protect(number, &buf[DATA_HEADER_LEN..DATA_HEADER_LEN + plain_len]);
        }
        if app_limited {
            self.guard.stretch_ended(now, self.hop.path());
        }
        let draft = Draft {
            lane: self.config.lane,
            number: self.sender.next_number(),
            plain_len,
            class: wanted.unwrap_or(Class::Control),
        };
        self.sender.sent(now, DATA_HEADER_LEN + plain_len + TAG_LEN, eliciting, app_limited, record);
        self.note_sent(now, eliciting);
        Some(draft)
    }

    /// The next repair symbol, if one is due, the lane takes it, and nothing more urgent waits.
    fn compose_symbol(&mut self, now: Instant, wanted: Option<Class>, buf: &mut [u8]) -> Option<Draft> {
        if !self.guard.is_due(now) || wanted.is_some_and(|class| class < Class::Bulk) {
            return None;
        }
        let Room::Open { datagram_max } = self.sender.room(now, Class::Bulk) else { return None };
        let end = datagram_max.min(buf.len()).checked_sub(TAG_LEN)?;
        let fits = DATA_HEADER_LEN + self.guard.frame_len() <= end;
        if !fits || !self.hop.budget.spend(now, (self.guard.frame_len() + SYMBOL_OVERHEAD) as u64) {
            // Packets became smaller, or repair has cost enough: what is lost is repeated.
            self.guard.drop_plan();
            return None;
        }
        let repair = self.guard.take_symbol()?;
        let mut w = Writer::new(buf.get_mut(DATA_HEADER_LEN..end)?);
        let (lane, key, first, mask) = (self.config.lane, repair.key, repair.first, repair.mask);
        Frame::Repair(RepairFrame { lane, key, first, mask, symbol: &repair.symbol }).emit(&mut w).ok()?;
        let plain_len = w.len();
        let draft = Draft { lane, number: self.sender.next_number(), plain_len, class: Class::Bulk };
        let record = Record { load: Load::default(), repair: Part::Symbol };
        self.sender.sent(now, DATA_HEADER_LEN + plain_len + TAG_LEN, true, wanted.is_none(), record);
        self.note_sent(now, true);
        Some(draft)
    }

    /// Fills the rest of a datagram: control and micro frames, then small packets of sparse flows, then blocks and
    /// packets as their turns come. Returns whether anything was written. `full` is the room of a whole datagram.
    fn fill(&mut self, now: Instant, class: Class, full: usize, w: &mut Writer<'_>, load: &mut Load) -> bool {
        let before = w.len();
        if self.packets.as_ref().is_none_or(|packets| packets.wants().is_none()) {
            return self.hop.fill(now, class, w, &mut load.blocks);
        }
        self.hop.fill(now, class.min(Class::Micro), w, &mut load.blocks);
        let blocks_wait = self.hop.wants(now).is_some();
        if class >= Class::Micro && (!blocks_wait || self.share.small_may_pass()) {
            let start = w.len();
            if let Some(packets) = &mut self.packets {
                packets.fill_small(now, w, &mut load.packets);
            }
            self.share.charge(Service::Packets, w.len() - start);
        }
        if class == Class::Bulk {
            let first = self.share.turn(blocks_wait, self.packets.as_ref().is_some_and(|p| p.wants().is_some()));
            let second = if first == Service::Blocks { Service::Packets } else { Service::Blocks };
            for service in [first, second] {
                let start = w.len();
                match (service, &mut self.packets) {
                    (Service::Packets, Some(packets)) => {
                        packets.fill(now, full, start == before, w, &mut load.packets);
                    }
                    _ => {
                        self.hop.fill(now, class, w, &mut load.blocks);
                    }
                }
                self.share.charge(service, w.len() - start);
            }
        }
        w.len() > before
    }

    /// The least urgent class that may be sent now, and how large the datagram may be.
    fn allowed(&self, now: Instant, wanted: Option<Class>, tail: bool) -> (Option<Class>, usize) {
        let full = self.sender.datagram_max();
        let Some(wanted) = wanted else { return (None, full) };
        if tail {
            return (Some(Class::Bulk), full);
        }
        for class in [Class::Bulk, Class::Micro, Class::Control] {
            if class < wanted {
                break;
            }
            if let Room::Open { datagram_max } = self.sender.room(now, class) {
                return (Some(class), datagram_max);
            }
        }
        (None, full)
    }

    fn compose_mtu_probe(&mut self, now: Instant, buf: &mut [u8], datagram: usize) -> Option<Draft> {
        let plain_len = datagram.checked_sub(DATA_HEADER_LEN + TAG_LEN)?;
        let body = buf.get_mut(DATA_HEADER_LEN..DATA_HEADER_LEN + plain_len)?;
        // The padding frame is a zero byte.
        body.fill(0);
        Frame::Ping.emit(&mut Writer::new(body)).ok()?;
        let number = self.sender.next_number();
        self.sender.sent_mtu_probe(now, datagram);
        self.note_sent(now, true);
        Some(Draft { lane: self.config.lane, number, plain_len, class: Class::Bulk })
    }

    /// How many datagrams as long as `first` may leave as one batch: one alone unless it is as long as they come, and no
    /// more than [`BATCH_SPAN`] of the lane's time.
    pub fn batch_max(&self, first: usize) -> usize {
        if first != self.sender.datagram_max() {
            return 1;
        }
        let octets = self.sender.rate().octets_in(BATCH_SPAN).get();
        usize::try_from(octets).unwrap_or(usize::MAX) / (first + self.config.overhead)
    }

    /// Whether the next datagram is a probe, or asks for something as probes do: it leaves alone.
    pub fn probe_waits(&self, now: Instant) -> bool {
        self.sender.probe_waits(now)
    }

    fn note_sent(&mut self, now: Instant, eliciting: bool) {
        self.confirm = false;
        self.counters.datagrams_sent += 1;
        if eliciting && self.silence_at.is_none() {
            self.silence_at = Some(now + SILENCE);
        }
    }

    /// Tells the neighbour, in a datagram that leaves anyway, how often we wish to be acknowledged.
    fn put_wish(&mut self, now: Instant, leaving: bool, w: &mut Writer<'_>) -> bool {
        let Some((packets, delay)) = self.sender.ack_wish().filter(|_| leaving) else { return false };
        let frame = Frame::AckWish { lane: self.config.lane, packets, delay_us: delay.as_micros(), now: false };
        let written = frame.emit(w).is_ok();
        if written {
            self.sender.wish_sent(now);
        }
        written
    }

    /// An authenticated datagram came from the neighbour, whatever it holds.
    pub fn heard(&mut self) {
        self.silence_at = None;
        self.silent = false;
    }

    /// Takes the plaintext of an authenticated datagram.
    pub fn handle_payload(&mut self, arrival: Arrival, payload: &[u8]) {
        let Arrival { now, rx_time, lane, number, ecn } = arrival;
        self.counters.datagrams_received += 1;
        let known = receiver(&mut self.receivers, lane).is_some();
        if known {
            self.inbound.resize(self.receivers.len(), InboundLoss::default());
            self.decoders.resize_with(self.receivers.len(), Decoder::default);
        }
        let protected = known && matches!(Frames::new(payload).next(), Some(Ok(Frame::Protected)));
        let mut asked = Asked { eliciting: true, now: false };
        // What was made from symbols before it arrived was taken in then.
        if !protected || self.decoders[usize::from(lane)].source(number, payload) {
            asked = self.take_frames(now, payload, false);
        }
        if known {
            asked.now |= self.take_recovered(now, lane);
        }
        if let Some(receiver) = receiver(&mut self.receivers, lane) {
            receiver.received(now, rx_time, number, ecn, asked.eliciting, asked.now);
            self.inbound[usize::from(lane)].arrived(number);
        }
        self.settle(now);
    }

    /// Takes the frames of one datagram. Of one that was `recovered` the lane acks are left out: they are late.
    fn take_frames(&mut self, now: Instant, payload: &[u8], recovered: bool) -> Asked {
        let mut asked = Asked::default();
        for frame in Frames::new(payload) {
            let Ok(frame) = frame else {
                self.counters.malformed += 1;
                break;
            };
            asked.eliciting |= frame.is_eliciting();
            match frame {
                Frame::LaneAck(_) | Frame::Repair(_) | Frame::Repaired { .. } if recovered => {}
                Frame::LaneAck(ack) if ack.lane == self.config.lane => self.sender.handle_ack(now, &ack),
                Frame::LaneAck(_) => self.counters.stray_acks += 1,
                Frame::AckWish { lane, packets, delay_us, now } => {
                    asked.now |= now;
                    if let Some(receiver) = receiver(&mut self.receivers, lane) {
                        receiver.wish(packets, Span::from_micros(delay_us));
                    }
                }
                Frame::Repair(repair) => {
                    if let Some(decoder) = self.decoders.get_mut(usize::from(repair.lane)) {
                        decoder.repair(repair.key, repair.first, repair.mask, repair.symbol);
                    }
                }
                Frame::Repaired { lane, numbers } if lane == self.config.lane => self.repaired(now, &numbers),
                Frame::Repaired { .. } => self.counters.stray_acks += 1,
                Frame::Padding | Frame::Ping | Frame::Close | Frame::Protected | Frame::Unknown { .. } => {}
                Frame::Packet(packet) => match &mut self.packets {
                    Some(packets) => packets.handle_frame(now, &packet),
                    None => self.counters.unwanted_packets += 1,
                },
                flow_frame => self.hop.handle_frame(now, &flow_frame),
            }
        }
        asked
    }

    /// Takes in what repair symbols brought back. Returns whether that was anything.
    fn take_recovered(&mut self, now: Instant, lane: u8) -> bool {
        let mut any = false;
        while let Some((number, payload)) = self.decoders[usize::from(lane)].poll_recovered() {
            any = true;
            self.counters.recovered += 1;
            self.take_frames(now, &payload, true);
            if self.to_tell.len() < TO_TELL_MAX {
                self.to_tell.push((lane, number));
            }
        }
        any
    }

    /// The neighbour made these datagrams of ours from symbols: nothing of them is to be repeated.
    fn repaired(&mut self, now: Instant, numbers: &Ranges) {
        let numbers = numbers.0.iter().flat_map(|&(first, last)| first..=last);
        for number in numbers.take(TO_TELL_MAX) {
            let parked = self.guard.repaired(number);
            let record = self.sender.take_record(number).map(|record| record.load);
            parked.into_iter().chain(record).for_each(|load| self.delivered(now, load));
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some(at) = self.silence_at.filter(|at| *at <= now) {
            self.silent = true;
            // Missed repeats (a suspended process) are not made up for.
            self.silence_at = Some((at + SILENCE).max(now + Span::from_nanos(1)));
        }
        self.sender.handle_timeout(now);
        for receiver in &mut self.receivers {
            receiver.handle_timeout(now);
        }
        self.settle(now);
        self.hop.handle_timeout(now);
        if let Some(packets) = &mut self.packets {
            packets.handle_timeout(now);
        }
    }

    fn delivered(&mut self, now: Instant, load: Load) {
        load.blocks.into_iter().for_each(|item| self.hop.delivered(now, item));
        if let Some(packets) = &mut self.packets {
            load.packets.into_iter().for_each(|piece| packets.delivered(piece));
        }
    }

    fn lost(&mut self, now: Instant, load: Load) {
        load.blocks.into_iter().for_each(|item| self.hop.lost(now, item));
        if let Some(packets) = &mut self.packets {
            load.packets.into_iter().for_each(|piece| packets.lost(now, piece));
        }
    }

    /// Hands the fate of what was sent, and what is known of the path, to the two services.
    fn settle(&mut self, now: Instant) {
        let rtt = self.hop.path().rtt;
        while let Some(outcome) = self.sender.poll_outcome() {
            match outcome {
                Outcome::Delivered(record) => {
                    match record.repair {
                        Part::None => {}
                        Part::Protected(number) => self.guard.arrived(number),
                        Part::Symbol => self.guard.symbol_settled(),
                    }
                    self.delivered(now, record.load);
                }
                Outcome::Lost(Record { load, repair }) => {
                    let load = match repair {
                        Part::None => Some(load),
                        Part::Protected(number) => self.guard.lost(now, number, load, rtt),
                        Part::Symbol => {
                            self.guard.symbol_settled();
                            None
                        }
                    };
                    load.into_iter().for_each(|load| self.lost(now, load));
                }
            }
        }
        while let Some(load) = self.guard.poll_given_up(now) {
            self.lost(now, load);
        }
        let view = self.sender.path(now);
        if let Some(rtt) = view.rtt {
            let known = view.delivered_packets + view.lost_packets >= FATES_KNOWN_MIN;
            let own = if known { view.loss } else { view.loss.max(LOSS_UNKNOWN) };
            let loss = self.inbound.iter().map(InboundLoss::share).fold(own, f64::max);
            self.hop.set_path(Path { rtt, rate: view.rate, loss, burst: view.burst });
            if let Some(packets) = &mut self.packets {
                // Copies are for the losses of our own direction, once they are known.
                let loss = if known { view.loss } else { loss };
                packets.set_path(arq::Path {
                    rtt: Some(rtt),
                    rtt_var: view.rtt_var,
                    ack_delay: self.sender.ack_delay(),
                    packet_time: view.rate.time_for(Octets::new(view.path_mtu as u64)),
                    loss,
                    burst: view.burst.unwrap_or_default(),
                });
            }
        }
    }

    /// The next deadline. While nothing can be sealed, nothing of the lane can be sent, and its wishes wait.
    pub fn poll_timeout(&self, can_seal: bool) -> Option<Wakeup> {
        let silence = self.silence_at.map(|at| Wakeup { at, cause: "silence" });
        let lanes = self.receivers.iter().map(LaneReceiver::poll_timeout);
        let base = lanes.fold(self.hop.poll_timeout(), Wakeup::earliest);
        let packets = self.packets.as_ref().and_then(|packets| packets.poll_timeout(can_seal));
        let base = Wakeup::earliest(Wakeup::earliest(base, silence), packets);
        let base = Wakeup::earliest(base, self.guard.poll_timeout());
        if can_seal { Wakeup::earliest(base, self.sender.poll_timeout()) } else { base }
    }
}

/// What a datagram's frames ask for: a lane ack, and at once.
#[derive(Clone, Copy, Default)]
struct Asked {
    eliciting: bool,
    now: bool,
}

/// The receiver for the neighbour's lane, made on first use; `None` past [`LANES_MAX`].
fn receiver(receivers: &mut Vec<LaneReceiver>, lane: u8) -> Option<&mut LaneReceiver> {
    if usize::from(lane) >= LANES_MAX {
        return None;
    }
    while receivers.len() <= usize::from(lane) {
        receivers.push(LaneReceiver::new(receivers.len() as u8));
    }
    receivers.get_mut(usize::from(lane))
}

/// Appends word of what was made from symbols, lane by lane; it goes before the acks that call it lost.
fn put_repaired(to_tell: &mut Vec<(u8, u64)>, w: &mut Writer<'_>) {
    to_tell.sort_unstable();
    while let Some(&(lane, number)) = to_tell.last() {
        let numbers = Ranges(vec![(number, number)]);
        if (Frame::Repaired { lane, numbers }).emit(w).is_err() {
            return;
        }
        to_tell.pop();
    }
}

/// Appends the acks that are due. One that does not fit waits for the next datagram.
fn put_acks(now: Instant, receivers: &mut [LaneReceiver], ranges: usize, w: &mut Writer<'_>) {
    for receiver in receivers.iter_mut().filter(|lane| lane.ack_due(now)) {
        if w.room() < LANE_ACK_HEAD_MAX + Ranges::len_max(ranges) {
            return;
        }
        if let Some(ack) = receiver.take_ack(now, ranges) {
            let written = Frame::LaneAck(ack).emit(w);
            debug_assert!(written.is_ok(), "room was checked");
        }
    }
}

fn lane_config(config: &LinkConfig) -> LaneConfig {
    LaneConfig { lane: config.lane, controller: config.controller, mtu_max: config.mtu_max, overhead: config.overhead }
}
