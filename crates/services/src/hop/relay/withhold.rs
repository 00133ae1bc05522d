//! Ack withholding: a receiver takes large blocks from few senders at once and makes the others wait.
//!
//! A withheld flow has credit for a few bytes beyond those read. A sender with more offers what waits, and gets credit for it
//! when the owner of the medium grants it. A grant is a credit: it is never withdrawn.

use super::super::Hop;
use super::super::flow::{Flow, State};
use super::super::incoming::{Ahead, Incoming};
use super::super::shares::FLOOR;
use super::super::table::list;
use super::super::types::{HopEvent, Onward};
#[cfg(test)]
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use wavelane_base::{Instant, Octets, Rate, Span};
use wavelane_transport::PathView;
use wavelane_wire::frame::FlowName;

/// Maximum bytes of one grant, where blocks have no fixed size ...
pub(in crate::hop) const GRANT_MAX: u64 = 1 << 20;
/// ... and what is granted on slow lanes too: a turn costs a pause, of two small frames at the least.
const GRANT_MIN: u64 = 128 << 10;
/// The same to a neighbour whose turns are known to take long.
const GRANT_MIN_SLOW: u64 = 16 << 10;
/// How long a turn takes: short transfers of others wait for its end.
const TURN: Span = Span::from_millis(100);
/// A shorter one counts as one of this length.
const TURN_NOTED_MIN: Span = Span::from_millis(1);
/// A flow whose first bytes up to here are all that it asks for is a short transfer.
const SHORT: u64 = 128 << 10;
/// Bytes that flows may take without a grant: this many at once ...
const BYPASS_MAX: u64 = 16 << 10;
/// ... and afterwards this fraction of the lane's rate.
const BYPASS_PART: u64 = 16;

/// A sender before a relay is let pass more bytes no sooner, and no later, than this, where the budget is empty.
const PASS_AFTER_MIN: Span = Span::from_millis(1);
/// See [`PASS_AFTER_MIN`].
const PASS_AFTER_MAX: Span = Span::from_secs(1);

/// If nothing moves ahead of a relay for this long, as in a fade, the air is free for the next turn into it. A turn of the next hop, and
/// one of another sender before it, take less.
const STUCK: Span = Span::from_millis(300);

/// Minimum interval between repeats of what was not heard, however often the peer asks.
const SAY_AGAIN: Span = Span::from_millis(100);

/// What flows may still take without a grant.
#[derive(Debug)]
pub(in crate::hop) struct Bypass {
    left: u64,
    at: Instant,
    /// When what was not heard was last repeated.
    said_again: Instant,
}

impl Default for Bypass {
    fn default() -> Self {
        Self { left: BYPASS_MAX, at: Instant::ZERO, said_again: Instant::ZERO }
    }
}

impl Bypass {
    /// Takes `octets` if available, on a lane of `rate`.
    fn take(&mut self, now: Instant, rate: Rate, octets: u64) -> bool {
        let earned = rate.octets_in(now.since(self.at)).get() / BYPASS_PART;
        if earned > 0 {
            self.left = self.left.saturating_add(earned).min(BYPASS_MAX);
            self.at = now;
        }
        let fits = self.left >= octets;
        if fits {
            self.left -= octets;
        }
        fits
    }
    /// How long it takes to earn what is missing of `octets`.
    fn wait(&self, rate: Rate, octets: u64) -> Span {
        let missing = octets.saturating_sub(self.left) * BYPASS_PART;
        rate.time_for(Octets::new(missing)).clamp(PASS_AFTER_MIN, PASS_AFTER_MAX)
    }
}

/// What a withheld flow may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::hop) struct Held {
    /// Bytes below.
    pub(in crate::hop) until: u64,
    /// The sender has bytes up to here that wait for more credit.
    asked: Option<u64>,
    /// The last grant was not used up.
    granted: bool,
}

impl Default for Held {
    fn default() -> Self {
        Self { until: FLOOR, asked: None, granted: false }
    }
}

impl Held {
    /// Credit up to `until`, for what was asked.
    fn grant(until: u64) -> Self {
        Self { until, asked: None, granted: true }
    }
    /// The sender has bytes waiting up to `end`. Returns whether that is more than it may send.
    pub(in crate::hop) fn ask(&mut self, end: u64) -> bool {
        let more = end > self.until;
        if more {
            self.asked = Some(end);
        }
        more
    }
    /// Whether all granted bytes arrived, up to `cumulative`; true once per grant.
    fn take_filled(&mut self, cumulative: u64) -> bool {
        cumulative >= self.until && core::mem::take(&mut self.granted)
    }
}

/// The flows that a search for Offers is about, so that it costs no look at the others. Each flow of the table is in either set at
/// most once.
#[derive(Debug, Default)]
pub(in crate::hop) struct Offers {
    /// Withheld flows whose senders asked for nothing: a receipt may bring an Offer.
    quiet: BTreeSet<FlowName>,
    /// Flows whose Open, or Offer of waiting bytes, left and may not have arrived.
    offering: BTreeSet<FlowName>,
    /// Flows that searches looked at.
    #[cfg(test)]
    pub(in crate::hop) looked_at: u64,
}

impl Offers {
    /// After any change to a flow.
    pub(in crate::hop) fn note(&mut self, name: FlowName, flow: &mut Flow) {
        let offering = flow.is_offering();
        list(name, &mut self.offering, &mut flow.offering, offering);
        let quiet = flow.is_quiet();
        list(name, &mut self.quiet, &mut flow.quiet, quiet);
    }
    /// The flow left the table.
    pub(in crate::hop) fn remove(&mut self, name: FlowName) {
        self.quiet.remove(&name);
        self.offering.remove(&name);
    }
    fn count_look(&mut self) {
        #[cfg(test)]
        {
            self.looked_at += 1;
        }
    }
    /// Whether the sets are what a look at every flow would find.
    #[cfg(test)]
    pub(in crate::hop) fn are_right(&self, flows: &BTreeMap<FlowName, Flow>) -> bool {
        let of = |belongs: fn(&Flow) -> bool| flows.iter().filter(move |(_, flow)| belongs(flow)).map(|(name, _)| name);
        of(Flow::is_quiet).eq(&self.quiet) && of(Flow::is_offering).eq(&self.offering)
    }
}

impl Hop {
    /// The initial state of a flow.
    pub(in crate::hop) fn held_at_first(&self) -> Option<Held> {
        self.config.withhold.then(Held::default)
    }

    /// Grants what the flow's sender offered, at most a block and within its window, and returns the number of bytes: zero while
    /// its reader blocks it. `None` if it no longer asks.
    pub fn grant(&mut self, now: Instant, name: FlowName) -> Option<u64> {
        let (room, path) = (self.unread_room(), self.path);
        let flow = self.flows.get(&name).filter(|flow| !flow.is_over())?;
        // Of a relay's small blocks many make a turn: each turn is a pause of two hops at the least.
        let most = if flow.inc.ahead.is_some() { self.turn().max(self.turn_by_time()) } else { self.turn() };
        let flow = self.flows.get_mut(&name)?;
        let inc = &mut flow.inc;
        let from = inc.cumulative();
        let asked = inc.withheld.and_then(|held| held.asked).filter(|end| *end > from && !inc.is_complete())?;
        let wanted = if asked - from > most + most / 4 { most } else { asked - from };
        let held_up = inc.ahead.as_ref().is_some_and(|ahead| ahead.holds_up(now));
        if held_up && asked > SHORT {
            return Some(0);
        }
        // More than a turn in a relay's hands would be air that its own turns lack.
        let open = inc.open_window(now, &path, room, most).saturating_sub(from).min(wanted);
        // No small grants.
        if open < wanted.min(most / 4) {
            return Some(0);
        }
        let until = from + open;
        inc.withheld = Some(Held::grant(until));
        if let Some(ahead) = inc.ahead.as_mut().filter(|_| until > SHORT) {
            ahead.begin_turn(until);
        }
        inc.note_grant(until);
        flow.promise(now, &path, room);
        self.settle(name);
        Some(open)
    }

    /// Most bytes of a turn.
    fn turn(&self) -> u64 {
        self.config.block.map_or_else(|| self.turn_by_time(), Octets::get)
    }
    fn turn_by_time(&self) -> u64 {
        let (rate, least) = self.relay.turn_rate.map_or((self.path.rate, GRANT_MIN), |rate| (rate, GRANT_MIN_SLOW));
        rate.min(self.path.rate).octets_in(TURN).get().clamp(least, GRANT_MAX)
    }
    /// What the last turn of the neighbour's carried: turns are shares of the medium's time, whatever rate each sender has.
    pub fn note_turn(&mut self, octets: u64, took: Span) {
        self.relay.turn_rate =
            Some(Rate::of(Octets::new(octets), took.max(TURN_NOTED_MIN))).filter(|_| octets > 0 || took >= TURN);
    }

    /// Whether a flow's sender asks for the flow's first bytes alone.
    pub fn asks_little(&self, name: FlowName) -> bool {
        let asked = self.flows.get(&name).and_then(|flow| flow.inc.withheld?.asked);
        asked.is_some_and(|end| end <= SHORT)
    }

    /// No other sender of the medium asks: until one does, flows of this one go on without asking.
    pub fn set_alone(&mut self, now: Instant) {
        if core::mem::replace(&mut self.relay.alone, true) {
            return;
        }
        let names: Vec<FlowName> = self.flows.keys().copied().collect();
        names.into_iter().for_each(|name| self.go_on_alone(now, name));
    }

    /// Another sender asks too.
    pub fn set_not_alone(&mut self) {
        self.relay.alone = false;
    }

    /// Raises what a flow may take without asking, if its sender is alone: by a turn beyond what arrived.
    pub fn go_on_alone(&mut self, now: Instant, name: FlowName) {
        let (room, path, turn) = (self.unread_room(), self.path, self.turn());
        let Some(flow) =
            self.flows.get_mut(&name).filter(|flow| self.relay.alone && !flow.is_over() && !flow.goes_in_turns())
        else {
            return;
        };
        let inc = &mut flow.inc;
        let Some(held) = inc.withheld else { return };
        let until = (inc.cumulative() + turn).min(inc.open_window(now, &path, room, 0));
        // Each receipt that raises it costs a frame.
        let ahead = until.saturating_sub(inc.cumulative());
        if ahead == 0 || until < held.until + ahead / 4 {
            return;
        }
        flow.inc.withheld = Some(Held { until, ..Held::default() });
        flow.promise(now, &path, room);
        self.settle(name);
    }

    /// What lies ahead of a flow's bytes that we send, if a relay does.
    pub fn onward(&self, name: FlowName) -> Onward {
        let Some(flow) = self.flows.get(&name) else { return Onward::default() };
        let drained = flow.out.is_drained();
        Onward { drained, clear: drained && flow.out.has_credit(), receipted: flow.out.receipted() }
    }

    /// A relay sends what it reads of this flow on by the same radio, where that lies ahead: it takes turns as wholes.
    pub fn set_onward(&mut self, now: Instant, name: FlowName, onward: Onward) {
        let (room, path) = (self.unread_room(), self.path);
        let Some(flow) = self.flows.get_mut(&name) else { return };
        let first = flow.inc.ahead.is_none();
        let ahead = flow.inc.ahead.get_or_insert_default();
        let before = core::mem::replace(&mut ahead.onward, onward);
        if !self.config.withhold || !first && before == onward {
            return;
        }
        ahead.at = Some(now);
        if !first && (before.drained, before.clear) == (onward.drained, onward.clear) {
            return;
        }
        self.let_pass(now, name);
        if let Some(flow) = self.flows.get_mut(&name) {
            flow.consider_credit(now, &path, room);
        }
        self.settle(name);
    }

    /// Bytes of this flow come in turns, and wait for turns.
    pub fn send_whole(&mut self, name: FlowName) {
        if let Some(flow) =
            self.flows.get_mut(&name).filter(|flow| self.config.withhold && flow.out.receipted() > SHORT)
        {
            flow.out.whole = true;
        }
    }

    /// Whether a flow goes on by the same radio.
    pub fn goes_on(&self, name: FlowName) -> bool {
        self.flows.get(&name).is_some_and(Flow::goes_in_turns)
    }

    /// A turn ended before all of it came: what came may be read.
    pub fn give_up_turn(&mut self, now: Instant, name: FlowName) {
        let Some(flow) = self.flows.get_mut(&name).filter(|flow| flow.inc.whole_at().is_some()) else { return };
        flow.inc.turn_is_over(now);
        if flow.wakes_reader() {
            self.events.push_back(HopEvent::Readable(name));
        }
    }

    /// Whether a flow may still receive bytes.
    pub fn is_open(&self, flow: FlowName) -> bool {
        self.flows.get(&flow).is_some_and(|flow| !flow.is_over())
    }

    /// Bytes of a flow received, including those beyond a gap.
    pub fn received(&self, flow: FlowName) -> u64 {
        self.flows.get(&flow).map_or(0, |flow| flow.inc.cumulative() + flow.inc.held().total())
    }

    /// Bytes of a withheld flow arrived or were read: a grant may be used up, and without one a few more bytes may be allowed.
    pub(in crate::hop) fn let_pass(&mut self, now: Instant, name: FlowName) {
        let path: PathView = self.path;
        let Some(flow) = self.flows.get_mut(&name) else { return };
        let Some(mut held) = flow.inc.withheld else { return };
        if held.take_filled(flow.inc.cumulative()) || flow.inc.is_complete() && core::mem::take(&mut held.granted) {
            // What the peer says last before others have their turn depends on this.
            flow.inc.receipt_now = true;
            self.events.push_back(HopEvent::Filled(name));
        }
        let more = (flow.inc.read_so_far() + FLOOR).saturating_sub(held.until);
        let drained =
            flow.inc.ahead.as_ref().is_none_or(|ahead| ahead.onward.drained) || flow.inc.read_so_far() <= SHORT;
        if drained && held.asked.is_none() && !held.granted && more >= FLOOR / 4 {
            if self.relay.bypass.take(now, path.rate, more) {
                held.until += more;
                flow.inc.pass_at = None;
            } else if flow.goes_in_turns() {
                flow.inc.pass_at = Some(now + self.relay.bypass.wait(path.rate, more));
            }
        }
        flow.inc.withheld = Some(held);
        if self.relay.alone {
            self.go_on_alone(now, name);
        }
        self.ask_for_mute(name);
    }

    /// A sender that does not withhold asks for no grant. Where it used up what passes without one, it is taken to ask for a turn.
    pub(in crate::hop) fn ask_for_mute(&mut self, name: FlowName) {
        let turn = self.turn_by_time();
        let Some(flow) = self.flows.get_mut(&name) else { return };
        let inc = &mut flow.inc;
        if inc.mute && inc.is_short() && !inc.is_complete() && inc.asks(inc.cumulative() + turn) {
            self.events.push_back(HopEvent::Asks(name));
        }
    }

    /// What passes without a grant did not suffice a sender that does not withhold: nothing that it sends tells when more may.
    pub(in crate::hop) fn pass_mute(&mut self, now: Instant, name: FlowName) {
        let Some(flow) = self.flows.get_mut(&name) else { return };
        flow.inc.pass_at = None;
        if flow.state != State::Open {
            return;
        }
        self.let_pass(now, name);
        let (room, path) = (self.unread_room(), self.path);
        if let Some(flow) = self.flows.get_mut(&name) {
            flow.consider_credit(now, &path, room);
        }
    }

    /// Whether the peer has a flow open on which it asked for nothing: it may have something to send.
    pub fn may_offer(&self) -> bool {
        !self.relay.offers.quiet.is_empty()
    }

    /// The peer asks for an answer at once. If it withholds it listens now for what it may not have heard: Opens, and Offers of bytes that
    /// wait.
    pub fn asked(&mut self, now: Instant) {
        if !self.config.withhold || now.since(self.relay.bypass.said_again) < SAY_AGAIN {
            return;
        }
        self.relay.bypass.said_again = now;
        // Each of them costs a frame; none is in the set again before that left.
        for name in core::mem::take(&mut self.relay.offers.offering) {
            self.relay.offers.count_look();
            if let Some(flow) = self.flows.get_mut(&name) {
                flow.offering = false;
                match flow.state {
                    State::Opening => flow.open.ask(),
                    _ => flow.out.query.ask(),
                }
            }
            self.settle(name);
        }
    }

    /// Offers bytes that wait beyond the credit, if the peer may withhold.
    pub(in crate::hop) fn offer_waiting(&mut self, name: FlowName) {
        if !self.config.withhold {
            return;
        }
        if let Some(flow) = self.flows.get_mut(&name).filter(|flow| flow.is_sending()) {
            flow.out.offer_waiting();
        }
    }

    /// Applies the configured withholding to all flows from now on.
    pub(in crate::hop) fn set_withholding(&mut self) {
        let names: Vec<FlowName> = self.flows.keys().copied().collect();
        for name in names {
            let withhold = self.config.withhold;
            let Some(flow) = self.flows.get_mut(&name) else { continue };
            let credit = flow.inc.credit();
            match (&mut flow.inc.withheld, withhold) {
                (held @ None, true) => *held = Some(Held { until: credit.max(FLOOR), ..Held::default() }),
                (held @ Some(_), false) => {
                    *held = None;
                    flow.inc.receipt_now = true;
                }
                _ => {}
            }
            self.settle(name);
        }
    }
}

impl Flow {
    /// Whether relays lie before or behind, so that its sender takes turns although no other asks.
    fn goes_in_turns(&self) -> bool {
        self.inc.ahead.is_some() || self.across.is_some()
    }
    /// Whether its Open, or its Offer of waiting bytes, left and may not have arrived.
    pub(in crate::hop) fn is_offering(&self) -> bool {
        match self.state {
            State::Opening => self.open.flying(),
            _ => self.is_sending() && self.out.is_waiting_unheard(),
        }
    }
    /// Whether its sender asked for nothing and may have more to send.
    pub(in crate::hop) fn is_quiet(&self) -> bool {
        let held = self.inc.withheld.is_some_and(|held| held.asked.is_none() && !held.granted);
        self.state == State::Open && held && !self.inc.is_complete()
    }
}

impl Ahead {
    /// Whether another turn would take air from the bytes of the last one.
    fn holds_up(&self, now: Instant) -> bool {
        !self.onward.clear && self.at.is_none_or(|at| now.since(at) < STUCK)
    }
    /// A turn up to `until` was granted: what lies ahead is looked at anew once it was read.
    fn begin_turn(&mut self, until: u64) {
        self.at = self.at.filter(|_| !self.onward.clear);
        self.onward = Onward { receipted: self.onward.receipted, ..Onward::default() };
        self.whole_at = Some(until);
    }
}

impl Incoming {
    /// Whether all that its sender may send without asking is here, and it did not ask.
    pub(in crate::hop) fn is_short(&self) -> bool {
        self.withheld.is_some_and(|held| held.asked.is_none() && !held.granted && self.cumulative() >= held.until)
    }
    /// The peer offers bytes up to `end`. Returns whether they need a grant.
    pub(in crate::hop) fn asks(&mut self, end: u64) -> bool {
        self.withheld.as_mut().is_some_and(|held| held.ask(end))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a document that cannot be read should stop the test")]
    use super::*;

    fn state(held: Held) -> &'static str {
        match (held.granted, held.asked) {
            (true, _) => "granted",
            (false, Some(_)) => "asking",
            (false, None) => "free",
        }
    }

    /// The table in `docs/protocol/hop.md`, "Ack withholding": a row's state, and the next states in its last column.
    #[test]
    fn the_document_says_what_follows_each_state() {
        let document = include_str!("../../../../../docs/protocol/hop.md");
        let (_, table) = document.split_once("| state of a direction at its receiver |").unwrap();
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let printed: Vec<(&str, Vec<&str>)> = rows
            .map(|row| {
                let columns: Vec<&str> = row.split('|').map(str::trim).collect();
                let (_, next) = columns[3].rsplit_once(':').unwrap();
                let next = next.split(|c: char| !c.is_alphabetic());
                (columns[1], next.filter(|word| ["free", "asking", "granted"].contains(word)).collect())
            })
            .collect();

        let asks = |mut held: Held, end| {
            assert!(held.ask(end));
            held
        };
        let filled = |mut held: Held| {
            assert!(!held.take_filled(held.until - 1) && held.take_filled(held.until) && !held.take_filled(held.until));
            held
        };
        let (free, granted) = (Held::default(), Held::grant(100_000));
        let asking = asks(free, 50_000);
        assert_eq!(state(asks(asking, 60_000)), "asking");
        assert_eq!(state(asks(granted, 200_000)), "granted", "what was granted comes first");
        let next = [
            (state(free), vec![state(asking)]),
            (state(asking), vec![state(granted)]),
            (state(granted), vec![state(filled(granted)), state(filled(asks(granted, 200_000)))]),
        ];
        assert_eq!(printed, next);
    }
}
