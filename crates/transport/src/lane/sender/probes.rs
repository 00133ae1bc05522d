//! What a lane wants sent of its own: tail probes, requests for acks, path-MTU probes.

use super::LaneSender;
use crate::lane::{Probe, SLOW_PACKET};
use wavelane_base::{Instant, Octets, Span};

/// The first tail probes back off to at most this, so that data flows soon after an outage.
pub(super) const PROBE_INTERVAL_MAX: Span = Span::from_millis(250);
/// On a slow lane tail probes take no more than this share of the rate (as a divisor) ...
const PROBE_SHARE: u64 = 8;
/// ... at this size, which is about that of everything but bulk ...
const PROBE_OCTETS: u64 = 100;
/// ... but are no further apart than this.
const PROBE_INTERVAL_SLOW: Span = Span::from_secs(1);
/// Beside other lanes, the most times that packets sent later put the first tail probe off.
const PUT_OFF_MAX: u64 = 4;
/// The interval on an idle lane.
const PROBE_INTERVAL_RARE: Span = Span::from_secs(5);
/// On a slow lane, while some packets stand in the queue behind the one that was acknowledged, the next ack follows within the time of this
/// many packets, ...
const STALL_PACKETS: u64 = 3;
/// ... this many jitters and this margin, whatever the round trip: most of that is queue, which does not delay one ack after another.
const STALL_JITTERS: u64 = 4;
const STALL_MARGIN: Span = Span::from_millis(100);
/// A lane without large packets searches for a larger MTU only if its round trip is shorter than this, and so is the time that a probe
/// takes as far as a padded ping has shown it ...
const MTU_RTT_MAX: Span = Span::from_millis(400);
/// ... and if none has, only below this: a way back of 9.6 kbit/s would carry nothing else for 1.25 s.
const MTU_RTT_UNGAUGED_MAX: Span = Span::from_millis(150);
/// After this many packets that ask for no ack, one is requested.
const SILENT_PACKETS_MAX: u32 = 32;

impl<R> LaneSender<R> {
    /// Sets whether tail probes may be `PROBE_INTERVAL_RARE` apart, because other lanes carry the data.
    pub fn probe_rarely(&mut self, rarely: bool) {
        self.probe_interval = if rarely { PROBE_INTERVAL_RARE } else { PROBE_INTERVAL_MAX };
    }

    /// Sets the lane idle: probes are at least this far apart.
    pub fn rest(&mut self, apart: Option<Span>) {
        self.rests = apart;
    }

    /// Whether an eliciting packet is in flight.
    pub fn awaits_answer(&self) -> bool {
        self.sent.newest_eliciting().is_some()
    }

    /// Whether the second tail probe follows the first without backoff: other lanes take over the data as soon as this lane is known to
    /// have failed. That may make one due at once.
    pub fn probe_eagerly(&mut self, now: Instant, eagerly: bool) {
        self.probes_eagerly = eagerly;
        self.beside_others = true;
        self.probe_due |= self.probe_time().is_some_and(|at| at <= now);
    }

    /// Unanswered tail probes so far.
    pub fn unanswered_probes(&self) -> u32 {
        self.probes
    }

    /// A packet the lane wants sent now. Each is returned once; not sending it only delays its purpose.
    pub fn poll_probe(&mut self, now: Instant) -> Option<Probe> {
        self.now = now;
        if self.probe_due {
            self.probe_due = false;
            self.last_probe = now;
            self.probes = self.probes.saturating_add(1);
            return Some(Probe::Tail);
        }
        if self.silent_packets >= SILENT_PACKETS_MAX {
            self.silent_packets = 0;
            return Some(Probe::AckRequest);
        }
        if self.searches_mtu()
            && let Some(size) = self.mtu.poll(now)
        {
            return Some(Probe::Mtu { datagram: size - self.config.carrier.overhead });
        }
        None
    }

    /// Whether [`Self::poll_probe`] would return something.
    pub fn probe_waits(&self, now: Instant) -> bool {
        self.probe_due || self.silent_packets >= SILENT_PACKETS_MAX || self.searches_mtu() && self.mtu.waits(now)
    }

    /// Whether the path-MTU search continues: not on a lane without large packets that a probe would fill for long, as its round trip or a
    /// padded ping suggest.
    pub(super) fn searches_mtu(&self) -> bool {
        let full = self
            .gauge
            .bound()
            .map_or(Span::ZERO, |rate| rate.time_for(Octets::new(self.config.carrier.mtu_max as u64)));
        let most = if self.gauge.is_known() { MTU_RTT_MAX } else { MTU_RTT_UNGAUGED_MAX };
        let quick = |rtt: Span| rtt.max(full) < most;
        self.rests.is_none() && self.rtt.smoothed().is_some_and(|rtt| self.sends_large || quick(rtt))
    }

    /// When the next tail probe is due.
    pub(super) fn probe_time(&self) -> Option<Instant> {
        if self.probe_due {
            return None;
        }
        let newest = self.sent.newest_eliciting()?;
        let first = self.rtt.probe_timeout(self.wish.delay().max(self.ack_delay_seen));
        if let Some(apart) = self.rests {
            let last = if self.probes == 0 { newest } else { self.last_probe.max(newest) };
            return Some(last + first.max(apart));
        }
        let wait = match self.probes {
            // Packets that the window still lets out after the last ack must not postpone the probe.
            0 if self.probes_eagerly => {
                let first = self.stall.map_or(first, |stall| stall.min(first));
                return Some(self.waiting_since.map_or(newest, |since| since.min(newest)) + first);
            }
            // What a lane that is dead goes on to send, its own requests for an answer among it, puts the probe off, but not for ever.
            0 if self.beside_others => {
                let latest = self.waiting_since.map_or(newest, |since| since + first.times(PUT_OFF_MAX));
                return Some(newest.min(latest) + first);
            }
            0 => return Some(newest + first),
            n => {
                let doublings = if n == 1 && self.probes_eagerly { 0 } else { n.min(10) };
                first.times(1 << doublings).min(self.probe_interval.max(self.slow_interval()))
            }
        };
        Some(self.last_probe + wait)
    }

    /// The longest time until the next ack, after an ack that leaves a queue of at least a packet on a slow lane.
    pub(super) fn stall_after(&self) -> Option<Span> {
        let packet = self.control.rate().time_for(Octets::new(self.packet_max() as u64));
        let stands = self.control.queue().is_some_and(|queue| queue >= packet);
        let follows = self.sent.in_flight() >= 2 * self.packet_max() as u64;
        let ack = self.wish.delay().max(self.ack_delay_seen) + self.forward.jitter().times(STALL_JITTERS);
        (packet >= SLOW_PACKET && stands && follows).then(|| packet.times(STALL_PACKETS) + ack + STALL_MARGIN)
    }

    /// Interval between tail probes on a slow lane.
    pub(super) fn slow_interval(&self) -> Span {
        if self.rtt.is_supposed() {
            // Nothing is known of its rate except that a handshake took long.
            return PROBE_INTERVAL_SLOW;
        }
        self.control.rate().time_for(Octets::new(PROBE_OCTETS * PROBE_SHARE)).min(PROBE_INTERVAL_SLOW)
    }
}
