//! One lane out: its measured path, and whether what it is given arrives.

use super::worth::Worth;
use crate::PathView;
use crate::lane::{LaneConfig, LaneSender};
use crate::link::echo::Echoes;
use crate::link::guard::Guard;
use crate::link::path::Skips;
use crate::link::{FATES_KNOWN_MIN, LOSS_UNKNOWN, LaneOptions, SentDatagram};
use wavelane_base::{Carrier, Entropy, Instant, Octets, Span};
use wavelane_wire::frame::LaneAck;

/// A slow lane still takes bulk if a packet takes no longer than this: bytes that late do no harm, and a lane that is given nothing never
/// shows that its rate is higher than estimated.
pub(super) const QUICK_PACKET: Span = Span::from_millis(20);
/// Octets that a lane may have in flight, in addition to the amount it has delivered.
const UNTRIED_OCTETS: u64 = 2 * 1_500;
/// Octets of a small exchange, with encapsulation.
const SMALL_OCTETS: u64 = 300;
/// A lane with this loss is assumed to stay that lossy for this long.
pub(super) const SHAKY_LOSS: f64 = 0.02;
const SHAKY_LOSSY_FOR: Span = Span::from_secs(10);

/// One lane out.
#[derive(Debug)]
pub(in crate::link) struct Lane<L> {
    pub(in crate::link) sender: LaneSender<SentDatagram<L>>,
    /// Repair symbols for packets sent on it.
    pub(in crate::link) guard: Guard<L>,
    /// Its path as last measured.
    pub(in crate::link) path: PathView,
    /// The lowest recent round trip.
    pub(super) rtt_min: Span,
    /// What is taken for the way back of acks, the same of all lanes.
    pub(super) back: Span,
    pub(in crate::link) challenge: Option<[u8; 8]>,
    /// The echoes that its next datagrams make, one each.
    pub(in crate::link) echoes: Echoes,
    pub(in crate::link) skips: Skips,
    /// The neighbour must see a datagram of this lane soon.
    pub(in crate::link) ping: bool,
    pub(super) overhead: usize,
    /// Traffic on it costs money.
    pub(super) metered: bool,
    /// Whether that is so at our end, and whether the neighbour says so of its own.
    pub(in crate::link) costs: bool,
    told: bool,
    /// Whether it may carry bulk.
    pub(super) bulk: bool,
    /// Whether it carries acks and small packets while other lanes that do so work.
    pub(super) small: bool,
    /// Its position in the configuration; lanes made to match the neighbour's come after those.
    pub(super) place: usize,
    /// It was removed: it carries nothing, and keeps its number.
    pub(super) closed: bool,
    /// The policy has it carry nothing now.
    pub(super) spare: bool,
    /// It loses so much of what it is given that bulk on it costs the other lanes more than it carries.
    pub(super) useless: bool,
    worth: Worth,
    /// Whether a round trip was measured.
    pub(super) measured: bool,
    /// Its packets in flight were moved to the other lanes, because no answer comes back.
    pub(super) failed: bool,
    /// Its port takes nothing now.
    pub(in crate::link) blocked: bool,
    /// Its datagrams may leave octets open for others to overhear.
    pub(in crate::link) may_be_open: bool,
    /// There is nothing behind its port.
    pub(super) unplugged: bool,
    /// When the last datagram that asks for an answer left by it.
    pub(super) asked_at: Instant,
    /// When the last datagram left by it.
    pub(super) sent_at: Instant,
    /// When acks last left by it.
    pub(super) acks_at: Instant,
    /// Bulk on it arrived late: it takes none until this time.
    pub(super) late_until: Instant,
    /// It is likely to lose small packets until this time.
    pub(super) shaky_until: Instant,
    /// Whether something that asks for an answer was sent, and when the last padded ping was.
    pub(super) asked: bool,
    pub(super) gauge_at: Option<Instant>,
    /// An ack that leaves by this lane although another carries the acks.
    pub(in crate::link) ack_copy: Option<LaneAck>,
}

impl<L> Lane<L> {
    pub(super) fn new(now: Instant, id: u8, options: &LaneOptions, sent_max: usize, dice: Entropy) -> Self {
        let LaneOptions { controller, start_rate, carrier, metered, bulk, small } = *options;
        Self {
            sender: LaneSender::new(now, LaneConfig { lane: id, controller, start_rate, carrier, sent_max }),
            guard: Guard::default(),
            path: PathView { lane: id, ..PathView::default() },
            rtt_min: Span::MAX,
            back: Span::ZERO,
            challenge: None,
            echoes: Echoes::default(),
            skips: Skips::new(dice),
            ping: false,
            overhead: carrier.overhead,
            metered,
            costs: metered,
            told: false,
            bulk,
            small,
            place: usize::from(id),
            closed: false,
            spare: false,
            useless: false,
            worth: Worth::default(),
            measured: false,
            failed: false,
            blocked: false,
            may_be_open: false,
            unplugged: false,
            asked_at: now,
            sent_at: now,
            acks_at: now,
            late_until: now,
            shaky_until: now,
            asked: false,
            gauge_at: None,
            ack_copy: None,
        }
    }

    pub(in crate::link) fn set_carrier(&mut self, carrier: Carrier) {
        self.overhead = carrier.overhead;
        self.sender.set_carrier(carrier);
    }

    pub(in crate::link) fn overhead(&self) -> usize {
        self.overhead
    }

    /// Sets whether there is a device behind its port; a new one has room. Returns whether that changed anything.
    pub(in crate::link) fn set_there(&mut self, there: bool) -> bool {
        if self.unplugged != there && self.blocked != there {
            return false;
        }
        self.unplugged = !there;
        self.blocked = !there;
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
        self.echoes = Echoes::default();
        self.measured = false;
        self.failed = false;
        self.asked = false;
        self.gauge_at = None;
        self.ack_copy = None;
        self.path = PathView { lane: self.path.lane, ..PathView::default() };
        self.rtt_min = Span::MAX;
    }

    /// Sets whether its traffic costs money at our end.
    pub(super) fn set_costs(&mut self, costs: bool) {
        self.costs = costs;
        self.metered = self.costs || self.told;
    }

    /// Sets whether it does at the neighbour's. Returns whether that is new.
    pub(super) fn set_told(&mut self, told: bool) -> bool {
        let before = core::mem::replace(&mut self.told, told);
        self.metered = self.costs || self.told;
        before != told
    }

    pub(in crate::link) fn is_metered(&self) -> bool {
        self.metered
    }

    /// Removes the lane. Path state is discarded, packet numbers continue.
    pub(super) fn close(&mut self, now: Instant) {
        self.restart(now);
        self.closed = true;
        self.ping = false;
        self.spare = false;
        self.useless = false;
    }

    /// Restores the lane, possibly over another path.
    pub(super) fn open_again(&mut self, now: Instant, options: &LaneOptions) {
        let LaneOptions { controller, start_rate, carrier, metered, bulk, small } = *options;
        self.set_carrier(carrier);
        self.sender.set_up(controller, start_rate);
        self.restart(now);
        self.set_costs(metered);
        self.bulk = bulk;
        self.small = small;
        self.closed = false;
        self.ping = true;
        self.blocked = false;
        self.asked_at = now;
        self.sent_at = now;
        self.acks_at = now;
        self.late_until = now;
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

    /// Updates the path view. `inbound` is the loss in our receive direction, `plural` whether there are other lanes: assumptions about a
    /// single lane do no harm.
    pub(in crate::link) fn look(&mut self, now: Instant, inbound: f64, plural: bool) {
        let view = self.sender.path(now);
        let Some(rtt) = view.rtt else { return };
        self.worth.note(view.delivered_packets, view.lost_packets);
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

    /// How long a full packet sent now takes to arrive, retransmits included.
    pub(super) fn delay(&self) -> Span {
        let path = &self.path;
        let repeats = Span::from_nanos((path.rtt.as_nanos() as f64 * 2.0 * path.loss_outward) as u64);
        // Any queue is assumed to be on the outward path. Lanes differ by what their round trips differ.
        path.rtt.saturating_sub(self.back.min(path.rtt)) + path.packet_time + repeats
    }

    /// The same for a small packet.
    pub(in crate::link) fn delay_of_small(&self) -> Span {
        let small = self.path.rate.time_for(Octets::new(SMALL_OCTETS)).min(self.path.packet_time);
        self.delay().saturating_sub(self.path.packet_time) + small
    }

    /// Whether it may take one more packet: the rate of a lane that has delivered little is a guess, and packets on a slow lane hold up all
    /// that follow. The bytes in flight may double with each round trip.
    pub(super) fn is_trusted(&self) -> bool {
        self.sender.in_flight() < UNTRIED_OCTETS + self.sender.delivered_bytes()
    }

    /// Whether a full packet is known to take no longer than [`QUICK_PACKET`]: then as much may be in flight as on a single lane.
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

    /// Whether tail probes handle the answer that is due, and another request would postpone them: by any policy on a lane that was never
    /// measured, whose first probe takes longest.
    pub(super) fn awaits_probe(&self, bond: bool) -> bool {
        (bond || !self.measured) && self.sender.awaits_answer()
    }

    /// Whether it loses so much that it is worth nothing beside a good one.
    pub(super) fn is_worthless(&self) -> bool {
        self.worth.is_useless()
    }

    /// Whether it is unmeasured and has not failed: it may or may not work.
    pub(super) fn is_unknown(&self) -> bool {
        !self.measured && !self.failed
    }

    /// Whether packets sent on it can be expected to arrive.
    pub(super) fn works(&self) -> bool {
        self.measured && !self.failed && !self.blocked
    }
}
