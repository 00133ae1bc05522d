//! A link: everything between us and one neighbour above the session, that is its lanes and its flows.
//!
//! [`Link`] decides what one datagram carries. [`crate::lane`] says whether and how large, [`crate::hop`] fills it,
//! [`crate::session`] seals it. Nothing here knows a key or an address.

use crate::gateway::Controller;
use crate::hop::{Carried, Hop, HopConfig, Path};
use crate::lane::{LaneConfig, LaneReceiver, LaneSender, Outcome, Probe, Room};
use wavelane_base::{Class, Ecn, Instant, Span, Wakeup};
use wavelane_wire::datagram::{DATA_HEADER_LEN, TAG_LEN};
use wavelane_wire::frame::{Frame, Frames, Ranges};
use wavelane_wire::Writer;

/// Lanes a link may have each way. Lane numbers from a peer at or above it are dropped.
pub const LANES_MAX: u8 = 8;
/// Ranges in an ack that shares its datagram with data; a datagram of its own may carry [`RANGES_ALONE`].
const RANGES_SHARED: usize = 12;
/// Ranges in an ack that travels alone.
const RANGES_ALONE: usize = 64;
/// After this much silence while an answer is owed, the link counts as silent: it asks for a new session too.
pub const SILENCE: Span = Span::from_secs(1);

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
}

/// What one of our datagrams carried, kept until its fate is known.
pub type Record = Vec<Carried>;

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

/// Counters of a link; all only grow.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkCounters {
    /// Authenticated datagrams with a lane number past [`LANES_MAX`] or frames we cannot read.
    pub malformed: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Datagrams received and authenticated.
    pub datagrams_received: u64,
    /// Our datagrams found lost.
    pub datagrams_lost: u64,
}

/// One neighbour's lanes and flows.
#[derive(Debug)]
pub struct Link {
    config: LinkConfig,
    sender: LaneSender<Record>,
    receivers: Vec<LaneReceiver>,
    /// Our flows with the neighbour.
    pub hop: Hop,
    /// Counters for `status`.
    pub counters: LinkCounters,
    /// When something eliciting first went out unanswered.
    owed_since: Option<Instant>,
    last_heard: Option<Instant>,
    wish_sent: Option<(u64, Span)>,
}

impl Link {
    /// A link to a neighbour whose memory of us is empty.
    pub fn new(now: Instant, config: LinkConfig) -> Self {
        Self {
            config,
            sender: LaneSender::new(now, lane_config(&config)),
            receivers: Vec::new(),
            hop: Hop::new(config.hop),
            counters: LinkCounters::default(),
            owed_since: None,
            last_heard: None,
            wish_sent: None,
        }
    }

    /// The neighbour came back without its memory: lanes start over, flows are reset.
    pub fn restart(&mut self, now: Instant) {
        self.sender = LaneSender::new(now, lane_config(&self.config));
        self.receivers.clear();
        self.wish_sent = None;
        self.owed_since = None;
        self.hop.peer_restarted(now);
    }

    /// The neighbour's datagrams come from somewhere else now.
    pub fn address_changed(&mut self, now: Instant) {
        self.sender.address_changed(now);
    }
}

fn lane_config(config: &LinkConfig) -> LaneConfig {
    LaneConfig {
        lane: config.lane,
        controller: config.controller,
        mtu_max: config.mtu_max,
        overhead: config.overhead,
    }
}
