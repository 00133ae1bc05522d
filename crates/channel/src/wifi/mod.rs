//! 802.11: stations that share one radio medium, under the distributed coordination function or EDCA.
//!
//! One machine holds the whole cell. A frame handed in at [`port`]`(a, b)` is queued in station a for station b; it comes
//! out at `port(b, a)`; one handed in at `port(a, a)` is broadcast. Contention, collisions, acknowledgements and retries are
//! inside. The page `docs/models/wifi.md` states what the model covers and what it leaves out.
//!
//! Clause numbers in this module are those of IEEE Std 802.11-2016.

mod access;
mod adapt;
mod aggregate;
mod assemble;
mod capture;
mod classes;
mod config;
mod ear;
mod edca;
mod errors;
mod exchange;
mod fec;
mod hold;
mod medium;
mod noise;
mod pair_loss;
mod phy;
mod queues;
mod reach;
mod refusal;
mod rules;
mod stage;
mod station;
mod timers;
mod vht;
mod wheel;

pub use aggregate::{AGGREGATE_FRAMES, AGGREGATE_OCTETS, AGGREGATE_OCTETS_MIN, Aggregate, BLOCK_ACK_OCTETS};
pub use capture::{CAPTURES_BOUND, CapturePoint, Captured, LINKTYPE_RADIOTAP, SNAPLEN_MAX, SNAPLEN_MIN, address};
pub use config::{BitErrors, CaptureEffect, ErrorsPer, FRAME_MAX, RTS_NEVER, STATIONS_BOUND, WifiConfig};
pub use edca::{AIFSN, Access, CATEGORIES, Category, Edca, Handling, TXOP_MAX};
pub use fec::{FEEDBACK_MAX, Fec, FecCode, FecFrames, RS_LENGTHS};
pub use pair_loss::PairLoss;
pub use phy::{ACK_OCTETS, CW_MAX, Phy, PhyRate, RTS_OCTETS, RateError, WAVELAN_WAITS};
pub use queues::{AIRTIME_STATIONS, AQL_MAX, QUEUE_BOUND, StationQueue};
pub use reach::{Reach, ReachMap};
pub use refusal::ConfigError;
pub use rules::{AfterDrop, AfterTimeout, BusySlot, Draw, Eifs, FirstAccess, Overlap, Retry, Rules, Sensed, Timeout};
pub use station::{CategoryTally, Tally};
pub use vht::{AGGREGATE_OCTETS_VHT, STREAMS_MAX, Width};

use capture::Tap;
use classes::{Class, Home};
use ear::{Ear, Hearing};
use errors::Errors;
use station::{Contender, Station};
use std::collections::VecDeque;
use std::sync::Arc;
use timers::{Rank, Timers};
use wavelane_base::{Chance, Class as Service, Ecn, FrameMeta, Instant, Machine, PortId, Span, Transmit, Wakeup};

/// Most events kept until they are fetched; later ones are counted in [`Wifi::events_missed`].
pub const EVENTS_BOUND: usize = 1 << 16;
/// Most received frames kept until they are fetched; later ones are counted in [`Wifi::frames_missed`].
pub const READY_BOUND: usize = 1 << 12;

/// The port of `station` towards `peer`; its port towards itself is for broadcast frames.
///
/// A broadcast frame comes out at each receiver's port towards the sender, like any other.
///
/// # Panics
/// If one of them is [`STATIONS_BOUND`] or more.
pub fn port(station: usize, peer: usize) -> PortId {
    assert!(station < STATIONS_BOUND && peer < STATIONS_BOUND, "no cell has a station {}", station.max(peer));
    PortId((station * STATIONS_BOUND + peer) as u16)
}

/// What a cell reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WifiEvent {
    /// The sender received the acknowledgement of a frame.
    Acknowledged {
        /// When the ACK ended.
        at: Instant,
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// Length as handed in, in bytes.
        octets: usize,
    },
    /// A frame was sent without acknowledgement.
    Sent {
        /// When it ended.
        at: Instant,
        /// The sender.
        from: usize,
        /// The receiver; the sender itself means broadcast.
        to: usize,
        /// Length as handed in, in bytes.
        octets: usize,
    },
    /// The sender dropped a frame. After [`Cause::RetryLimit`] it may have arrived nevertheless.
    Dropped {
        /// When.
        at: Instant,
        /// The sender.
        from: usize,
        /// The receiver; the sender itself means broadcast.
        to: usize,
        /// Why.
        cause: Cause,
        /// Length as handed in, in bytes.
        octets: usize,
    },
}

/// Why a sender dropped a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The queue was full.
    QueueFull,
    /// The AQM of a managed queue, to control the delay.
    Delay,
    /// It is longer than [`FRAME_MAX`].
    TooLong,
    /// Its last retry failed.
    RetryLimit,
}

/// A received frame waiting to be fetched.
#[derive(Debug)]
struct Ready {
    port: PortId,
    ecn: Ecn,
    bytes: Arc<Vec<u8>>,
}

/// A frame for another station that a listener received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overheard {
    /// The listener.
    pub station: usize,
    /// The sender.
    pub sender: usize,
    /// The station that it was for.
    pub to: usize,
}

/// Octets of a frame that carries an IP packet of 1,500 octets: QoS header, LLC and FCS (IEEE 802.11-2016, 9.2.4).
const FULL_OCTETS: usize = 1_500 + 26 + 8 + 4;

/// A radio cell; see the module.
///
/// A late wake-up does not change the schedule: the cell follows its own deadlines and only delivers frames late.
#[derive(Debug)]
pub struct Wifi {
    phy: Phy,
    rules: Rules,
    queue: usize,
    rts_threshold: usize,
    aggregate: Option<Aggregate>,
    /// Bytes of MAC header, FCS and LLC/SNAP around each frame.
    overhead: usize,
    /// Additional bytes around a frame sent alone.
    lone: usize,
    /// Contenders per station: its categories with EDCA, else one.
    kinds: usize,
    /// Each AIFS of the cell less DIFS, shortest first.
    aifs_extra: Vec<Span>,
    busy_slot: BusySlot,
    data_rate: PhyRate,
    /// Of broadcast frames.
    broadcast_rate: PhyRate,
    rts_rate: PhyRate,
    /// A guarded aggregate that lasts so long follows one.
    worth_an_rts: Span,
    answer_rate: Option<PhyRate>,
    slot: Span,
    sifs: Span,
    difs: Span,
    /// EIFS less DIFS: the additional wait after a frame in error.
    eifs_extra: Span,
    nav_patience: Span,
    hearing: Hearing,

    now: Instant,
    stations: Vec<Station>,
    /// Per station, then per category.
    contenders: Vec<Contender>,
    /// Per station, then per class.
    ears: Vec<Ear>,
    classes: Vec<Class>,
    audience: Vec<Vec<(Home, Reach)>>,
    /// Stations currently sending.
    on_air: Vec<usize>,
    /// One deadline for each station, then one for each ear.
    timers: Timers,
    dice: Chance,
    /// The random stream for overlaps.
    chance: Chance,
    /// Per station, for collisions between its categories.
    inner_dice: Vec<Chance>,
    errors: Option<Errors>,
    fec: Option<Fec>,
    noise: Option<noise::Noise>,
    losses: Option<pair_loss::PairLosses>,
    controls: Option<Box<adapt::Controls>>,

    ready: VecDeque<Ready>,
    /// By station: whether it hands up frames for others.
    listens: Vec<bool>,
    /// At most [`READY_BOUND`].
    overheard: VecDeque<(Overheard, Arc<Vec<u8>>)>,
    events: VecDeque<WifiEvent>,
    frames_missed: u64,
    events_missed: u64,
    tap: Option<Box<Tap>>,
    /// Unused buffers for future frames.
    spare: Vec<Arc<Vec<u8>>>,
    /// Work lists, kept to reuse their memory.
    touched: Vec<usize>,
    starting: Vec<usize>,
}

impl Wifi {
    /// Takes a frame, or a batch, as [`Machine::handle_frame`] does, to be sent according to `handling`.
    ///
    /// # Panics
    /// If the port names a station that the cell does not have.
    pub fn hand_in(&mut self, now: Instant, port: PortId, frame: &[u8], meta: FrameMeta, handling: Handling) {
        self.advance(now);
        let (station, peer) = (usize::from(port.0) / STATIONS_BOUND, usize::from(port.0) % STATIONS_BOUND);
        let stations = self.stations.len();
        assert!(
            station < stations && peer < stations,
            "the wiring names a port of station {station} towards {peer} in a cell of {stations}"
        );
        match meta.segment {
            Some(size) if size > 0 && usize::from(size) < frame.len() => {
                for segment in frame.chunks(usize::from(size)) {
                    self.enqueue((station, peer), segment, meta, handling);
                }
            }
            _ => self.enqueue((station, peer), frame, meta, handling),
        }
        self.advance(now);
    }

    /// A station's counters since the start.
    pub fn tally(&self, station: usize) -> &Tally {
        &self.stations[station].tally
    }
    /// Counters of one of a station's categories; without EDCA each means all.
    pub fn category_tally(&self, station: usize, category: Category) -> &CategoryTally {
        &self.contenders[self.contender(station, category)].tally
    }
    fn contender(&self, station: usize, category: Category) -> usize {
        station * self.kinds + if self.kinds > 1 { category as usize } else { 0 }
    }
    /// Whether the cell uses EDCA.
    pub fn has_categories(&self) -> bool {
        self.kinds > 1
    }
    /// Frames held by a station, including the one in service.
    pub fn waiting(&self, station: usize) -> usize {
        self.contenders[self.kinds_of(station)].iter().map(Contender::waiting).sum()
    }
    /// The same of one category; without EDCA each means all.
    pub fn waiting_in(&self, station: usize, category: Category) -> usize {
        self.contenders[self.contender(station, category)].waiting()
    }
    /// Whether a station's queue uses the flow, delay and ECN mark of its frames.
    pub fn looks_at_flows(&self, station: usize) -> bool {
        self.contenders[station * self.kinds].stage.is_some()
    }
    /// Frames that a station's managed queue has marked instead of dropped.
    pub fn marked(&self, station: usize) -> u64 {
        self.contenders[self.kinds_of(station)].iter().filter_map(|c| Some(c.stage.as_ref()?.marked())).sum()
    }
    /// Most frames of a station's transmission, or of its ring unless airtime limits keep it shorter, bounded by its queue
    /// limit: a longer backlog would have no effect.
    pub fn largest_burst(&self, station: usize) -> usize {
        let burst = self.aggregate.map_or(1, |aggregate| usize::from(aggregate.frames).min(self.queue));
        let stage = self.contenders[station * self.kinds].stage.as_ref();
        let ring = stage.filter(|_| self.stations[station].aql.is_none()).map_or(0, |stage| stage.ring());
        if ring > 0 { burst.max(ring + 1) } else { burst }
    }
    /// Full frames that a station sends within `airtime` once it has the medium, at most half of its queue: the rest is for what does not wait
    /// for its turn.
    pub fn burst_within(&self, station: usize, airtime: Span) -> usize {
        let longest = self.largest_burst(station).min(self.queue / 2);
        let frame = self.data_rate.airtime(FULL_OCTETS).saturating_sub(self.data_rate.preamble());
        longest.min(airtime.as_nanos().checked_div(frame.as_nanos()).map_or(longest, |frames| frames as usize))
    }
    /// Pending airtime in a station's ring under airtime queue limits: for a receiver in a category, and for all receivers.
    /// For broadcast, in all categories, pass the station itself; it is not in the sum.
    pub fn airtime_pending(&self, station: usize, to: usize, category: Category) -> Option<(Span, Span)> {
        let aql = self.stations[station].aql.as_ref()?;
        if to == station {
            return Some((aql.everybody(), aql.total()));
        }
        let kind = self.contender(station, category) % self.kinds;
        Some((aql.pending(to * self.kinds + kind), aql.total()))
    }
    /// The port of the oldest received frame, so that drivers need not poll every port.
    pub fn next_ready(&self) -> Option<PortId> {
        self.ready.front().map(|ready| ready.port)
    }
    /// Replaces `into` with the oldest received frame and returns its port and ECN mark. For drivers that keep frames;
    /// others poll its port.
    pub fn take_ready(&mut self, now: Instant, into: &mut Vec<u8>) -> Option<(PortId, Ecn)> {
        self.ready.front()?;
        self.advance(now);
        let Ready { port, ecn, bytes } = self.ready.pop_front()?;
        into.clear();
        into.extend_from_slice(&bytes);
        self.recycle(bytes);
        Some((port, ecn))
    }
    /// Replaces `into` with the oldest frame that a listener overheard. Frames not fetched in time count as missed.
    pub fn take_overheard(&mut self, into: &mut Vec<u8>) -> Option<Overheard> {
        let (overheard, bytes) = self.overheard.pop_front()?;
        into.clear();
        into.extend_from_slice(&bytes);
        self.recycle(bytes);
        Some(overheard)
    }
    /// A listener received the frame that `sender` has just sent to another station.
    fn overhear(&mut self, station: usize, sender: usize, to: usize) {
        let turn = self.turn_of(sender);
        let Some(head) = self.contenders[turn].queue.front() else { return };
        let bytes = Arc::clone(&head.bytes);
        if self.overheard.len() >= READY_BOUND {
            self.frames_missed += 1;
            return self.recycle(bytes);
        }
        self.overheard.push_back((Overheard { station, sender, to }, bytes));
    }
    /// Events dropped because the caller had not fetched the earlier [`EVENTS_BOUND`].
    pub fn events_missed(&self) -> u64 {
        self.events_missed
    }
    /// Received frames dropped because the caller had not fetched the earlier [`READY_BOUND`].
    pub fn frames_missed(&self) -> u64 {
        self.frames_missed
    }

    /// Processes everything due by `now`, in time order.
    fn advance(&mut self, now: Instant) {
        while let Some((owner, at, rank)) = self.timers.take(now) {
            self.now = at;
            match owner.checked_sub(self.stations.len()) {
                None => self.act(owner),
                Some(ear) if rank == Rank::Nav as u64 => self.release(ear),
                Some(ear) => self.access(ear),
            }
        }
        self.now = self.now.max(now);
    }

    /// Delivers the frame that `sender` has just sent at `station`, unless it is a duplicate.
    fn deliver(&mut self, station: usize, sender: usize) {
        let turn = self.turn_of(sender);
        let Some(head) = self.contenders[turn].queue.front() else { return };
        let (number, ecn, bytes) = (head.number, head.ecn, Arc::clone(&head.bytes));
        let octets = bytes.len();
        if self.stations[station].last_from[turn] == number {
            self.stations[station].tally.duplicates += 1;
            return;
        }
        self.stations[station].last_from[turn] = number;
        self.stations[station].tally.received += 1;
        self.stations[station].tally.received_octets += octets as u64;
        self.contenders[turn].tally.delivered += 1;
        self.contenders[turn].tally.delivered_octets += octets as u64;
        self.put_ready(station, sender, ecn, bytes);
    }
    /// Keeps a received frame until it is fetched.
    fn put_ready(&mut self, station: usize, sender: usize, ecn: Ecn, bytes: Arc<Vec<u8>>) {
        if self.losses.as_mut().is_some_and(|losses| losses.drops(sender, station)) {
            return self.recycle(bytes);
        }
        if self.ready.len() >= READY_BOUND {
            self.frames_missed += 1;
            return self.recycle(bytes);
        }
        self.ready.push_back(Ready { port: port(station, sender), ecn, bytes });
    }
    /// Keeps a frame's memory for reuse once its sender and receivers have released it.
    fn recycle(&mut self, mut bytes: Arc<Vec<u8>>) {
        if Arc::get_mut(&mut bytes).is_some() {
            self.spare.push(bytes);
        }
    }
    /// The same for all stations that share an ear.
    fn deliver_to_all(&mut self, ear: usize, sender: usize) -> Option<usize> {
        match ear.checked_sub(self.stations.len()) {
            None => self.deliver(ear, sender),
            Some(class) => {
                for i in 0..self.classes[class].members.len() {
                    let member = self.classes[class].members[i];
                    if self.stations[member].joined {
                        self.deliver(member, sender);
                    }
                }
            }
        }
        None
    }
    fn report(&mut self, event: WifiEvent) {
        if self.events.len() < EVENTS_BOUND {
            self.events.push_back(event);
        } else {
            self.events_missed += 1;
        }
    }
}

impl Machine for Wifi {
    type Event = WifiEvent;

    fn handle_frame(&mut self, now: Instant, port: PortId, frame: &mut [u8], meta: FrameMeta) {
        self.hand_in(now, port, frame, meta, Handling::default());
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
    }

    fn poll_transmit(&mut self, now: Instant, port: PortId, buf: &mut [u8], _max_segments: usize) -> Option<Transmit> {
        self.advance(now);
        let place = self.ready.iter().position(|ready| ready.port == port)?;
        let ready = self.ready.remove(place)?;
        let len = ready.bytes.len();
        buf[..len].copy_from_slice(&ready.bytes);
        self.recycle(ready.bytes);
        Some(Transmit { len, ecn: ready.ecn, class: Service::Bulk, ..Transmit::default() })
    }

    fn poll_timeout(&self) -> Option<Wakeup> {
        Some(Wakeup { at: self.timers.next_at()?, cause: "something on the radio medium" })
    }

    fn poll_event(&mut self) -> Option<WifiEvent> {
        self.events.pop_front()
    }
}
