//! A link: everything above the session between us and one neighbour, that is, its lanes and its flows.
//!
//! [`Link`] decides what one datagram carries. [`crate::lane`] says whether and how large, its [`Service`] fills it,
//! [`crate::session`] seals it. Nothing here knows a key or an address.

mod busy;
mod choice;
mod compose;
mod cost;
mod double;
mod echo;
mod first;
mod going;
mod guard;
mod inbound;
mod lanes;
mod liveness;
mod path;
mod receive;

use crate::fec::Decoder;
use crate::lane::{LaneReceiver, LaneView, Outcome, RIDING_DELAY, SENT_MIN};
pub use crate::session::LANES_MAX;
use crate::session::OpenOctets;
use crate::{Controller, PathView, RepairBudget, Service};
use busy::Busy;
pub use choice::Choice;
use cost::Costs;
use double::Double;
pub use echo::Echo;
use first::First;
use going::Going;
use guard::Why;
use inbound::InboundLoss;
use lanes::Lanes;
use liveness::Liveness;
use path::PathResponses;
use std::collections::VecDeque;
use wavelane_base::{Carrier, Class, Ecn, Entropy, Instant, Octets, Rate, Span, Wakeup};

/// Most datagrams rebuilt from symbols that are reported to the neighbour; it retransmits the contents of any others.
const TO_TELL_MAX: usize = 64;
/// A full packet, for limits given as a number of packets.
const PACKET_FULL: u64 = 1_500;
/// Until this many of our packets have a known fate, the link counts as lossy: the first exchanges get copies.
const FATES_KNOWN_MIN: u64 = 50;
/// The loss assumed until then.
const LOSS_UNKNOWN: f64 = 0.01;
/// If the neighbour asks for acks this far apart, the return path carries a few kilobit a second: ack datagrams have to be short.
pub const VERY_THIN: Span = Span::from_secs(1);
/// Most path responses kept until they are polled.
const HEARD_RESPONSES_MAX: usize = 8;

/// How a lane out is set up.
#[derive(Clone, Copy, Debug)]
pub struct LaneOptions {
    /// Its controller.
    pub controller: Controller,
    /// The rate that the delay controller starts at, if less than its own 4 Mbit/s.
    pub start_rate: Option<Rate>,
    /// What carries its datagrams.
    pub carrier: Carrier,
    /// Traffic on it costs money: it carries only while no other lane can, and asks for answers rarely.
    pub metered: bool,
    /// Whether it may carry bulk.
    pub bulk: bool,
    /// Whether it carries small exchanges and acks while others that do so work.
    pub small: bool,
}

/// How a link is set up.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Our lanes out, one to [`LANES_MAX`]; a lane's number is its index.
    pub lanes: Vec<LaneOptions>,
    /// How they are used.
    pub choice: Choice,
    /// After this long without a datagram one is sent, and a session is kept for that.
    pub keepalive: Option<Span>,
    /// Upper limit of octets in flight.
    pub in_flight_max: Octets,
}

/// What one of our datagrams carried, kept until its fate is known.
#[derive(Debug, Default)]
pub struct SentDatagram<L> {
    load: L,
    repair: Part,
    /// Whether it carried any data of the service.
    carries: bool,
    /// Which lanes it reported as gone, as a bit mask.
    gone: u8,
    /// Under which number it said which of our lanes are metered.
    costs: Option<u8>,
    /// The echo that it makes.
    echo: Option<echo::Sent>,
}

/// The role of a datagram in forward erasure correction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Part {
    #[default]
    None,
    /// Symbols may cover it; its packet number and the reason.
    Protected(u64, Why),
    /// It is a symbol.
    Symbol,
}

/// What is sealed next: the plaintext is at `DATA_HEADER_LEN` of the caller's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Draft {
    /// Lane to seal under.
    pub lane: u8,
    /// Packet number to seal under.
    pub number: u64,
    /// Octets of plaintext.
    pub plain_len: usize,
    /// How many of the last of them are to be left open.
    pub open: usize,
    /// Service class of the most urgent content.
    pub class: Class,
}

/// Metadata of one received, authenticated datagram.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When it is handled.
    pub now: Instant,
    /// When the port received it.
    pub rx_time: Instant,
    /// The neighbour's lane.
    pub lane: u8,
    /// Our lane back by the same path, if there is one.
    pub back: Option<usize>,
    /// Its packet number.
    pub number: u64,
    /// Its ECN mark.
    pub ecn: Ecn,
    /// Which of its last octets were open.
    pub open: Option<OpenOctets>,
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
    /// Lane acks of numbers that we never sent.
    pub optimistic_acks: u64,
    /// Datagrams of ours that repair symbols could cover.
    pub protected: u64,
    /// Repair symbols sent, and their octets.
    pub symbols_sent: u64,
    /// See `symbols_sent`.
    pub symbol_octets: u64,
    /// Protected datagrams of ours that were lost and that the neighbour rebuilt from symbols.
    pub repaired: u64,
    /// Protected datagrams of ours that were lost and had to be retransmitted.
    pub unrepaired: u64,
    /// Datagrams of the neighbour that we rebuilt from symbols.
    pub recovered: u64,
    /// Small datagrams that were copied to a second lane, and the octets of these copies.
    pub doubled: u64,
    /// See `doubled`.
    pub doubled_octets: u64,
}

/// One neighbour's lanes, and the service over them.
#[derive(Debug)]
pub struct Link<S: Service> {
    /// Our lanes out.
    lanes: Lanes<S::Load>,
    /// Most datagrams of a lane whose fate is tracked.
    sent_max: usize,
    /// One per lane of the neighbour, created when it is first heard.
    receivers: Vec<LaneReceiver>,
    /// Loss on the neighbour's lanes, in the same order.
    inbound: Vec<InboundLoss>,
    /// Octets on the medium received on them, in the same order.
    came: [u64; LANES_MAX],
    /// Repair symbols for what the neighbour sends, in the same order.
    decoders: Vec<Decoder>,
    /// Datagrams of the neighbour (lane, number) that we rebuilt from symbols and have not reported yet.
    to_tell: Vec<(u8, u64)>,
    /// The service it carries; the link's owner calls it directly.
    pub service: S,
    /// The repair budget of our direction, shared by the service and symbols.
    budget: RepairBudget,
    /// The neighbour takes packets that are told by an earlier one's headers.
    compresses: bool,
    /// The paths last reported to services.
    views: Vec<PathView>,
    counters: LinkCounters,
    liveness: Liveness,
    responses: PathResponses,
    busy: Busy,
    /// The neighbour's responses to our challenges, at most [`HEARD_RESPONSES_MAX`].
    heard_responses: VecDeque<[u8; 8]>,
    /// What became of echoes.
    heard_echoes: VecDeque<Echo>,
    going: Going,
    costs: Costs,
    first: First,
    double: Double,
    asks: Asks,
}

/// A request to the neighbour for an answer at once.
#[derive(Clone, Copy, Debug, Default)]
struct Asks {
    /// The next datagram makes it.
    due: bool,
    /// The datagram that made the last one, by lane and number, until that is acknowledged.
    made_by: Option<(u8, u64)>,
    /// It was acknowledged, and that was not taken yet.
    answered: bool,
}

impl<S: Service> Link<S> {
    /// A link to a neighbour that has no state for us. `dice` decides which packet numbers are skipped.
    ///
    /// # Panics
    /// If `config` names no lane.
    pub fn new(now: Instant, config: LinkConfig, service: S, dice: Entropy) -> Self {
        let sent_max = usize::try_from(config.in_flight_max.get() / PACKET_FULL).unwrap_or(usize::MAX).max(SENT_MIN);
        Self {
            responses: PathResponses::default(),
            busy: Busy::default(),
            heard_responses: VecDeque::new(),
            heard_echoes: VecDeque::new(),
            going: Going::default(),
            costs: Costs::default(),
            first: First::default(),
            double: Double::new(now),
            asks: Asks::default(),
            lanes: Lanes::new(now, &config.lanes, config.choice, sent_max, dice),
            sent_max,
            receivers: Vec::new(),
            inbound: Vec::new(),
            came: [0; LANES_MAX],
            decoders: Vec::new(),
            to_tell: Vec::new(),
            service,
            budget: RepairBudget::default(),
            compresses: false,
            views: Vec::new(),
            counters: LinkCounters::default(),
            liveness: Liveness::new(now, config.keepalive),
        }
    }

    /// Sets how long the link may be quiet from now on.
    pub fn set_keepalive(&mut self, keepalive: Option<Span>) {
        self.liveness.keepalive = keepalive;
    }

    /// The number of our lanes out, removed ones included.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// The neighbour is now reached at an address of another kind.
    pub fn set_carrier(&mut self, lane: usize, carrier: Carrier) {
        self.lanes[lane].set_carrier(carrier);
    }

    /// The neighbour restarted without its state: lanes start over, flows are reset.
    pub fn restart(&mut self, now: Instant) {
        self.lanes.iter_mut().for_each(|lane| lane.restart(now));
        self.lanes.set_told(0);
        self.lanes.sort(now, false);
        self.receivers.clear();
        self.inbound.clear();
        self.decoders.clear();
        self.to_tell.clear();
        self.responses = PathResponses::default();
        self.going = Going::default();
        self.costs = Costs::default();
        self.double = Double::new(now);
        self.asks = Asks::default();
        self.first = First::default();
        self.busy = Busy::default();
        self.heard(now);
        self.service.restart(now);
    }

    /// A lane now leads to another address.
    pub fn address_changed(&mut self, now: Instant, lane: usize) {
        self.lanes[lane].sender.address_changed(now);
    }

    /// The same, caused by us: the neighbour is to learn the new source address soon.
    pub fn lane_moved(&mut self, now: Instant, lane: usize) {
        self.address_changed(now, lane);
        self.lanes[lane].ping |= !self.lanes[lane].is_closed();
    }

    /// A handshake was answered after `round_trip`: until anything else is answered, that long does not count as silence.
    pub fn suppose(&mut self, now: Instant, round_trip: Span) {
        let supposed = self.lanes.iter_mut().filter_map(|lane| lane.sender.suppose(now, round_trip)).max();
        supposed.into_iter().for_each(|supposed| self.liveness.suppose(supposed));
    }

    /// A session that we initiated is up: every lane sends something soon, because the neighbour may not use the keys before that.
    pub fn confirm_session(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.ping = true);
    }

    /// The neighbour is asked for an answer now, and for what it has to say with it.
    pub fn ask(&mut self) {
        self.asks = Asks { due: true, ..Asks::default() };
    }

    /// Whether it has answered since the last call.
    pub fn take_answered(&mut self) -> bool {
        core::mem::take(&mut self.asks.answered)
    }

    /// Whether a session is needed: something has to be sent, or an answer is owed.
    pub fn wants_session(&self, now: Instant) -> bool {
        let challenges = self.lanes.iter().any(|lane| lane.challenge.is_some());
        let asked = self.ack_due(now) || challenges || self.responses.are_due();
        self.liveness.keepalive.is_some()
            || self.liveness.is_owed_answer()
            || self.service.wants(now).is_some()
            || self.going.waits()
            || self.echo_waits()
            || asked
    }

    /// Whether something that asks for an answer was sent, and nothing was received since.
    pub fn is_owed_answer(&self) -> bool {
        self.liveness.is_owed_answer()
    }

    /// Whether an answer has been owed for another second since the last call.
    pub fn take_silence(&mut self) -> bool {
        self.liveness.take_silence()
    }

    /// Smoothed round trip, or the assumed one before the first sample.
    pub fn round_trip(&self) -> Span {
        self.lanes.best().rtt
    }

    /// The path state of a lane.
    pub fn path(&self, now: Instant, lane: usize) -> LaneView {
        self.lanes[lane].sender.path(now)
    }

    /// Whether a lane carries nothing because no answers come back on it, while others work.
    pub fn lane_failed(&self, lane: usize) -> bool {
        self.lanes[lane].has_failed()
    }

    /// Whether a lane carries nothing because other lanes are preferred.
    pub fn lane_is_spare(&self, lane: usize) -> bool {
        self.lanes[lane].is_spare()
    }

    /// Sets whether the port of a lane takes datagrams now: other lanes carry what it does not take.
    pub fn set_room(&mut self, now: Instant, lane: usize, room: bool) {
        self.lanes[lane].blocked = !room;
        self.lanes.sort(now, self.liveness.is_in_use(now));
    }

    /// Sets whether the neighbour takes packets that are told by an earlier one's headers.
    pub fn let_compress(&mut self, may: bool) {
        self.compresses = may;
    }

    /// Sets whether the port of a lane takes no bulk until told otherwise.
    pub fn hold_bulk(&mut self, lane: usize, holds: bool) {
        self.lanes[lane].sender.hold_bulk(holds);
    }

    /// Sets whether datagrams of a lane may leave octets open for others to overhear.
    pub fn let_overhear(&mut self, lane: usize, may: bool) {
        self.lanes[lane].may_be_open = may;
    }

    /// Sets whether there is a device behind the port of a lane. Without one the lane counts as failed.
    pub fn set_there(&mut self, now: Instant, lane: usize, there: bool) {
        if self.lanes[lane].set_there(there) {
            self.settle(now);
        }
    }

    /// Octets around each datagram of a lane on its medium, or of one that came by no lane of ours.
    pub fn overhead(&self, lane: Option<usize>) -> usize {
        let lane = lane.filter(|lane| *lane < self.lanes.len()).unwrap_or_else(|| self.lanes.first());
        self.lanes[lane].overhead()
    }

    /// Share of the neighbour's packets that are missing lately, on the worst of its lanes.
    pub fn inbound_loss(&self) -> f64 {
        self.inbound.iter().map(InboundLoss::shown).fold(0.0, f64::max)
    }

    /// The lane on which a packet sent now arrives soonest.
    pub fn best_lane(&self) -> usize {
        self.lanes.first()
    }

    /// Counters for `status`.
    pub fn counters(&self) -> LinkCounters {
        let mut all = self.counters;
        for lane in self.lanes.iter() {
            let guard = lane.guard.counters();
            all.protected += guard.protected;
            all.symbols_sent += guard.symbols;
            all.symbol_octets += guard.symbol_octets;
            all.repaired += guard.repaired;
            all.unrepaired += guard.unrepaired;
            all.optimistic_acks += lane.sender.optimistic_acks();
        }
        all
    }

    fn ack_due(&self, now: Instant) -> bool {
        self.receivers.iter().any(|lane| lane.ack_due(now))
    }

    /// The interval at which the neighbour wishes to get acks for what it sends.
    fn told_apart(&self) -> Span {
        self.receivers.iter().map(LaneReceiver::delay).max().unwrap_or(Span::ZERO)
    }

    /// Whether it wishes that because the path to it is thin.
    fn is_thin(&self) -> bool {
        self.told_apart() > RIDING_DELAY
    }

    /// An authenticated datagram was received from the neighbour, whatever its content.
    pub fn heard(&mut self, now: Instant) {
        self.liveness.heard(now);
        self.service.heard();
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        let (remind, due) = self.liveness.handle_timeout(now);
        if due {
            let first = self.lanes.first();
            self.lanes[first].ping = true;
        }
        if remind {
            self.lanes.ask_by_all();
        }
        self.responses.handle_timeout(now);
        for lane in self.lanes.iter_mut() {
            lane.sender.handle_timeout(now);
        }
        for receiver in &mut self.receivers {
            receiver.handle_timeout(now);
        }
        self.settle(now);
        self.service.handle_timeout(now);
    }

    /// Passes the fate of what was sent, and the state of the paths, to the service.
    fn settle(&mut self, now: Instant) {
        (0..self.lanes.len()).for_each(|lane| self.settle_lane(now, lane));
        // A side that mostly listens learns its own direction's loss too late: with a single lane the other direction's loss is used.
        let inbound = self.inbound.iter().map(InboundLoss::share).fold(0.0, f64::max);
        let plural = self.lanes.are_several();
        let alone = !plural && !self.lanes[self.lanes.first()].sender.withholds_copies();
        let inbound = if alone { inbound } else { 0.0 };
        let told_apart = self.told_apart();
        for lane in self.lanes.iter_mut() {
            lane.look(now, inbound, plural);
            lane.path.told_apart = told_apart;
        }
        if plural {
            self.lanes.sort(now, self.liveness.is_in_use(now));
            self.lanes.give_up_failed();
            (0..self.lanes.len()).for_each(|lane| self.settle_lane(now, lane));
            self.greet(now);
        }
        let thin = self.lanes.iter().map(|lane| lane.path.ack_delay).max().filter(|delay| *delay > RIDING_DELAY);
        if self.lanes.is_measured() {
            self.liveness.set_round(now, self.lanes.best().rtt + thin.unwrap_or(Span::ZERO));
        }
        self.lanes.views(&mut self.budget, &mut self.views);
        if !self.views.is_empty() {
            self.service.set_paths(&self.views);
        }
    }

    /// Lanes that await no answer ask for one: all of them in a link that is in use, else the unmeasured ones.
    fn greet(&mut self, now: Instant) {
        // A deadline that passed while the link was in use is honoured, however late this call is.
        let due =
            self.lanes.greet_at(true).is_some_and(|wakeup| wakeup.at <= now && self.liveness.is_in_use(wakeup.at));
        let in_use = due || self.liveness.is_in_use(now);
        self.lanes.greet(now, in_use, self.liveness.keepalive);
    }

    fn settle_lane(&mut self, now: Instant, at: usize) {
        let rtt = self.lanes[at].path.rtt;
        while let Some(outcome) = self.lanes[at].sender.poll_outcome() {
            self.lanes.note_fate(now, at, matches!(outcome, Outcome::Delivered(_)));
            match outcome {
                Outcome::Delivered(record) => {
                    self.going.told(record.gone);
                    self.costs.settle(record.costs, true);
                    record.echo.into_iter().for_each(|echo| self.settle_echo(now, at, echo, true));
                    let lane = &mut self.lanes[at];
                    match record.repair {
                        Part::None => {}
                        Part::Protected(number, _) => lane.guard.arrived(number),
                        Part::Symbol => lane.guard.symbol_settled(),
                    }
                    self.service.delivered(now, record.load);
                }
                Outcome::Lost(SentDatagram { load, repair, gone, costs, echo, .. }) => {
                    self.going.not_told(gone);
                    self.costs.settle(costs, false);
                    echo.into_iter().for_each(|echo| self.settle_echo(now, at, echo, false));
                    let lane = &mut self.lanes[at];
                    let load = match repair {
                        Part::None => Some(load),
                        Part::Protected(number, why) => lane.guard.lost(now, (number, why), load, rtt),
                        Part::Symbol => {
                            lane.guard.symbol_settled();
                            None
                        }
                    };
                    load.into_iter().for_each(|load| self.service.lost(now, load));
                }
            }
        }
        let lane = &mut self.lanes[at];
        lane.guard.end_gathered(now, &lane.path);
        while let Some(load) = lane.guard.poll_given_up(now) {
            self.service.lost(now, load);
        }
    }

    /// The next deadline. While nothing can be sealed, lanes can send nothing, and their deadlines are left out.
    pub fn poll_timeout(&self, can_seal: bool) -> Option<Wakeup> {
        let receivers = self.receivers.iter().map(LaneReceiver::poll_timeout);
        let base = receivers.fold(self.service.poll_timeout(can_seal), Wakeup::earliest);
        let base = Wakeup::earliest(base, self.liveness.silence_at());
        let base = self.lanes.iter().map(|lane| lane.guard.poll_timeout()).fold(base, Wakeup::earliest);
        if !can_seal {
            return base;
        }
        let base = Wakeup::earliest(base, self.responses.poll_timeout());
        // A ping that is pending already waits for room.
        let ask = self.liveness.ask_at().filter(|_| !self.lanes[self.lanes.first()].ping);
        let used = self.lanes.greet_at(true).filter(|wakeup| self.liveness.is_in_use(wakeup.at));
        let greet = Wakeup::earliest(used, self.lanes.greet_at(false));
        let greet = Wakeup::earliest(greet, self.lanes.keepalive_at(self.liveness.keepalive));
        let lanes = self.lanes.iter().map(|lane| lane.sender.poll_timeout());
        lanes.fold(Wakeup::earliest(Wakeup::earliest(base, ask), greet), Wakeup::earliest)
    }
}
