//! One end of a flow that may pass relays.
//!
//! A neighbour's receipt means that the neighbour has the bytes, not that they arrived: it may be a relay, and it may restart. An
//! edge keeps what it sent until the *other edge* reports that its application has it, and it knows what its own application has.
//! That is enough to continue over any other way: both report how far they got, and each sends from there. Nothing is lost, and
//! nothing is delivered twice.

use std::collections::VecDeque;
use std::net::SocketAddr;
use wavelane_base::{Instant, Span};
use wavelane_wire::frame::{Passage, Reach, Seal};

use super::sealed::{Row, Sealing};
use super::watch::Watch;
use crate::PeerId;

/// Minimum bytes that a flow may keep, regardless of the number of flows.
pub(crate) const KEPT_FLOOR: u64 = 16 << 10;
/// Progress is sent to the other edge at once after this many bytes.
const WORD_EVERY: u64 = 64 << 10;
/// Least room for which a waiting writer is woken.
const WRITABLE_MIN: u64 = 8 << 10;
/// How often the opening edge reopens a flow without any byte getting through in between: as long as the answering edge waits.
pub(crate) const RESUMES_MAX: u32 = 80;
/// The same before the flow was accepted: the application gives up long before.
pub(crate) const OPENS_MAX: u32 = 16;
/// It reopens at once, then after about this long, doubling each time: a relay may have to defer it.
const RESUME_WAIT: Span = Span::from_millis(250);
/// Longest of these waits. All tries take about 600 s, those of a flow that was not accepted 90 s.
const RESUME_WAIT_MAX: Span = Span::from_secs(8);
/// How long the answering edge waits for a flow to be resumed. A relay may have to be rebooted.
pub(crate) const DETACHED_MAX: Span = Span::from_secs(600);

/// An edge's role in the flow.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    /// Opened it, and reopens it if the way is lost.
    Opener {
        peer: PeerId,
        source: SocketAddr,
        target: SocketAddr,
        /// Tries since bytes last got through.
        resumes: u32,
        /// The target was routed over the peer: other peers may lead there, now or later.
        routed: bool,
        /// Other peers lead to the target as well.
        choice: bool,
    },
    /// Was asked, and waits to be asked again.
    Answerer,
}

/// How long the opening edge waits after `tries` failed tries. `dice` adds jitter to flows lost together: half of the wait either
/// way.
pub(crate) fn resume_wait(tries: u32, dice: u64) -> Span {
    let doublings = tries.saturating_sub(1).min(OPENS_MAX);
    let wait = RESUME_WAIT.times(1 << doublings).min(RESUME_WAIT_MAX);
    Span::from_nanos(wait.as_nanos() / 2 + dice % wait.as_nanos())
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) token: [u8; 16],
    pub(crate) role: Role,
    /// Number of earlier requests, as far as we know: requests with a lower number are out of date.
    pub(crate) attempt: u64,
    /// When it was last asked for again: by us, or from us.
    pub(crate) asked_at: Instant,
    /// The answering edge's application accepted.
    pub(crate) accepted: bool,
    /// The neighbour turned out to be the other edge: nothing is kept once early bytes were sent.
    pub(crate) direct: bool,
    /// The answer on the current way has not arrived: the offset to send from is unknown.
    pub(crate) awaiting: bool,
    /// Bytes of our application that the other one is not known to have.
    kept: VecDeque<u8>,
    /// The peer whose share of all kept bytes these count to.
    pub(crate) charged: Option<PeerId>,
    /// Offset of the first.
    kept_from: u64,
    /// Everything below was handed to the current way.
    handed: u64,
    /// Offset of the current way's first byte.
    way_from: u64,
    /// Whether the other edge gets further.
    pub(crate) watch: Watch,
    /// Our application ended its direction.
    pub(crate) ended: bool,
    /// Our application waits for room.
    pub(crate) writer_waits: bool,
    /// How much of the other direction our application has read.
    pub(crate) reach: Reach,
    /// The other edge said that its application has everything.
    pub(crate) other_finished: bool,
    /// What the other edge was last told.
    said: u64,
    /// The sealing state, if the flow is sealed against relays.
    pub(crate) seal: Option<Sealing>,
    /// Times that either edge distrusted a way since an octet got through.
    pub(crate) distrusts: u32,
    /// The ways left in a row for that reason.
    pub(crate) distrusted: Option<Row>,
    /// At the answering edge: relays that the newest request crossed, by their own count.
    pub(crate) relays: Option<u8>,
    /// RTT between the edges on the current way, once known.
    pub(crate) way_rtt: Option<Span>,
    /// The table's deadline for a flow without a way: it is then given up, or retried at the opening edge.
    pub(crate) give_up_at: Option<Instant>,
}

impl Edge {
    pub(crate) fn new(token: [u8; 16], role: Role) -> Self {
        Self {
            token,
            role,
            attempt: 0,
            asked_at: Instant::ZERO,
            accepted: false,
            direct: false,
            awaiting: false,
            kept: VecDeque::new(),
            charged: None,
            kept_from: 0,
            handed: 0,
            way_from: 0,
            watch: Watch::default(),
            ended: false,
            writer_waits: false,
            reach: Reach::default(),
            other_finished: false,
            said: 0,
            seal: None,
            distrusts: 0,
            distrusted: None,
            relays: None,
            way_rtt: None,
            give_up_at: None,
        }
    }
    /// The peer over which it was opened here, and would be again.
    pub(crate) fn opener_peer(&self) -> Option<PeerId> {
        match self.role {
            Role::Opener { peer, .. } => Some(peer),
            Role::Answerer => None,
        }
    }
    /// Renumbers the peer.
    pub(crate) fn rename_peer(&mut self, new_id: impl Fn(PeerId) -> Option<PeerId>) {
        if let Role::Opener { peer, .. } = &mut self.role {
            *peer = new_id(*peer).unwrap_or(*peer);
        }
    }
    /// Whether this request may resume the flow: another edge opened it, and no newer request came since.
    pub(crate) fn takes(&self, passage: &Passage) -> bool {
        // Words carry their own order, which relays cannot change.
        let ordered =
            passage.attempt >= self.attempt || self.is_sealed() && matches!(passage.seal, Some(Seal::Word(_)));
        matches!(self.role, Role::Answerer) && ordered
    }
    /// At the opening edge: how often it asked again since bytes last moved.
    pub(crate) fn tries(&mut self) -> Option<&mut u32> {
        let Role::Opener { resumes, .. } = &mut self.role else { return None };
        Some(resumes)
    }
    /// Maximum reopens before giving up.
    pub(crate) fn resumes_max(&self) -> u32 {
        if self.accepted { RESUMES_MAX } else { OPENS_MAX }
    }
    /// The passage of an Open, or of a reopen if `accepted`.
    pub(crate) fn passage(&mut self) -> Passage {
        let choice = matches!(self.role, Role::Opener { choice: true, .. });
        let received = self.accepted.then_some(self.reach.received);
        let seal = self.open_seal();
        Passage { token: self.token, hops: 0, received, choice, attempt: self.attempt, seal }
    }
    /// Whether octets got through in either direction.
    pub(crate) fn has_begun(&self) -> bool {
        self.kept_from > 0 || self.reach.received > 0
    }
    pub(crate) fn kept(&self) -> u64 {
        self.kept.len() as u64
    }
    fn written(&self) -> u64 {
        self.kept_from + self.kept()
    }
    /// Whether kept bytes have to be replayed first.
    pub(crate) fn is_replaying(&self) -> bool {
        self.awaiting || self.handed < self.written()
    }
    /// Bytes the application may add if one flow may keep `share`.
    pub(crate) fn room(&self, share: u64) -> usize {
        usize::try_from(share.saturating_sub(self.kept())).unwrap_or(usize::MAX)
    }
    /// Whether a waiting writer is to be woken now.
    pub(crate) fn wakes_writer(&mut self, share: u64) -> bool {
        let wakes = self.writer_waits && !self.is_replaying() && self.room(share) as u64 >= WRITABLE_MIN.min(share / 2);
        self.writer_waits &= !wakes;
        wakes
    }
    /// The application's bytes, accepted by the current way.
    pub(crate) fn wrote(&mut self, data: &[u8]) {
        self.kept.extend(data);
        self.handed = self.written();
    }
    /// Adds bytes still to be handed to the current way.
    pub(crate) fn keep(&mut self, data: &[u8]) {
        self.kept.extend(data);
    }
    /// The next bytes to hand to the current way, at most `max`.
    pub(crate) fn next_replay(&self, max: usize) -> &[u8] {
        let from = (self.handed - self.kept_from) as usize;
        let (front, back) = self.kept.as_slices();
        let rest = if from < front.len() { &front[from..] } else { &back[from - front.len()..] };
        &rest[..max.min(rest.len())]
    }
    pub(crate) fn replayed(&mut self, octets: usize) {
        self.handed += octets as u64;
    }
    /// The other edge's application has everything below `received`. `false` if that cannot be.
    pub(crate) fn acknowledge(&mut self, received: u64) -> bool {
        if !(self.kept_from..=self.written()).contains(&received) {
            // An older report is ignored; one about bytes never written is invalid.
            return received < self.kept_from;
        }
        self.kept.drain(..(received - self.kept_from) as usize);
        if self.kept.is_empty() {
            self.kept = VecDeque::new();
        }
        if received > self.kept_from {
            self.distrusts = 0;
            self.tries().into_iter().for_each(|resumes| *resumes = 0);
        }
        self.kept_from = received;
        true
    }
    /// Offset of the first byte that the other application lacks, on the current way.
    pub(crate) fn kept_on_way(&self) -> u64 {
        self.kept_from - self.way_from
    }
    /// The kept part of these bytes and its start, in offsets of the current way.
    pub(crate) fn kept_between(&self, start: u64, end: u64) -> Option<(u64, Vec<u8>)> {
        let from = (start + self.way_from).max(self.kept_from);
        let to = (end + self.way_from).min(self.handed);
        let skipped = usize::try_from(from.checked_sub(self.kept_from)?).ok()?;
        let len = usize::try_from(to.checked_sub(from)?).ok()?;
        Some((from - self.way_from, self.kept.iter().skip(skipped).take(len).copied().collect()))
    }
    /// A new way starts at the other edge's application's offset. `false` if the bytes from there are no longer kept.
    pub(crate) fn start_from(&mut self, received: u64) -> bool {
        if received < self.kept_from || !self.acknowledge(received) {
            return false;
        }
        self.handed = received;
        self.awaiting = false;
        self.said = self.reach.received;
        self.way_from = received;
        true
    }
    /// The application read bytes. Returns whether to tell the other edge at once.
    pub(crate) fn read(&mut self, octets: usize) -> bool {
        self.reach.received += octets as u64;
        self.tries().into_iter().for_each(|resumes| *resumes = 0);
        let due = self.reach.received - self.said >= WORD_EVERY;
        if due {
            self.said = self.reach.received;
        }
        due
    }
    /// Whether both applications have everything, as far as known without the other's last word.
    pub(crate) fn is_done(&self) -> bool {
        self.ended && self.kept.is_empty() && self.reach.finished
    }
    /// Whether both applications have everything.
    pub(crate) fn is_over(&self) -> bool {
        self.is_done() && self.other_finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(written: usize) -> Edge {
        let mut edge = Edge::new([1; 16], Role::Answerer);
        let bytes: Vec<u8> = (0..written).map(|i| i as u8).collect();
        edge.wrote(&bytes);
        edge
    }

    #[test]
    fn a_new_way_begins_where_the_other_application_is() {
        let mut edge = edge(1000);
        assert!(!edge.is_replaying());
        assert!(edge.start_from(300));
        assert!(edge.is_replaying());
        assert_eq!(edge.next_replay(5), [44, 45, 46, 47, 48]);
        edge.replayed(700);
        assert!(!edge.is_replaying());
        assert_eq!(edge.kept(), 700);
    }

    #[test]
    fn retries_back_off_with_jitter() {
        let bounds = |tries| (resume_wait(tries, 0), resume_wait(tries, RESUME_WAIT_MAX.as_nanos() - 1));
        assert_eq!(bounds(1).0, Span::from_millis(125));
        assert!((1..RESUMES_MAX).all(|n| bounds(n).0 <= bounds(n + 1).0 && bounds(n).1 < Span::from_secs(12)));
        assert_eq!(bounds(RESUMES_MAX).0, Span::from_secs(4));
        let all = |times: u32| (1..times).map(|n| resume_wait(n, 0).as_millis()).sum::<u64>();
        assert!((40_000..60_000).contains(&all(OPENS_MAX)), "at least {} ms", all(OPENS_MAX));
        assert!((290_000..310_000).contains(&all(RESUMES_MAX)), "at least {} ms", all(RESUMES_MAX));
    }

    #[test]
    fn impossible_progress_is_refused_and_old_progress_ignored() {
        let mut edge = edge(1000);
        assert!(edge.acknowledge(600) && edge.acknowledge(200));
        assert_eq!(edge.kept(), 400);
        assert!(!edge.acknowledge(1001));
        assert!(!edge.start_from(599), "those bytes are gone");
        assert!(!edge.start_from(1001));
        assert!(edge.start_from(1000));
        assert!(!edge.is_replaying());
    }
}
