//! When a lane asks for an answer: to learn whether it works, to time a full packet on it, and to keep it open.

use super::super::first::First;
use super::out::Lane;
use super::{Choice, Lanes};
use wavelane_base::{Instant, Octets, Span, Wakeup};

/// A padded ping is repeated no sooner than this, and costs a slow lane no more than one part in [`HELLO_SHARE`].
const GAUGE_EVERY: Span = Span::from_secs(1);
/// Interval between such requests on a lane that awaits no answer, in a link that is in use ...
const HELLO_EVERY: Span = Span::from_secs(1);
/// ... or this one if it carries the acks, whose loss is not reported ...
const HELLO_FIRST_EVERY: Span = Span::from_millis(250);
/// ... but a lane spends no more than this share of its rate on them.
const HELLO_SHARE: u64 = 50;
/// Octets of such a datagram, with its encapsulation.
const HELLO_OCTETS: u64 = 60;
/// A spare metered lane asks only as often as keeps state in middleboxes (NAT) alive ...
const HELLO_METERED_EVERY: Span = Span::from_secs(25);

impl<L> Lane<L> {
    /// When it is next to ask for an answer, given that none sent later is due.
    fn hello_at(&self, first: bool) -> Instant {
        let every = match (first, self.spare && self.metered) {
            (true, _) => HELLO_FIRST_EVERY,
            (false, false) => HELLO_EVERY,
            // Until a round trip was measured it is unknown whether it could take over.
            (false, true) => {
                if self.measured {
                    HELLO_METERED_EVERY
                } else {
                    HELLO_EVERY
                }
            }
        };
        let spent = self.path.rate.time_for(Octets::new(HELLO_OCTETS)).times(HELLO_SHARE);
        self.asked_at + every.max(spent)
    }
}

impl<L> Lanes<L> {
    /// Whether a padded ping is to time a full packet on a lane: if no such time is known once small packets have left, and now and then if
    /// the time is so long that the lane is left out while something is `waiting`.
    pub(in crate::link) fn gauges(
        &self,
        now: Instant,
        lane: usize,
        in_use: bool,
        waiting: bool,
        first: &First,
    ) -> bool {
        let out = &self.all[lane];
        if !self.are_several() {
            return self.gauges_alone(lane, first);
        }
        if self.choice != Choice::Bond || !in_use || out.spare || out.failed || !out.asked {
            return false;
        }
        let slow = out.measured && out.sender.is_gauged() && out.sender.gauged_rate().is_some() && !out.is_quick();
        let again = !out.sender.is_gauged() || slow && waiting && lane != self.first();
        let spent = out.path.packet_time.times(HELLO_SHARE);
        again && out.gauge_at.is_none_or(|at| at + GAUGE_EVERY.max(spent) <= now)
    }

    /// The same of a lane that is alone.
    fn gauges_alone(&self, lane: usize, first: &First) -> bool {
        let out = &self.all[lane];
        first.may_be_slow() && out.asked && out.bulk && out.sender.wants_gauge(first.warns())
    }

    /// Whether bulk waits until a padded ping was sent.
    pub(in crate::link) fn gauges_before_bulk(&self, lane: usize, first: &First) -> bool {
        let warned = first.warns() || self.all[lane].sender.has_lost_gauge();
        warned && !self.are_several() && self.gauges_alone(lane, first)
    }

    /// Lanes that await no answer ask for one: all of them in a link that is in use, else the unmeasured ones, because they may carry the
    /// acks, and those that sent nothing for `keepalive`.
    pub(in crate::link) fn greet(&mut self, now: Instant, in_use: bool, keepalive: Option<Span>) {
        if self.are_several() {
            let (first, bond) = (self.first(), self.choice == Choice::Bond);
            // While an answer is due, tail probes handle it, and each further eliciting datagram would postpone them.
            for (i, lane) in self.all.iter_mut().enumerate().filter(|(_, lane)| !lane.closed) {
                let asks =
                    (in_use || lane.is_unknown()) && !lane.awaits_probe(bond) && lane.hello_at(i == first) <= now;
                lane.ping |= asks || keepalive.is_some_and(|keepalive| lane.sent_at + keepalive <= now);
            }
        }
    }

    /// The neighbour owes an answer: before it counts as silent, every lane with no answer outstanding sends a ping.
    pub(in crate::link) fn ask_by_all(&mut self) {
        if self.are_several() {
            let quiet = |lane: &&mut Lane<L>| !lane.closed && !lane.failed && !lane.sender.awaits_answer();
            self.all.iter_mut().filter(quiet).for_each(|lane| lane.ping = true);
        }
    }

    /// When the next lane asks.
    pub(in crate::link) fn greet_at(&self, in_use: bool) -> Option<Wakeup> {
        let first = self.first();
        let bond = self.choice == Choice::Bond;
        let quiet = self.quiet().filter(|(_, lane)| (in_use || lane.is_unknown()) && !lane.awaits_probe(bond));
        let at = quiet.map(|(i, lane)| lane.hello_at(i == first)).min()?;
        Some(Wakeup { at, cause: "link: a lane asks for an answer" })
    }

    /// When a lane has been silent for `keepalive`: middleboxes drop the state of each lane separately.
    pub(in crate::link) fn keepalive_at(&self, keepalive: Option<Span>) -> Option<Wakeup> {
        let at = self.quiet().map(|(_, lane)| lane.sent_at).min()? + keepalive?;
        Some(Wakeup { at, cause: "link: a lane is kept open" })
    }

    /// If there are several lanes: those that have no ping pending.
    fn quiet(&self) -> impl Iterator<Item = (usize, &Lane<L>)> {
        self.open().filter(|(_, lane)| self.are_several() && !lane.ping)
    }
}
