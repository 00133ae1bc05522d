//! The times of the repeat machine, from what the lane knows of its path.

use wavelane_base::Span;
use wavelane_base::maths::power;
use wavelane_transport::PathView;

/// The timer may always be this long (the flat cap of the 1998 design).
const TIMER_FLOOR_CAP: Span = Span::from_millis(100);
/// Slack of the timer: scheduling at both ends.
const TIMER_SLACK: Span = Span::from_millis(5);
/// The timer before the round trip is known (as RFC 6298, section 2.1).
const TIMER_UNKNOWN: Span = Span::from_secs(1);
/// The round trip assumed for order before it is known (RFC 9002, section 6.2.2): the first window of the first
/// connection is where disorder costs most.
const RTT_UNKNOWN: Span = Span::from_millis(333);
/// The longest a packet is held for an earlier one.
pub(super) const HOLD_MAX: Span = Span::from_secs(2);
/// A packet is repeated for at least this long after it was first sent: what carries a transport, until that may have
/// repeated it itself (Linux's shortest timeout) ...
const PERSISTENCE_MIN: Span = Span::from_millis(200);
/// ... and what stands alone, until its application has (RFC 8085, section 3.1.1: a second or more), also if the first
/// repeat waited for the timer of an unknown round trip and was lost again ...
const PERSISTENCE_ALONE_MIN: Span = Span::from_secs(2);
/// ... and for this many round trips: past that its transport has repeated it itself.
const PERSISTENCE_RTTS: u64 = 3;
/// Media that come so much later than they should are worthless: a play-out buffer that waits for them makes conversation
/// hard (ITU-T G.114, section 4: 150 ms). A repeat takes the same way, so it is late by the packet's age when it leaves.
pub(super) const MEDIA_LATE_MAX: Span = Span::from_millis(150);
/// A repeat is sent as often as it takes for a packet not to arrive, with no more than this probability, in the time in
/// which order is held for it: a hole that outlives that costs CUBIC a third of its window for seconds.
const RESIDUAL: f64 = 2e-5;
/// Repeats for which the order of transports is held.
const ROUNDS_HELD: i32 = 2;
/// From this share of losses on, a transport's round trip is as long as the hold makes it.
const LOSSY_MIN: f64 = 0.003;
/// Most sendings of one repeat.
const COPIES_MAX: u8 = 3;

/// What the lane knows of its path, as the repeat machine uses it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Times {
    /// Smoothed round-trip time, once measured.
    pub rtt: Option<Span>,
    /// Its variation.
    pub rtt_var: Span,
    /// Longest time the neighbour keeps an ack back.
    pub ack_delay: Span,
    /// Serialisation of one full packet at the lane's rate.
    pub packet_time: Span,
    /// Share of datagrams lost recently, 0 to 1.
    pub loss: f64,
    /// How long the channel stays bad when it is bad.
    pub burst: Span,
    /// How long after a loss is known repair symbols may still bring media back.
    pub symbols: Span,
}

impl From<&PathView> for Times {
    fn from(path: &PathView) -> Self {
        Self {
            rtt: Some(path.rtt),
            rtt_var: path.rtt_var,
            ack_delay: path.ack_delay,
            packet_time: path.packet_time,
            // Copies are for the losses of our own direction, once they are known.
            loss: path.loss_outward,
            burst: path.burst.unwrap_or_default(),
            symbols: path.symbols,
        }
    }
}

impl Times {
    /// A quarter more than a round trip, the ack's delay and a datagram in service: when an answer is overdue.
    fn overdue(&self, rtt: Span) -> Span {
        rtt.scale(5, 4) + self.ack_delay + self.packet_time
    }

    /// After how long without any news of a packet it is repeated.
    pub(super) fn timer(&self) -> Span {
        let Some(rtt) = self.rtt else { return TIMER_UNKNOWN };
        let expected = rtt.scale(5, 4).max(rtt + self.rtt_var.times(4)) + self.ack_delay + self.packet_time;
        (expected + TIMER_SLACK).min(self.overdue(rtt).max(TIMER_FLOOR_CAP))
    }

    /// How long a packet is held for an earlier one: one repeat's way.
    pub(super) fn hold(&self) -> Span {
        self.overdue(self.rtt.unwrap_or(RTT_UNKNOWN)).min(HOLD_MAX)
    }

    /// The same for what takes disorder for loss: if its repeat is lost too, the next one's way.
    pub(super) fn hold_strict(&self) -> Span {
        self.rtt.map_or(self.hold(), |rtt| self.overdue(rtt).times(ROUNDS_HELD as u64).min(HOLD_MAX))
    }

    /// The round trip as transports inside see it: with order held wherever there is loss.
    pub(crate) fn inner_rtt(&self) -> Option<Span> {
        self.rtt.map(|rtt| if self.loss > LOSSY_MIN { rtt + self.hold() } else { rtt })
    }

    /// How long after its first sending a packet is still repeated: one of a transport, or one that stands alone.
    pub(super) fn persistence(&self, alone: bool) -> Span {
        let round = self.rtt.map_or(TIMER_UNKNOWN, |rtt| self.overdue(rtt));
        round.times(PERSISTENCE_RTTS).max(if alone { PERSISTENCE_ALONE_MIN } else { PERSISTENCE_MIN })
    }

    /// How often a repeat is sent, if the budget allows.
    pub(super) fn copies(&self) -> u8 {
        let residual = |n: u8| power(self.loss, f64::from(ROUNDS_HELD * i32::from(n) + 1));
        (1..COPIES_MAX).find(|n| residual(*n) <= RESIDUAL).unwrap_or(COPIES_MAX)
    }

    /// How far apart: past the burst that may swallow one, within what the hold leaves.
    pub(super) fn copy_spacing(&self) -> Span {
        let most = self.rtt.unwrap_or(Span::ZERO).scale(1, 16).max(Span::from_millis(2));
        self.burst.clamp(Span::from_millis(1), most)
    }
}
