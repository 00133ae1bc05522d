//! A link: everything between us and one neighbour above the session, that is its lanes and its flows.
//!
//! [`Link`] decides what one datagram carries. [`crate::lane`] says whether and how large, its [`Service`] fills it,
//! [`crate::session`] seals it. Nothing here knows a key or an address.

mod compose;
mod guard;
mod inbound;
mod liveness;
mod path;
mod receive;

use crate::fec::Decoder;
use crate::lane::{LaneConfig, LaneReceiver, LaneSender, LaneView, Outcome, SENT_MIN};
pub use crate::session::LANES_MAX;
use crate::{Controller, PathView, RepairBudget, Service};
use guard::{Guard, PATIENCE_MEDIA, Why, is_bursty};
use inbound::InboundLoss;
use liveness::Liveness;
use path::{PathFrames, Skips};
use std::collections::VecDeque;
use wavelane_base::{Class, Ecn, Entropy, Instant, Octets, Span, Wakeup};

/// Most datagrams made from symbols of which the neighbour is told; of more it repeats the contents.
const TO_TELL_MAX: usize = 64;
/// A full packet, where a number of packets is meant.
const PACKET_FULL: u64 = 1_500;
/// Before this many of our packets have a known fate, the link counts as lossy: the first exchanges get copies.
const FATES_KNOWN_MIN: u64 = 50;
/// The loss assumed until then.
const LOSS_UNKNOWN: f64 = 0.01;
/// Most path responses of one datagram that are looked at.
const HEARD_RESPONSES_MAX: usize = 8;

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
    /// After so long without a datagram one is sent, and a session is kept for it.
    pub keepalive: Option<Span>,
    /// Octets that may be on the way at once, at the very most.
    pub in_flight_max: Octets,
}

/// What one of our datagrams carried, kept until its fate is known.
#[derive(Debug, Default)]
pub struct Record<L> {
    load: L,
    repair: Part,
}

/// A datagram's part in forward erasure correction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Part {
    #[default]
    None,
    /// Symbols may cover it; its number, and why.
    Protected(u64, Why),
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
    /// Lane acks of numbers that we never sent.
    pub optimistic_acks: u64,
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
}

/// One neighbour's lanes, and the service over them.
#[derive(Debug)]
pub struct Link<S: Service> {
    config: LinkConfig,
    sender: LaneSender<Record<S::Load>>,
    /// One per lane of the neighbour, made when first heard.
    receivers: Vec<LaneReceiver>,
    /// Loss on the neighbour's lanes, in the same order.
    inbound: Vec<InboundLoss>,
    /// Repair symbols for what the neighbour sends, in the same order.
    decoders: Vec<Decoder>,
    /// Repair symbols for what we send.
    guard: Guard<S::Load>,
    /// Datagrams of the neighbour (lane, number) that we made from symbols and have not told it of.
    to_tell: Vec<(u8, u64)>,
    /// What it carries; the link's owner speaks with it directly.
    pub service: S,
    /// What repair may cost in our direction; service and symbols draw on it.
    budget: RepairBudget,
    /// What was last known of the way to the neighbour.
    path: PathView,
    counters: LinkCounters,
    liveness: Liveness,
    /// The neighbour must see a datagram of ours soon: it may not use a new session's keys before, or what lies between
    /// forgets us.
    confirm: bool,
    path_frames: PathFrames,
    /// Responses of the neighbour's to challenges of ours, at most [`HEARD_RESPONSES_MAX`].
    heard_responses: VecDeque<[u8; 8]>,
    skips: Skips,
}

impl<S: Service> Link<S> {
    /// A link to a neighbour whose memory of us is empty. `dice` says which packet numbers are left out.
    pub fn new(now: Instant, config: LinkConfig, service: S, dice: Entropy) -> Self {
        Self {
            path_frames: PathFrames::default(),
            heard_responses: VecDeque::new(),
            skips: Skips::new(dice),
            config,
            sender: LaneSender::new(now, lane_config(&config)),
            receivers: Vec::new(),
            inbound: Vec::new(),
            decoders: Vec::new(),
            guard: Guard::default(),
            to_tell: Vec::new(),
            service,
            budget: RepairBudget::default(),
            path: PathView::default(),
            counters: LinkCounters::default(),
            liveness: Liveness::new(now, config.keepalive),
            confirm: false,
        }
    }

    /// How long it may be quiet from now on.
    pub fn set_keepalive(&mut self, keepalive: Option<Span>) {
        (self.config.keepalive, self.liveness.keepalive) = (keepalive, keepalive);
    }

    /// The neighbour is called at an address of another kind now.
    pub fn set_overhead(&mut self, overhead: usize) {
        self.config.overhead = overhead;
        self.sender.set_overhead(overhead);
    }

    /// The neighbour came back without its memory: lanes start over, flows are reset.
    pub fn restart(&mut self, now: Instant) {
        self.sender.restart(now);
        self.receivers.clear();
        self.inbound.clear();
        self.decoders.clear();
        self.guard = Guard::default();
        self.to_tell.clear();
        self.path_frames = PathFrames::default();
        self.heard(now);
        self.service.restart(now);
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
        let asked = self.ack_due(now) || self.path_frames.are_due();
        self.config.keepalive.is_some() || self.liveness.is_owed_answer() || self.service.wants(now).is_some() || asked
    }

    /// Whether something that left asks for an answer, and nothing was heard since.
    pub fn is_owed_answer(&self) -> bool {
        self.liveness.is_owed_answer()
    }

    /// Whether an answer has been owed for another second since this was last asked.
    pub fn take_silence(&mut self) -> bool {
        self.liveness.take_silence()
    }

    /// Smoothed round trip, or what is assumed before there was one.
    pub fn round_trip(&self) -> Span {
        self.path.rtt
    }

    /// What the lane knows of its path.
    pub fn path(&self, now: Instant) -> LaneView {
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
            optimistic_acks: self.sender.optimistic_acks(),
            ..self.counters
        }
    }

    fn ack_due(&self, now: Instant) -> bool {
        self.receivers.iter().any(|lane| lane.ack_due(now))
    }

    /// An authenticated datagram came from the neighbour, whatever it holds.
    pub fn heard(&mut self, now: Instant) {
        self.liveness.heard(now);
        self.service.heard();
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.confirm |= self.liveness.handle_timeout(now);
        self.sender.handle_timeout(now);
        for receiver in &mut self.receivers {
            receiver.handle_timeout(now);
        }
        self.settle(now);
        self.service.handle_timeout(now);
    }

    /// Hands the fate of what was sent, and what is known of the path, to the service.
    fn settle(&mut self, now: Instant) {
        let rtt = self.path.rtt;
        while let Some(outcome) = self.sender.poll_outcome() {
            match outcome {
                Outcome::Delivered(record) => {
                    match record.repair {
                        Part::None => {}
                        Part::Protected(number, _) => self.guard.arrived(number),
                        Part::Symbol => self.guard.symbol_settled(),
                    }
                    self.service.delivered(now, record.load);
                }
                Outcome::Lost(Record { load, repair }) => {
                    let load = match repair {
                        Part::None => Some(load),
                        Part::Protected(number, why) => self.guard.lost(now, (number, why), load, rtt),
                        Part::Symbol => {
                            self.guard.symbol_settled();
                            None
                        }
                    };
                    load.into_iter().for_each(|load| self.service.lost(now, load));
                }
            }
        }
        self.guard.end_gathered(now, &self.path);
        while let Some(load) = self.guard.poll_given_up(now) {
            self.service.lost(now, load);
        }
        let view = self.sender.path(now);
        if let Some(rtt) = view.rtt {
            let known = view.delivered_packets + view.lost_packets >= FATES_KNOWN_MIN;
            let own = if known { view.loss } else { view.loss.max(LOSS_UNKNOWN) };
            let loss = self.inbound.iter().map(InboundLoss::share).fold(own, f64::max);
            self.budget.set_path(view.rate, rtt, loss);
            let symbols = self.budget.is_lossy() && !is_bursty(view.burst);
            self.path = PathView {
                rtt,
                rtt_var: view.rtt_var,
                rate: view.rate,
                ack_delay: self.sender.ack_delay(),
                packet_time: view.rate.time_for(Octets::new(view.path_mtu as u64)),
                loss,
                loss_outward: if known { view.loss } else { loss },
                burst: view.burst,
                symbols: if symbols { PATIENCE_MEDIA } else { Span::ZERO },
            };
            self.service.set_paths(&[self.path]);
        }
    }

    /// The next deadline. While nothing can be sealed, nothing of the lane can be sent, and its wishes wait.
    pub fn poll_timeout(&self, can_seal: bool) -> Option<Wakeup> {
        let lanes = self.receivers.iter().map(LaneReceiver::poll_timeout);
        let base = lanes.fold(self.service.poll_timeout(can_seal), Wakeup::earliest);
        let base = Wakeup::earliest(base, self.liveness.silence_at());
        let base = Wakeup::earliest(base, self.guard.poll_timeout());
        if !can_seal {
            return base;
        }
        // What asks already waits for room.
        let ask = self.liveness.ask_at().filter(|_| !self.confirm);
        Wakeup::earliest(Wakeup::earliest(base, ask), self.sender.poll_timeout())
    }
}

fn lane_config(config: &LinkConfig) -> LaneConfig {
    let sent_max = usize::try_from(config.in_flight_max.get() / PACKET_FULL).unwrap_or(usize::MAX).max(SENT_MIN);
    let LinkConfig { lane, controller, mtu_max, overhead, .. } = *config;
    LaneConfig { lane, controller, mtu_max, overhead, sent_max }
}
