//! Proof that datagrams arrive where they are sent: path challenges and their responses (RFC 9000, section 8.2), and skipped packet numbers
//! (RFC 9000, section 21.4).

use super::{Draft, Link, SentDatagram};
use crate::Service;
use std::collections::VecDeque;
use wavelane_base::{Class, Entropy, Instant, Span, Wakeup};
use wavelane_wire::Writer;
use wavelane_wire::datagram::{DATA_HEADER_LEN, TAG_LEN};
use wavelane_wire::frame::Frame;

/// Most responses that wait; with more challenges the oldest stay unanswered.
const RESPONSES_MAX: usize = 4;
/// Two skipped numbers are at least this far apart, so that a receiver that counts gaps as losses sees less than the share from which
/// anything is repaired ...
const SKIP_EVERY: u64 = 4096;
/// ... and at most this much further, unpredictably.
const SKIP_SPREAD: u64 = 8192;
/// The first one is skipped sooner.
const SKIP_FIRST: u64 = 512;

/// The interval between responses if the neighbour acknowledges nothing and the window is far exceeded.
const RESPONSES_APART: Span = Span::from_millis(100);

/// Responses that wait for a datagram.
#[derive(Debug, Default)]
pub(super) struct PathResponses {
    waiting: VecDeque<[u8; 8]>,
    /// When the last one was sent.
    left: Option<Instant>,
    /// When those that wait may leave regardless of the window, if that is in the future.
    due_at: Option<Instant>,
}

impl PathResponses {
    pub(super) fn are_due(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Time has passed.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.due_at.take_if(|at| *at <= now);
    }

    /// When responses that are held back may leave.
    pub(super) fn poll_timeout(&self) -> Option<Wakeup> {
        self.due_at.map(|at| Wakeup { at, cause: "link: path responses" })
    }

    /// The neighbour sent a challenge.
    pub(super) fn asked(&mut self, now: Instant, token: [u8; 8]) {
        if self.waiting.contains(&token) {
            return;
        }
        if self.waiting.len() >= RESPONSES_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(token);
        self.due_at = self.left.map(|left| left + RESPONSES_APART).filter(|at| *at > now);
    }

    /// Appends as many responses as fit.
    fn put(&mut self, now: Instant, w: &mut Writer<'_>) {
        while self.waiting.front().is_some_and(|token| Frame::PathResponse(*token).emit(w).is_ok()) {
            self.waiting.pop_front();
            self.left = Some(now);
            self.due_at = (!self.waiting.is_empty()).then_some(now + RESPONSES_APART);
        }
    }
}

/// Decides which numbers are skipped.
#[derive(Debug)]
pub(super) struct Skips {
    dice: Entropy,
    next: u64,
}

impl Skips {
    pub(super) fn new(mut dice: Entropy) -> Self {
        let next = SKIP_FIRST + dice.next_u64() % SKIP_EVERY;
        Self { dice, next }
    }

    /// Whether `number` is skipped; called once for each.
    pub(super) fn skips(&mut self, number: u64) -> bool {
        let skips = number >= self.next;
        if skips {
            self.next = number + SKIP_EVERY + self.dice.next_u64() % SKIP_SPREAD;
        }
        skips
    }
}

impl<S: Service> Link<S> {
    /// Sets or clears the challenge in a lane's next datagram: the neighbour is to prove that it is reachable at the lane's address.
    pub fn challenge(&mut self, lane: usize, token: Option<[u8; 8]>) {
        self.lanes[lane].challenge = token;
    }

    /// Whether it has not been sent yet.
    pub fn challenge_waits(&self, lane: usize) -> bool {
        self.lanes[lane].challenge.is_some()
    }

    /// The next response of the neighbour that was not taken yet.
    pub fn poll_path_response(&mut self) -> Option<[u8; 8]> {
        self.heard_responses.pop_front()
    }

    /// Largest datagram that a lane's path is known to carry.
    pub fn datagram_max(&self, lane: usize) -> usize {
        self.lanes[lane].sender.datagram_max()
    }

    /// Whether a challenge is due on this lane, or a response is.
    pub(super) fn path_frames_are_due(&self, now: Instant, at: usize) -> bool {
        let answers = self.responses.are_due() && at == self.lanes.first() && self.may_answer(now, at);
        self.lanes[at].challenge.is_some() || answers
    }

    /// Whether responses may leave regardless of the window: a neighbour that acknowledges none might request them for ever.
    fn may_answer(&self, now: Instant, at: usize) -> bool {
        let apart = self.responses.left.is_none_or(|left| now.since(left) >= RESPONSES_APART);
        apart || self.lanes[at].sender.takes_answers()
    }

    /// Appends the challenge and as many responses as fit. Returns whether anything was written.
    pub(super) fn put_path_frames(&mut self, now: Instant, at: usize, w: &mut Writer<'_>) -> bool {
        let (before, may_answer) = (w.len(), self.may_answer(now, at));
        let lane = &mut self.lanes[at];
        if lane.challenge.is_some_and(|token| Frame::PathChallenge(token).emit(w).is_ok()) {
            lane.challenge = None;
        }
        if may_answer {
            self.responses.put(now, w);
        }
        w.len() > before
    }

    /// Writes a datagram that holds only challenges and responses, into a `buf` that may be shorter than a full datagram; `None` if there
    /// are none or they do not fit.
    pub fn compose_path_frames(&mut self, now: Instant, lane: usize, buf: &mut [u8]) -> Option<Draft> {
        if self.lanes[lane].is_closed() {
            return None;
        }
        let end = buf.len().checked_sub(TAG_LEN)?;
        let mut w = Writer::new(buf.get_mut(DATA_HEADER_LEN..end)?);
        if !self.put_path_frames(now, lane, &mut w) {
            return None;
        }
        let plain_len = w.len();
        let record = SentDatagram::default();
        Some(self.send(now, lane, plain_len, Class::Control, true, false, record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wavelane_base::Seed;

    /// Where the window keeps responses back, the link wakes for them, and not before one may leave or when none waits.
    #[test]
    fn responses_that_are_kept_back_have_a_deadline() {
        let mut responses = PathResponses::default();
        let put = |responses: &mut PathResponses, at| responses.put(at, &mut Writer::new(&mut [0; 64]));
        let at = |responses: &PathResponses| responses.poll_timeout().map(|wakeup| wakeup.at);
        responses.asked(Instant::ZERO, [1; 8]);
        assert_eq!(at(&responses), None, "the first leaves at once");
        put(&mut responses, Instant::from_secs(1));
        assert_eq!(at(&responses), None);
        responses.asked(Instant::from_secs(1), [2; 8]);
        let due = Instant::from_secs(1) + RESPONSES_APART;
        assert_eq!(at(&responses), Some(due));
        responses.handle_timeout(due - Span::from_nanos(1));
        assert_eq!(at(&responses), Some(due));
        responses.handle_timeout(due);
        assert_eq!((at(&responses), responses.are_due()), (None, true));
        put(&mut responses, due);
        assert_eq!((at(&responses), responses.are_due()), (None, false));
    }

    #[test]
    fn skipped_packet_numbers_are_rare_and_differ_per_link() {
        let left_out = |seed| {
            let mut skips = Skips::new(Seed(seed).entropy("skips"));
            (0..100_000).filter(|number| skips.skips(*number)).collect::<Vec<u64>>()
        };
        let all: Vec<_> = (0..8).map(left_out).collect();
        assert!(all.iter().all(|numbers| (8..=25).contains(&numbers.len())), "{all:?}");
        assert!(all.iter().flat_map(|numbers| numbers.windows(2)).all(|pair| pair[1] - pair[0] >= SKIP_EVERY));
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn challenges_are_answered_once_and_a_flood_of_them_is_bounded() {
        let mut frames = PathResponses::default();
        (0..100).for_each(|n| frames.asked(Instant::ZERO, [n; 8]));
        (96..100).for_each(|n| frames.asked(Instant::ZERO, [n; 8]));
        let mut buf = [0; 1200];
        let mut w = Writer::new(&mut buf);
        frames.put(Instant::ZERO, &mut w);
        assert!(w.len() == RESPONSES_MAX * 11 && !frames.are_due());
    }
}
