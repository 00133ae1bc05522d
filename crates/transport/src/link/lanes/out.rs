//! One lane out: what is known of it, and whether what it is given arrives.

use crate::PathView;
use crate::lane::{LaneConfig, LaneSender};
use crate::link::guard::Guard;
use crate::link::path::Skips;
use crate::link::{FATES_KNOWN_MIN, LOSS_UNKNOWN, LaneOptions, SentDatagram};
use wavelane_base::{Entropy, Instant, Octets, Span};

/// A slow lane takes bulk nevertheless if a packet takes it no longer than this: so late bytes cost nobody anything, and a lane that
/// nothing is given never shows that it carries more than was thought.
pub(super) const QUICK_PACKET: Span = Span::from_millis(20);
/// Octets that a lane may have in flight, beside as many as it has delivered.
const UNTRIED_OCTETS: u64 = 2 * 1_500;
/// A lane that loses this share is taken for one that will again for so long.
const SHAKY_LOSS: f64 = 0.02;
const SHAKY_LOSSY_FOR: Span = Span::from_secs(10);

/// One way out.
#[derive(Debug)]
pub(in crate::link) struct Lane<L> {
    pub(in crate::link) sender: LaneSender<SentDatagram<L>>,
    /// Repair symbols for what leaves by it.
    pub(in crate::link) guard: Guard<L>,
    /// What was last known of its path.
    pub(in crate::link) path: PathView,
    /// The lowest round trip of late.
    pub(super) rtt_min: Span,
    pub(in crate::link) challenge: Option<[u8; 8]>,
    pub(in crate::link) skips: Skips,
    /// The neighbour must see a datagram of this lane's soon.
    pub(in crate::link) ping: bool,
    pub(super) overhead: usize,
    /// What it carries costs.
    pub(super) metered: bool,
    /// Whether it may carry bulk.
    pub(super) bulk: bool,
    /// Whether it carries acks and what is small while others that do work.
    pub(super) small: bool,
    /// Its place in the configuration; one that was made for the neighbour's stands behind those.
    pub(super) place: usize,
    /// It was taken away: it carries nothing, and its number stays its own.
    pub(super) closed: bool,
    /// The policy has it carry nothing now.
    pub(super) spare: bool,
    /// Whether a round trip was measured.
    pub(super) measured: bool,
    /// What it carried was given to the other lanes, because nothing comes back.
    pub(super) failed: bool,
    /// Its port takes nothing now.
    pub(in crate::link) blocked: bool,
    /// There is nothing behind its port.
    pub(super) unplugged: bool,
    /// When the last datagram left by it that asks for an answer.
    pub(super) asked_at: Instant,
    /// When the last datagram left by it.
    pub(super) sent_at: Instant,
    /// When acks last left by it.
    pub(super) acks_at: Instant,
    /// Bulk on it arrived late: it takes none until then.
    pub(super) late_until: Instant,
    /// It is likely to lose what is small until then.
    pub(super) shaky_until: Instant,
    /// Whether something left that asks for an answer, and when the last padded ping did.
    pub(super) asked: bool,
    pub(super) gauge_at: Option<Instant>,
}

impl<L> Lane<L> {
    pub(super) fn new(now: Instant, id: u8, options: &LaneOptions, sent_max: usize, dice: Entropy) -> Self {
        let LaneOptions { controller, start_rate, mtu_max, overhead, metered, bulk, small } = *options;
        Self {
            sender: LaneSender::new(now, LaneConfig { lane: id, controller, start_rate, mtu_max, overhead, sent_max }),
            guard: Guard::default(),
            path: PathView { lane: id, ..PathView::default() },
            rtt_min: Span::MAX,
            challenge: None,
            skips: Skips::new(dice),
            ping: false,
            overhead,
            metered,
            bulk,
            small,
            place: usize::from(id),
            closed: false,
            spare: false,
            measured: false,
            failed: false,
            blocked: false,
            unplugged: false,
            asked_at: now,
            sent_at: now,
            acks_at: now,
            late_until: now,
            shaky_until: now,
            asked: false,
            gauge_at: None,
        }
    }

    pub(in crate::link) fn set_overhead(&mut self, overhead: usize) {
        self.overhead = overhead;
        self.sender.set_overhead(overhead);
    }

    pub(in crate::link) fn overhead(&self) -> usize {
        self.overhead
    }

    /// Whether there is something behind its port, which has room if it is another than before; returns whether that is news.
    pub(in crate::link) fn set_there(&mut self, there: bool) -> bool {
        if self.unplugged != there && self.blocked != there {
            return false;
        }
        (self.unplugged, self.blocked) = (!there, !there);
        self.ping |= there && !self.closed;
        true
    }

    pub(in crate::link) fn has_failed(&self) -> bool {
        self.failed
    }

    pub(in crate::link) fn restart(&mut self, now: Instant) {
        self.sender.restart(now);
        self.guard = Guard::default();
        self.challenge = None;
        (self.measured, self.failed) = (false, false);
        (self.asked, self.gauge_at) = (false, None);
        self.path = PathView { lane: self.path.lane, ..PathView::default() };
        self.rtt_min = Span::MAX;
    }

    /// It is taken away. What it knows of its path goes, its numbers stay.
    pub(super) fn close(&mut self, now: Instant) {
        self.restart(now);
        (self.closed, self.ping, self.spare) = (true, false, false);
    }

    /// It is there again, as another way perhaps.
    pub(super) fn open_again(&mut self, now: Instant, options: &LaneOptions) {
        let LaneOptions { controller, start_rate, mtu_max, overhead, metered, bulk, small } = *options;
        self.sender.set_up(controller, start_rate, mtu_max);
        self.set_overhead(overhead);
        self.restart(now);
        (self.metered, self.bulk, self.small) = (metered, bulk, small);
        (self.closed, self.ping, self.blocked) = (false, true, false);
        (self.asked_at, self.sent_at, self.acks_at, self.late_until) = (now, now, now, now);
    }

    pub(in crate::link) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(in crate::link) fn note_sent(&mut self, now: Instant, eliciting: bool) {
        self.ping = false;
        self.sent_at = now;
        if eliciting {
            self.asked_at = now;
            self.asked = true;
        }
    }

    pub(in crate::link) fn gauge_sent(&mut self, now: Instant) {
        self.gauge_at = Some(now);
    }

    /// Looks at the path anew. `inbound` is the loss of the way to us, `plural` whether there are other lanes: what is assumed of
    /// one that is alone harms nobody.
    pub(in crate::link) fn look(&mut self, now: Instant, inbound: f64, plural: bool) {
        let view = self.sender.path(now);
        let Some(rtt) = view.rtt else { return };
        let known = view.delivered_packets + view.lost_packets >= FATES_KNOWN_MIN;
        let own = if known { view.loss } else { view.loss.max(LOSS_UNKNOWN) };
        let loss = inbound.max(own);
        self.measured = true;
        if known && view.loss >= SHAKY_LOSS {
            self.shaky_until = self.shaky_until.max(now + SHAKY_LOSSY_FOR);
        }
        let bound = self.sender.gauged_rate().filter(|_| plural);
        let rate = bound.map_or(view.rate, |bound| bound.min(view.rate));
        self.rtt_min = view.rtt_min.unwrap_or(rtt);
        self.path = PathView {
            lane: self.path.lane,
            rtt,
            rtt_var: view.rtt_var,
            rate,
            ack_delay: self.sender.ack_delay(),
            told_apart: self.path.told_apart,
            packet_time: rate.time_for(Octets::new(view.path_mtu as u64)),
            path_mtu: view.path_mtu,
            window: Octets::new(view.window),
            loss,
            loss_outward: if known { view.loss } else { loss },
            burst: view.burst,
            symbols: Span::ZERO,
        };
    }

    /// How long a full packet takes to arrive if it leaves now, repeats included.
    pub(super) fn delay(&self) -> Span {
        let path = &self.path;
        let repeats = Span::from_nanos((path.rtt.as_nanos() as f64 * 2.0 * path.loss_outward) as u64);
        // The queue, as far as there is one, lies on the way out.
        path.rtt.saturating_sub(self.rtt_min.min(path.rtt).scale(1, 2)) + path.packet_time + repeats
    }

    /// Whether it may take one more packet: the rate of a lane that has carried little is a guess, and what a slow one takes
    /// holds up all that follows. What is in flight may double with each round trip.
    pub(super) fn is_trusted(&self) -> bool {
        self.sender.in_flight() < UNTRIED_OCTETS + self.sender.delivered_bytes()
    }

    /// Whether a full packet is known to take it no longer than [`QUICK_PACKET`]: as much may be in flight as if it were alone.
    pub(super) fn is_quick(&self) -> bool {
        self.sender.is_gauged() && self.path.packet_time <= QUICK_PACKET
    }

    /// Whether the policy has it carry nothing now.
    pub(in crate::link) fn is_spare(&self) -> bool {
        self.spare
    }

    /// Whether it may carry bulk.
    pub(in crate::link) fn carries_bulk(&self) -> bool {
        self.bulk
    }

    /// Whether tail probes see to the answer that is due, and would be put off by another question: on a lane of which nothing was
    /// ever heard, whose first probe takes longest, by any policy.
    pub(super) fn awaits_probe(&self, bond: bool) -> bool {
        (bond || !self.measured) && self.sender.awaits_answer()
    }

    /// Whether nothing is known of it: it may or may not carry anything.
    pub(super) fn is_unknown(&self) -> bool {
        !self.measured && !self.failed
    }

    /// Whether what it is given can be expected to arrive.
    pub(super) fn works(&self) -> bool {
        self.measured && !self.failed && !self.blocked
    }
}
