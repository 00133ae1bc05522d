//! The plan of a measurement, and its raw results before any computation.

use crate::hops::HopSample;
use crate::load::{SelfSample, SmallSample, Tables};
use crate::train::Train;
use crate::vantage::Vantage;
use serde::Serialize;
use std::net::SocketAddr;
use wavelane_base::{Instant, Span};

/// A length of time, for users that do not depend on the base crate.
pub type Length = Span;

/// A time in seconds.
pub fn seconds(n: u64) -> Length {
    Span::from_secs(n)
}

/// A time in milliseconds.
pub fn milliseconds(n: u64) -> Length {
    Span::from_millis(n)
}

/// The kinds of stages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StageKind {
    /// Only probes, at the beginning.
    Idle,
    /// A download.
    Down,
    /// An upload.
    Up,
    /// Both at once.
    Both,
    /// Between two stages, until queues are empty.
    Rest,
    /// Only probes, at the end.
    After,
}

impl StageKind {
    /// Its name in `probe.json`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Down => "down",
            Self::Up => "up",
            Self::Both => "both",
            Self::Rest => "rest",
            Self::After => "after",
        }
    }
    /// Whether load is received here, and whether it is sent.
    pub fn ways(self) -> (bool, bool) {
        (matches!(self, Self::Down | Self::Both), matches!(self, Self::Up | Self::Both))
    }
}

/// What to measure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The server, UDP and TCP.
    pub target: SocketAddr,
    /// Stages and their length.
    pub stages: Vec<(StageKind, Span)>,
    /// Interval between probes.
    pub interval: Span,
    /// Octets of a probe's UDP payload.
    pub size: usize,
    /// Code points to probe with in addition to the default.
    pub dscps: Vec<u8>,
    /// Congestion control of both ends; empty for the systems' default.
    pub congestion: String,
    /// Connections in each direction ...
    pub streams: usize,
    /// ... and the delay before each further one starts.
    pub ramp: Span,
    /// Whether to look for the hop whose delay rises.
    pub hops: bool,
    /// A nearer server that is probed at the same time: its name and address.
    pub vantage: Option<(String, SocketAddr)>,
}

impl Plan {
    /// Total duration.
    pub fn length(&self) -> Span {
        self.stages.iter().fold(Span::ZERO, |sum, (_, length)| sum + *length)
    }

    /// Probes per second, of all code points.
    pub fn probes_per_second(&self) -> u64 {
        (1 + self.dscps.len() as u64) * 1_000_000_000 / self.interval.as_nanos().max(1)
    }
}

/// A completed stage.
#[derive(Clone, PartialEq, Debug)]
pub struct Stage {
    /// Its kind.
    pub kind: StageKind,
    /// When it began ...
    pub from: Instant,
    /// ... and ended.
    pub to: Instant,
    /// Answers inside connections of load.
    pub selfs: Vec<SelfSample>,
    /// Short connections.
    pub smalls: Vec<SmallSample>,
    /// Congestion controls in use.
    pub congestions: Vec<String>,
    /// Failed connections, and the reason for the last.
    pub failures: (u64, Option<String>),
    /// Requests inside connections of load without an answer, and the reason for the last.
    pub unanswered: (u64, Option<String>),
    /// Octets of load received here so far, over time.
    pub received: Vec<(Instant, u64)>,
    /// Octets that the peer's TCP had acknowledged, where its program reports nothing.
    pub sent: Vec<(Instant, u64)>,
}

impl Stage {
    /// A stage of which only the beginning is known.
    pub(crate) fn begun(kind: StageKind, now: Instant) -> Self {
        Self {
            kind,
            from: now,
            to: now,
            selfs: Vec::new(),
            smalls: Vec::new(),
            congestions: Vec::new(),
            failures: (0, None),
            unanswered: (0, None),
            received: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Takes over the connections' results.
    pub(crate) fn take(&mut self, tables: &mut Tables) {
        self.selfs = std::mem::take(&mut tables.selfs);
        self.smalls = std::mem::take(&mut tables.smalls);
        self.congestions = std::mem::take(&mut tables.congestions);
        self.failures = (tables.failures, tables.last_failure.take());
        self.unanswered = std::mem::take(&mut tables.unanswered);
    }
}

/// The small packets beside the load, whose RTTs are the *foreign* delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Beside {
    /// Datagrams to a server of ours.
    #[default]
    Datagrams,
    /// TCP handshakes of short connections, to an HTTP server with this protocol.
    Connections(&'static str),
}

/// Datagrams that had crossed the network and were dropped by a socket: its buffer was full, or their checksum was wrong. In figures they
/// count as losses of the direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SocketDrops {
    /// By the server's socket, for all its clients.
    pub server: u64,
    /// By our socket.
    pub own: u64,
}

/// All raw results.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measurement {
    /// Kind of small packets beside the load.
    pub beside: Beside,
    /// The stages that began; a train's label is its stage's index here.
    pub stages: Vec<Stage>,
    /// All trains.
    pub trains: Vec<Train>,
    /// Results of a second vantage.
    pub vantage: Option<Vantage>,
    /// Answers of routers.
    pub hops: Vec<HopSample>,
    /// The user stopped it early.
    pub interrupted: bool,
    /// How often the session was lost and another opened.
    pub reopened: u32,
    /// Drops by sockets, not by the network.
    pub socket_drops: SocketDrops,
    /// Octets of UDP payload of a probe.
    pub probe_size: usize,
    /// Interval between probes.
    pub interval: Span,
    /// Remarks for the reader.
    pub notes: Vec<String>,
}
