//! What a measurement does, and what came of it before anybody computed anything.

use crate::hops::HopSample;
use crate::load::{SelfSample, SmallSample, Tables};
use crate::train::Train;
use crate::vantage::Vantage;
use serde::Serialize;
use std::net::SocketAddr;
use wavelane_base::{Instant, Span};

/// A length of time, for those who may not know the base.
pub type Length = Span;

/// So many seconds.
pub fn seconds(n: u64) -> Length {
    Span::from_secs(n)
}

/// So many milliseconds.
pub fn milliseconds(n: u64) -> Length {
    Span::from_millis(n)
}

/// The kinds of stages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Nothing but probes, at first.
    Idle,
    /// A download.
    Down,
    /// An upload.
    Up,
    /// Both at once.
    Both,
    /// Between two, until queues are empty.
    Rest,
    /// Nothing but probes, at last.
    After,
}

impl Kind {
    /// As `probe.json` has it.
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
    pub stages: Vec<(Kind, Span)>,
    /// From one probe to the next.
    pub interval: Span,
    /// Octets of a probe's UDP payload.
    pub size: usize,
    /// Code points to probe with beside the default.
    pub dscps: Vec<u8>,
    /// Congestion control of both ends; empty for the systems' own.
    pub congestion: String,
    /// Connections each way ...
    pub streams: usize,
    /// ... of which another begins after so long.
    pub ramp: Span,
    /// Whether to look for the hop whose delay rises.
    pub hops: bool,
    /// A nearer server that is probed meanwhile: its name and address.
    pub vantage: Option<(String, SocketAddr)>,
}

impl Plan {
    /// How long it all takes.
    pub fn length(&self) -> Span {
        self.stages.iter().fold(Span::ZERO, |sum, (_, length)| sum + *length)
    }

    /// Probes in a second, of all code points.
    pub fn probes_per_second(&self) -> u64 {
        (1 + self.dscps.len() as u64) * 1_000_000_000 / self.interval.as_nanos().max(1)
    }
}

/// A stage that was.
#[derive(Clone, PartialEq, Debug)]
pub struct Stage {
    /// What it was.
    pub kind: Kind,
    /// When it began ...
    pub from: Instant,
    /// ... and ended.
    pub to: Instant,
    /// Answers inside connections of load.
    pub selfs: Vec<SelfSample>,
    /// Short connections.
    pub smalls: Vec<SmallSample>,
    /// Congestion controls in force.
    pub congestions: Vec<String>,
    /// Connections that failed, and why the last did.
    pub failures: (u64, Option<String>),
    /// Questions inside connections of load that had no answer, and why the last had none.
    pub unanswered: (u64, Option<String>),
    /// Octets of load that had been received here, at times.
    pub received: Vec<(Instant, u64)>,
    /// Octets that the other end's TCP had acknowledged, where its program tells nothing.
    pub sent: Vec<(Instant, u64)>,
}

impl Stage {
    /// One of which nothing is known but its beginning.
    pub(crate) fn begun(kind: Kind, now: Instant) -> Self {
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

    /// Takes over what connections saw.
    pub(crate) fn take(&mut self, tables: &mut Tables) {
        self.selfs = std::mem::take(&mut tables.selfs);
        self.smalls = std::mem::take(&mut tables.smalls);
        self.congestions = std::mem::take(&mut tables.congestions);
        self.failures = (tables.failures, tables.last_failure.take());
        self.unanswered = std::mem::take(&mut tables.unanswered);
    }
}

/// What small packets go beside the load, whose round trips are the *foreign* delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Beside {
    /// Datagrams to a server of ours.
    #[default]
    Datagrams,
    /// TCP handshakes of short connections, to an HTTP server that speaks this.
    Connections(&'static str),
}

/// Datagrams that had come over the network and were dropped by a socket: it had no room for them, or their checksum was
/// wrong. In figures they are losses of the direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SocketDrops {
    /// By the server's, of all its clients.
    pub server: u64,
    /// By ours.
    pub own: u64,
}

/// Everything that was seen.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measurement {
    /// What went beside the load.
    pub beside: Beside,
    /// The stages that began; a train's label is its stage's place here.
    pub stages: Vec<Stage>,
    /// All trains.
    pub trains: Vec<Train>,
    /// What a second vantage saw.
    pub vantage: Option<Vantage>,
    /// Answers of routers.
    pub hops: Vec<HopSample>,
    /// The user ended it early.
    pub interrupted: bool,
    /// How often the session was lost and another opened.
    pub reopened: u32,
    /// What sockets dropped, not the network.
    pub socket_drops: SocketDrops,
    /// Octets of UDP payload of a probe.
    pub probe_size: usize,
    /// From one to the next.
    pub interval: Span,
    /// What a reader must know.
    pub notes: Vec<String>,
}
