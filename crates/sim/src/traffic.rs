//! What applications want, and what they saw. Bytes move in `connection.rs`.

use crate::content::Content;
use crate::datagrams;
use crate::engine::NodeId;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use wavelane_base::{Chance, FlowId, Instant, Rate, Span};
use wavelane_gateway::{PeerId, Reason};
pub use wavelane_run::schedule::Pages;
use wavelane_run::schedule::Reader;

/// Bin width of [`FlowLog::arrivals`].
pub const ARRIVAL_BIN: Span = Span::from_millis(1);
/// Most bins of [`FlowLog::arrivals`].
pub const ARRIVALS_BOUND: usize = 1 << 13;
/// Least bin width of [`FlowLog::ages`].
pub const AGE_BIN: Span = Span::from_micros(100);
/// Ages below this many bins are kept to a bin; above, to one part in half as many. So are few bins enough for any age.
const AGES_EXACT: u64 = 512;
/// How long the end of an echo waits for answers.
pub const ECHO_GRACE: Span = Span::from_secs(5);

/// One application exchange, by its place among those added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FlowIndex(pub usize);

/// One application exchange as it is wanted. Times are the engine's.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// The gateway or host at which the client sits.
    pub node: NodeId,
    /// Which of its peers leads to the server; without meaning on a host.
    pub peer: PeerId,
    /// The client's address.
    pub source: SocketAddr,
    /// The server's address.
    pub target: SocketAddr,
    /// What is exchanged.
    pub work: Work,
    /// When the client connects.
    pub start: Instant,
    /// When the client gives up, or ends a flow without a size.
    pub stop: Option<Instant>,
    /// The body's source gives at most this much; `None` gives as much as is taken.
    pub source_rate: Option<Rate>,
    /// The body's reader does not read between these times.
    pub reader_pause: Option<(Instant, Instant)>,
}

/// What is exchanged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Work {
    /// The client asks and the server sends this many bytes; `None` sends until stopped.
    Download(Option<u64>),
    /// The client sends this many bytes and the server counts them; `None` sends until stopped.
    Upload(Option<u64>),
    /// The client sends `size` bytes every `every`, whether or not answers come, and the server sends them back.
    Echo {
        /// Between questions.
        every: Span,
        /// `every` is the mean of exponential times.
        random: bool,
        /// Bytes of a question.
        size: u64,
        /// Ask only until this flow has ended.
        during: Option<FlowIndex>,
    },
    /// The client, a host, sends UDP datagrams and the server counts or answers them.
    Datagrams(Datagrams),
    /// The client reads pages of the server.
    Web(Pages),
}

/// Which datagrams; sizes are those of UDP payloads, at least 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Datagrams {
    /// One at fixed intervals.
    Cbr {
        /// Between datagrams.
        every: Span,
        /// Bytes of one.
        size: u64,
    },
    /// As many as the station of the first, radio, hop takes.
    Saturate {
        /// Bytes of one.
        size: u64,
    },
    /// This many in flight at once; each answer releases the next, and one without answer is sent again after 1 s.
    Window {
        /// Bytes of one.
        size: u64,
        /// How many.
        packets: u32,
    },
    /// One at fixed intervals in spurts of exponential length, after silences of exponential length.
    Spurts {
        /// Between datagrams of a spurt; the first follows this long after the spurt's start.
        every: Span,
        /// Bytes of one.
        size: u64,
        /// Mean length of a spurt.
        on: Span,
        /// Mean length of a silence.
        off: Span,
        /// Each is a question in the log, answered when it arrives.
        timed: bool,
    },
    /// One at fixed intervals, which comes back.
    Ping {
        /// Between datagrams.
        every: Span,
        /// Bytes of one.
        size: u64,
    },
}

impl Datagrams {
    /// Bytes of one.
    pub fn size(self) -> usize {
        match self {
            Self::Cbr { size, .. } | Self::Saturate { size } | Self::Window { size, .. } => size as usize,
            Self::Spurts { size, .. } | Self::Ping { size, .. } => size as usize,
        }
    }
}

/// How an exchange ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowEnd {
    /// Everything asked for arrived and both directions ended in an orderly way.
    Complete,
    /// The receiver was told of an orderly end although bytes are missing. Never allowed to happen.
    Truncated,
    /// The gateway, or the far side, did not take the flow; `None` if the gateway's own table was full.
    Refused(Option<Reason>),
    /// Reset; the reason, where the gateway gave one.
    Reset(Option<Reason>),
    /// Our own client stopped it at its stop time.
    Stopped,
}

/// One question of an echo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// When it was due.
    pub due: Instant,
    /// When the last byte of its answer was read.
    pub answered: Option<Instant>,
}

/// One object of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// The page, from 0.
    pub page: u32,
    /// When the client connected.
    pub connected: Instant,
    /// When the first byte was read.
    pub first_byte: Option<Instant>,
    /// When the last byte was read, if all were.
    pub last_byte: Option<Instant>,
}

/// What was seen of one exchange.
#[derive(Clone, Debug, Default)]
pub struct FlowLog {
    /// When the client asked for the flow.
    pub connected: Option<Instant>,
    /// When the client heard that the server took it.
    pub accepted: Option<Instant>,
    /// When the receiver read the body's first byte.
    pub first_byte: Option<Instant>,
    /// When the receiver read the body's latest byte.
    pub last_byte: Option<Instant>,
    /// Body bytes read by the receiver.
    pub octets: u64,
    /// (nanoseconds, bytes) read by the receiver, in bins of [`ARRIVAL_BIN`], or twice, four times ... that width once
    /// there were [`ARRIVALS_BOUND`] of them.
    pub arrivals: Vec<(u64, u64)>,
    /// How often the width has doubled.
    pub coarser: u32,
    /// How old bytes were when they were read: bytes by age in units of [`AGE_BIN`], from the write at the seam on, to
    /// within 0.4 %.
    pub ages: BTreeMap<u64, u64>,
    /// Offset of the first byte that was not what was sent.
    pub damage: Option<u64>,
    /// Questions asked, oldest first.
    pub questions: Vec<Question>,
    /// Objects asked for, oldest first.
    pub exchanges: Vec<Exchange>,
    /// When the last question had been asked, once that is known.
    pub questions_end: Option<Instant>,
    /// How and when it ended for the client.
    pub end: Option<(Instant, FlowEnd)>,
    /// How often the server side ended without the client's orderly end.
    pub server_resets: u64,
}

/// The lower end of the bin of an age, in units of [`AGE_BIN`].
fn age_bin(age: Span) -> u64 {
    let bin = age.as_nanos() / AGE_BIN.as_nanos();
    let coarser = (bin / AGES_EXACT).checked_ilog2().map_or(0, |bits| bits + 1);
    bin >> coarser << coarser
}

impl FlowLog {
    /// Whether it ended and every byte was right.
    pub fn is_complete(&self) -> bool {
        matches!(self.end, Some((_, FlowEnd::Complete))) && self.damage.is_none()
    }
    /// Body bits per second between the first and the last byte read; zero before there are two.
    pub fn goodput(&self) -> Rate {
        match (self.first_byte, self.last_byte) {
            (Some(first), Some(last)) => Rate::of(wavelane_base::Octets::new(self.octets), last.since(first)),
            _ => Rate::default(),
        }
    }
    /// Body bytes read in `[from, to)`, to the accuracy of the bins.
    pub fn octets_between(&self, from: Instant, to: Instant) -> u64 {
        let start = self.arrivals.partition_point(|(at, _)| *at < from.as_nanos());
        let end = self.arrivals.partition_point(|(at, _)| *at < to.as_nanos());
        self.arrivals[start..end.max(start)].iter().map(|(_, octets)| octets).sum()
    }
    /// Body bits per second read in `[from, to)`.
    pub fn goodput_between(&self, from: Instant, to: Instant) -> Rate {
        Rate::of(wavelane_base::Octets::new(self.octets_between(from, to)), to.since(from))
    }

    /// The age that `percent` of the body's bytes had at most when they were read.
    pub fn age(&self, percent: u64) -> Span {
        let wanted = self.ages.values().sum::<u64>() * percent / 100;
        let mut seen = 0;
        let bin = self.ages.iter().find(|(_, octets)| {
            seen += **octets;
            seen >= wanted
        });
        bin.map_or(Span::ZERO, |(bin, _)| AGE_BIN.times(*bin))
    }

    fn note_body(&mut self, now: Instant, content: Content, bytes: &[u8]) {
        if self.damage.is_none() {
            self.damage = content.first_difference(self.octets, bytes);
        }
        self.note_arrival(now, bytes.len() as u64);
    }
    /// A datagram of `octets` bytes has arrived.
    pub(crate) fn note_datagram(&mut self, now: Instant, octets: u64, damaged: bool) {
        if damaged {
            self.damage.get_or_insert(self.octets);
        }
        self.note_arrival(now, octets);
    }
    fn note_arrival(&mut self, now: Instant, octets: u64) {
        self.octets += octets;
        self.first_byte.get_or_insert(now);
        self.last_byte = Some(now);
        let width = ARRIVAL_BIN.as_nanos() << self.coarser;
        let bin = now.as_nanos() / width * width;
        match self.arrivals.last_mut() {
            Some((at, sum)) if *at == bin => *sum += octets,
            _ => self.arrivals.push((bin, octets)),
        }
        if self.arrivals.len() >= ARRIVALS_BOUND {
            self.coarsen();
        }
    }
    /// Doubles the width of the bins, so that a long run needs no more memory than a short one.
    fn coarsen(&mut self) {
        self.coarser += 1;
        let width = ARRIVAL_BIN.as_nanos() << self.coarser;
        let fine = std::mem::take(&mut self.arrivals);
        self.arrivals = Vec::with_capacity(ARRIVALS_BOUND);
        for (at, octets) in fine {
            let bin = at / width * width;
            match self.arrivals.last_mut() {
                Some((last, sum)) if *last == bin => *sum += octets,
                _ => self.arrivals.push((bin, octets)),
            }
        }
    }
}

/// The reader of pages, and its objects in flight.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) reader: Reader,
    /// Objects asked for and not there yet: the exchange's place in the log, and the flow that fetches it.
    pub(crate) open: Vec<(usize, usize)>,
}

/// A wanted exchange, what was seen of it, and where its client is.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) spec: FlowSpec,
    pub(crate) content: Content,
    pub(crate) log: FlowLog,
    /// Body bytes written and not yet read: (end offset, when), oldest first.
    writes: VecDeque<(u64, Instant)>,
    /// The client's connection.
    pub(crate) client: Option<(NodeId, FlowId)>,
    /// The TCP of its client on a host, if it is not the host's.
    pub(crate) tcp: Option<Box<wavelane_tcp::Config>>,
    /// What the two ends of an exchange of datagrams remember.
    pub(crate) datagrams: datagrams::State,
    /// Who reads pages.
    pub(crate) reader: Option<Box<Reading>>,
    /// For questions at random times: the dice, and when the next is due.
    pub(crate) random: Option<(Chance, Instant)>,
}

impl Flow {
    pub(crate) fn new(spec: FlowSpec, content: Content) -> Self {
        Self {
            spec,
            content,
            log: FlowLog::default(),
            writes: VecDeque::new(),
            client: None,
            tcp: None,
            datagrams: datagrams::State::default(),
            reader: None,
            random: None,
        }
    }

    /// The body's writer has written everything below `end`.
    pub(crate) fn note_written(&mut self, now: Instant, end: u64) {
        self.writes.push_back((end, now));
    }

    /// The body's reader read `bytes`.
    pub(crate) fn note_body(&mut self, now: Instant, bytes: &[u8]) {
        let mut from = self.log.octets;
        self.log.note_body(now, self.content, bytes);
        while let Some(&(end, at)) = self.writes.front().filter(|_| from < self.log.octets) {
            let upto = end.min(self.log.octets);
            *self.log.ages.entry(age_bin(now.since(at))).or_default() += upto - from;
            from = upto;
            if upto == end {
                self.writes.pop_front();
            }
        }
    }

    /// Notes the end, once.
    pub(crate) fn finish(&mut self, now: Instant, how: FlowEnd) {
        self.log.end.get_or_insert((now, how));
    }

    /// Whether the body's reader takes bytes at `now`.
    pub(crate) fn reads(&self, now: Instant) -> bool {
        self.spec.reader_pause.is_none_or(|(from, to)| now < from || to <= now)
    }

    /// How many body bytes its source may have given at `now`.
    pub(crate) fn body_allowed(&self, now: Instant) -> u64 {
        let size = match self.spec.work {
            Work::Download(size) | Work::Upload(size) => size.unwrap_or(u64::MAX),
            Work::Echo { size, .. } => return self.log.questions.len() as u64 * size,
            Work::Datagrams(_) | Work::Web(_) => return 0,
        };
        match (self.spec.source_rate, self.log.accepted) {
            (Some(rate), Some(since)) => size.min(rate.octets_in(now.since(since)).get()),
            _ => size,
        }
    }

    /// Total bytes of the body, if that is known.
    pub(crate) fn body_size(&self) -> Option<u64> {
        match self.spec.work {
            Work::Download(size) | Work::Upload(size) => size,
            Work::Echo { size, .. } => self.log.questions_end.map(|_| self.log.questions.len() as u64 * size),
            Work::Datagrams(_) | Work::Web(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_bins_are_few_and_within_the_stated_error() {
        let mut bins = std::collections::BTreeSet::new();
        for n in (0..2_000).chain((0..60_000).map(|n| n * 17)) {
            let bin = age_bin(AGE_BIN.times(n));
            assert!(bin <= n && (n - bin) * 256 <= n, "{n} counts as {bin}");
            bins.insert(bin);
        }
        assert!(bins.len() < 4_000, "{} bins up to {}", bins.len(), AGE_BIN.times(60_000 * 17));
        assert_eq!(age_bin(AGE_BIN.times(AGES_EXACT - 1)), AGES_EXACT - 1);
    }
}
