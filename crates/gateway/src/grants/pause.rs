//! Pauses between turns, in which senders get through that are not heard while blocks arrive.

use super::PeerId;
use std::collections::{BTreeSet, VecDeque};
use wavelane_base::{Instant, Octets, Rate, Span};

/// How long an answer is awaited at least. An exchange of two small frames at 1 Mbit/s takes less.
const LISTEN: Span = Span::from_millis(6);
/// How long at most: two full packets at 500 kbit/s.
const LISTEN_SLOW: Span = Span::from_millis(48);
/// Octets of two full packets: a peer that has begun to send sends the next one within that time.
const LISTEN_OCTETS: Octets = Octets::new(3_000);
/// A peer that is heard while it is awaited has so many times as long: for a session, a flow, its first bytes and its request.
const STEPS: u64 = 4;
/// Peers without a known request are asked for at most this part of the time of turns.
const PART: u64 = 100;

/// How long an answer is awaited on a medium that carried `octets` in `took`.
pub(super) fn patience(octets: u64, took: Span) -> Span {
    match octets {
        0 => LISTEN,
        _ => Rate::of(Octets::new(octets), took).time_for(LISTEN_OCTETS).clamp(LISTEN, LISTEN_SLOW),
    }
}

/// A pause.
#[derive(Debug, Default)]
pub(super) struct Pause {
    /// Peers that get no turn meanwhile.
    held: BTreeSet<PeerId>,
    /// The peer that had the turn, if it is asked for what it has to say last.
    pub(super) last_word: Option<PeerId>,
    /// Peers without a known request, in the order in which they are asked, one after the other: they do not hear each other.
    pub(super) rest: VecDeque<PeerId>,
    /// How long an answer is awaited.
    patience: Span,
    asked: Option<PeerId>,
    asked_at: Instant,
    /// When the asked one is given up.
    until: Instant,
    /// The asked one has opened a flow: its answer is not all that it has to say.
    opened: bool,
    /// When the first of `rest` was asked.
    counts_from: Option<Instant>,
}

impl Pause {
    /// One that ends after a wait for answers, if nobody is to be asked.
    pub(super) fn new(now: Instant, held: BTreeSet<PeerId>, patience: Span) -> Self {
        Self { held, patience, until: now + patience, ..Self::default() }
    }
}

/// The pauses of one medium.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    current: Option<Pause>,
    /// Time that asking may take, or took in advance.
    credit: Span,
    debt: Span,
}

impl Pauses {
    /// Turns ended that took so long together.
    pub(super) fn turns_took(&mut self, took: Span) {
        let earned = took.scale(1, PART);
        self.credit = (self.credit + earned.saturating_sub(self.debt)).min(LISTEN_SLOW);
        self.debt = self.debt.saturating_sub(earned);
    }
    /// Whether peers without a known request may be asked.
    pub(super) fn may_ask(&self) -> bool {
        self.debt == Span::ZERO
    }
    /// A pause begins.
    pub(super) fn begin(&mut self, now: Instant, pause: Pause) {
        self.end(now);
        self.current = Some(pause);
    }
    /// The peer to ask next, if there is one and time is left; without one the pause is over.
    pub(super) fn next(&mut self, now: Instant) -> Option<PeerId> {
        let pause = self.current.as_mut()?;
        let spent = pause.counts_from.map_or(Span::ZERO, |from| now.since(from));
        let in_time = pause.counts_from.is_none() || spent < self.credit;
        let next = pause.last_word.take().or_else(|| {
            let next = pause.rest.pop_front().filter(|_| in_time)?;
            pause.counts_from.get_or_insert(now);
            Some(next)
        });
        pause.asked = next;
        pause.asked_at = now;
        pause.until = now + pause.patience;
        pause.opened = false;
        if next.is_none() {
            self.end(now);
        }
        next
    }
    /// Whether a peer gets no turn now.
    pub(super) fn hold(&self, peer: PeerId) -> bool {
        self.current.as_ref().is_some_and(|pause| pause.held.contains(&peer))
    }
    fn awaits(&mut self, peer: PeerId) -> Option<&mut Pause> {
        self.current.as_mut().filter(|pause| pause.asked == Some(peer))
    }
    /// A peer was heard: more may follow.
    pub(super) fn heard(&mut self, now: Instant, peer: PeerId) {
        if let Some(pause) = self.awaits(peer) {
            let longest = pause.asked_at + pause.patience.times(STEPS);
            pause.until = (now + pause.patience).min(longest).max(pause.until);
        }
    }
    /// A peer has opened a flow.
    pub(super) fn opened(&mut self, peer: PeerId) {
        if let Some(pause) = self.awaits(peer) {
            pause.opened = true;
        }
    }
    /// Whether what a peer answers now ends the wait for it.
    pub(super) fn is_answer(&mut self, peer: PeerId) -> bool {
        self.awaits(peer).is_some_and(|pause| !pause.opened)
    }
    /// The current one ends.
    pub(super) fn end(&mut self, now: Instant) {
        let Some(from) = self.current.take().and_then(|pause| pause.counts_from) else { return };
        let took = now.since(from);
        self.debt += took.saturating_sub(self.credit);
        self.credit = self.credit.saturating_sub(took);
    }
    /// When the asked one is given up.
    pub(super) fn until(&self) -> Option<Instant> {
        self.current.as_ref().map(|pause| pause.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// A pause in which peer 0 is held and asked for its last word, then the others.
    fn begin(pauses: &mut Pauses, at: u64, rest: &[usize]) -> Option<PeerId> {
        let rest = rest.iter().copied().map(PeerId).collect();
        let mut pause = Pause::new(ms(at), [PeerId(0)].into(), LISTEN);
        pause.last_word = Some(PeerId(0));
        pause.rest = rest;
        pauses.begin(ms(at), pause);
        pauses.next(ms(at))
    }

    #[test]
    fn an_answer_is_awaited_as_long_as_two_packets_take() {
        let mbit = |rate: u64| patience(rate * 125_000, Span::from_secs(1)).as_millis();
        assert_eq!([54, 6, 2, 1].map(mbit), [6, 6, 12, 24]);
        assert_eq!((patience(0, Span::from_secs(1)), patience(1, Span::from_secs(1))), (LISTEN, LISTEN_SLOW));
    }

    #[test]
    fn peers_that_never_answer_take_a_hundredth_of_the_time_of_turns() {
        let (mut pauses, mut paused) = (Pauses::default(), 0);
        let mut now = 0;
        // Turns of 190 ms, a megabyte at 54 Mbit/s.
        for _ in 0..100 {
            now += 190;
            pauses.turns_took(Span::from_millis(190));
            let rest: &[usize] = if pauses.may_ask() { &[1, 2, 3] } else { &[] };
            assert_eq!(begin(&mut pauses, now, rest), Some(PeerId(0)));
            while pauses.next(ms(now)).is_some() {
                now += 6;
                paused += 6;
            }
            assert!(!pauses.hold(PeerId(0)));
        }
        assert!((100..=190 + 6).contains(&paused), "{paused} ms of 19 s");
    }

    /// Each asked one sends on and on, and never what was asked for.
    #[test]
    fn peers_that_never_end_their_answer_take_no_more() {
        let (mut pauses, mut paused, mut now) = (Pauses::default(), 0, 0);
        for _ in 0..1_000 {
            now += 190;
            pauses.turns_took(Span::from_millis(190));
            let mut pause = Pause::new(ms(now), BTreeSet::new(), LISTEN_SLOW);
            pause.rest = if pauses.may_ask() { [1, 2, 3].map(PeerId).into() } else { VecDeque::new() };
            pauses.begin(ms(now), pause);
            while let Some(peer) = pauses.next(ms(now)) {
                while pauses.until().is_some_and(|until| until > ms(now)) {
                    now += 1;
                    paused += 1;
                    pauses.opened(peer);
                    pauses.heard(ms(now), peer);
                }
            }
        }
        let (most, last) = (190 * 1_000 / PART, LISTEN_SLOW.times(STEPS).as_millis());
        assert!((most - 10..=most + last).contains(&paused), "{paused} ms of {now}");
    }

    #[test]
    fn several_are_asked_as_long_as_there_is_time() {
        let mut pauses = Pauses::default();
        pauses.turns_took(Span::from_millis(1_400));
        begin(&mut pauses, 0, &[1, 2, 3, 4]);
        // Of 14 ms the first takes 1, the second 6, the third 6 and the rest waits.
        assert_eq!(
            [1, 2, 8, 14].map(|at| pauses.next(ms(at))),
            [Some(PeerId(1)), Some(PeerId(2)), Some(PeerId(3)), Some(PeerId(4))]
        );
        assert_eq!((pauses.next(ms(20)), pauses.may_ask()), (None, false));
    }

    #[test]
    fn who_is_heard_is_awaited_longer_and_not_for_ever() {
        let mut pauses = Pauses::default();
        begin(&mut pauses, 0, &[1]);
        assert!(pauses.is_answer(PeerId(0)) && !pauses.is_answer(PeerId(1)));
        assert_eq!(pauses.next(ms(1)), Some(PeerId(1)));
        pauses.heard(ms(5), PeerId(0));
        assert_eq!(pauses.until(), Some(ms(7)));
        pauses.opened(PeerId(1));
        assert!(!pauses.is_answer(PeerId(1)), "it has a flow to go on with");
        (5..40).for_each(|at| pauses.heard(ms(at), PeerId(1)));
        assert_eq!(pauses.until(), Some(ms(25)));
        // A turn that is given ends it, and what it took is owed.
        pauses.end(ms(11));
        pauses.turns_took(Span::from_millis(999));
        assert!(!pauses.may_ask() && pauses.until().is_none());
        pauses.turns_took(Span::from_millis(1));
        assert!(pauses.may_ask());
    }
}
