//! The timing of ARQ, from what the lane knows of its path.

use wavelane_base::Span;
use wavelane_base::maths::power;
use wavelane_transport::PathView;

/// The timer's cap is never below this (the flat cap of the 1998 design).
const TIMER_FLOOR_CAP: Span = Span::from_millis(100);
/// Timer slack for scheduling at both ends.
const TIMER_SLACK: Span = Span::from_millis(5);
/// The timer before the RTT is known (as RFC 6298, section 2.1).
const TIMER_UNKNOWN: Span = Span::from_secs(1);
/// The RTT assumed for ordering before it is known (RFC 9002, section 6.2.2): reordering costs most in the first window of the
/// first connection.
const RTT_UNKNOWN: Span = Span::from_millis(333);
/// In the preset of 1998 a packet is given up this long after it was first sent: the document gives no time, RFC 3366 (section 5.2) asks for
/// a bound, and a keystroke is worth no more.
pub(super) const PERSISTENCE_1998: Span = Span::from_secs(1);
/// The longest a packet is held for an earlier one.
pub(super) const HOLD_MAX: Span = Span::from_secs(2);
/// A packet is retransmitted for at least this long after it was first sent: one of a transport, until the transport may have
/// retransmitted it itself (Linux's shortest timeout) ...
const PERSISTENCE_MIN: Span = Span::from_millis(200);
/// ... and a standalone one, until its application has (RFC 8085, section 3.1.1: a second or more), also if the first
/// retransmission waited for the timer of an unknown RTT and was lost again ...
const PERSISTENCE_ALONE_MIN: Span = Span::from_secs(2);
/// ... and for this many RTTs: after that its transport has retransmitted it itself.
const PERSISTENCE_RTTS: u64 = 3;
/// Media this much late are worthless: a play-out buffer that waits for them makes conversation hard (ITU-T G.114, section 4: 150
/// ms). A retransmission takes the same path, so it is late by the packet's age when it leaves.
pub(super) const MEDIA_LATE_MAX: Span = Span::from_millis(150);
/// The number of copies of a retransmission keeps the probability that a packet does not arrive within the hold time at or below
/// this: a hole that outlives the hold costs CUBIC a third of its window for seconds.
const RESIDUAL: f64 = 2e-5;
/// Retransmissions for which packets of transports are held in order.
const ROUNDS_HELD: i32 = 2;
/// Above this loss rate, the hold time adds to a transport's RTT.
const LOSSY_MIN: f64 = 0.003;
/// Headers are compressed where a full packet takes at least this long, which is below some 10 Mbit/s: above, 40 octets a packet are worth less than
/// the work. Policy.
const SLOW_FROM: Span = Span::from_micros(1_200);
/// Most transmissions of one retransmission.
const COPIES_MAX: u8 = 3;

/// What the lane knows of its path, as ARQ uses it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Times {
    /// Smoothed round-trip time, once measured.
    pub rtt: Option<Span>,
    /// Its variation.
    pub rtt_var: Span,
    /// Longest ack delay of the neighbour.
    pub ack_delay: Span,
    /// Serialisation of one full packet at the lane's rate.
    pub packet_time: Span,
    /// Share of datagrams lost recently, 0 to 1.
    pub loss: f64,
    /// Duration of a loss burst.
    pub burst: Span,
    /// How long after a detected loss repair symbols may still recover media.
    pub symbols: Span,
}

impl From<&PathView> for Times {
    fn from(path: &PathView) -> Self {
        Self {
            rtt: Some(path.rtt),
            rtt_var: path.rtt_var,
            ack_delay: path.ack_delay,
            packet_time: path.packet_time,
            // Copies counter the losses of our own direction, once they are known.
            loss: path.loss_outward,
            burst: path.burst.unwrap_or_default(),
            symbols: path.symbols,
        }
    }
}

impl Times {
    /// Whether the headers of packets are worth compressing.
    pub(super) fn is_slow(&self) -> bool {
        self.packet_time >= SLOW_FROM
    }

    /// When an answer is overdue: 5/4 RTT plus the ack delay and one datagram in service.
    fn overdue(&self, rtt: Span) -> Span {
        rtt.scale(5, 4) + self.ack_delay + self.packet_time
    }

    /// Time without an ack after which a packet is retransmitted.
    pub(super) fn timer(&self) -> Span {
        let Some(rtt) = self.rtt else { return TIMER_UNKNOWN };
        let expected = rtt.scale(5, 4).max(rtt + self.rtt_var.times(4)) + self.ack_delay + self.packet_time;
        (expected + TIMER_SLACK).min(self.overdue(rtt).max(TIMER_FLOOR_CAP))
    }

    /// In the preset of 1998: the time from the try number `round` to the next. A cap below the RTT would send everything twice.
    pub(super) fn gap_1998(&self, round: u16) -> Span {
        let Some(rtt) = self.rtt else { return TIMER_FLOOR_CAP };
        let doubled = rtt.times(1 << round.min(8)).max(self.overdue(rtt));
        doubled.min(TIMER_FLOOR_CAP.max(rtt + self.packet_time))
    }

    /// How long a packet is held for an earlier one: the time of one retransmission.
    pub(super) fn hold(&self) -> Span {
        self.overdue(self.rtt.unwrap_or(RTT_UNKNOWN)).min(HOLD_MAX)
    }

    /// The same for transports that take reordering for loss: also the next retransmission, if the first is lost too.
    pub(super) fn hold_strict(&self) -> Span {
        self.rtt.map_or(self.hold(), |rtt| self.overdue(rtt).times(ROUNDS_HELD as u64).min(HOLD_MAX))
    }

    /// The RTT as inner transports see it: including the hold time wherever there is loss.
    pub(crate) fn inner_rtt(&self) -> Option<Span> {
        self.rtt.map(|rtt| if self.loss > LOSSY_MIN { rtt + self.hold() } else { rtt })
    }

    /// How long after its first transmission a packet is still retransmitted: one of a transport, or a standalone one.
    pub(super) fn persistence(&self, alone: bool) -> Span {
        let round = self.rtt.map_or(TIMER_UNKNOWN, |rtt| self.overdue(rtt));
        round.times(PERSISTENCE_RTTS).max(if alone { PERSISTENCE_ALONE_MIN } else { PERSISTENCE_MIN })
    }

    /// Number of transmissions of one retransmission, if the budget allows.
    pub(super) fn copies(&self) -> u8 {
        let residual = |n: u8| power(self.loss, f64::from(ROUNDS_HELD * i32::from(n) + 1));
        (1..COPIES_MAX).find(|n| residual(*n) <= RESIDUAL).unwrap_or(COPIES_MAX)
    }

    /// Their spacing: past a loss burst, within what the hold time leaves.
    pub(super) fn copy_spacing(&self) -> Span {
        let most = self.rtt.unwrap_or(Span::ZERO).scale(1, 16).max(Span::from_millis(2));
        self.burst.clamp(Span::from_millis(1), most)
    }
}
