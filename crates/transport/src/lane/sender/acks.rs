//! Acks and losses: what they tell the estimators and the controller, and the fate of packets.

use super::LaneSender;
use crate::LOSSY;
use crate::lane::Outcome;
use crate::lane::control::{AckSample, Newest};
use crate::lane::crowd::Found;
use crate::lane::gauge::Gauge;
use crate::lane::losses::Losses;
use crate::lane::sent::Resolved;
use wavelane_base::{Instant, Span};
use wavelane_wire::frame::LaneAck;

/// A reported ack delay above this is capped.
const ACK_DELAY_MAX: Span = Span::from_secs(1);

impl<R> LaneSender<R> {
    /// Handles a lane ack for this lane. Acks of numbers never sent are ignored, and so is what was acknowledged before.
    pub fn handle_ack(&mut self, now: Instant, ack: &LaneAck) {
        if ack.lane != self.config.lane {
            return;
        }
        self.now = now;
        let before = self.sent.largest_acked();
        let mut settled = Vec::new();
        if !self.sent.acknowledge(now, ack, |resolved, record| settled.push((resolved, record))) {
            return;
        }
        if settled.is_empty() {
            return;
        }
        self.probes = 0;
        self.probe_due = false;
        let waited = self.waiting_since.map_or(Span::ZERO, |since| now.since(since));
        self.waiting_since = (self.sent.largest_acked() < Some(self.last_eliciting)).then_some(now);
        let newest = settled.iter().map(|s| s.0).max_by_key(|r| r.number);
        let newest = newest.filter(|n| before.is_none_or(|b| n.number > b));
        let arrival = newest.map_or(0, |newest| self.arrivals.place(newest.sent_at, ack.arrival_us));
        let mut latest_rtt = None;
        if let Some(newest) = newest {
            let ack_delay = Span::from_micros(ack.ack_delay_us);
            let latest = now.since(newest.sent_at);
            self.ack_delay_seen = ack_delay.min(ACK_DELAY_MAX).max(self.ack_delay_seen.scale(7, 8));
            latest_rtt = Some(latest.saturating_sub(ack_delay));
            // RFC 9002, section 5.1: at least one of the acked packets must be eliciting, not necessarily the newest.
            if settled.iter().any(|s| s.0.eliciting) {
                if self.rtt.smoothed().is_none() {
                    self.wish.suspect(now, latest.saturating_sub(ack_delay));
                }
                self.rtt.sample(now, latest, ack_delay);
                let way = (arrival as i64).wrapping_sub(newest.sent_at.as_nanos() as i64);
                // What left before a move shows the path before.
                let counts = newest.number >= self.moved_at
                    && self.gauge.sample(newest.bytes, latest.saturating_sub(ack_delay), way);
                if counts && self.gauges > 0 && self.gauge.is_known() {
                    self.gauge_in = None;
                    self.control.start_at(self.gauge.first_bound());
                }
            }
            self.forward.sample(now, newest.number, newest.sent_at, arrival);
            let lossy = self.losses.share() > LOSSY;
            if self.crowd.sample(now, latest.saturating_sub(ack_delay), newest.app_limited, lossy) == Found::OwnQueue {
                self.losses.forget_share();
            }
            if let (Some(rtt), Some(forward)) = (latest_rtt, self.forward.newest()) {
                let back = (rtt.as_nanos() as i64).saturating_sub(forward);
                self.wish.sample(now, rtt, back, self.came, self.control.pacing());
            }
        }
        let mut delivered = 0;
        for (resolved, record) in settled {
            delivered += u64::from(resolved.bytes);
            self.resolve(resolved, record);
        }
        self.detect_lost(now);
        let sample = AckSample {
            now,
            newest: newest.map(|n| Newest {
                number: n.number,
                bytes: n.bytes,
                sent_at: n.sent_at,
                arrival,
                end: n.end,
                app_limited: n.app_limited,
            }),
            delivered,
            lost_sent: self.lost_sent.take(),
            waited,
            latest_rtt,
            rtt: self.rtt.smoothed_or_initial(),
            rtt_min: self.rtt.lowest().unwrap_or(self.rtt.smoothed_or_initial()),
            acks_apart: self.wish.apart(self.control.rate()),
            acks_thin: self.wish.thin(),
        };
        self.control.on_ack(&sample, &mut self.forward, &mut self.losses);
        self.stall = self.stall_after().filter(|_| self.waiting_since == Some(now));
        self.pacer.set_rate(now, self.control.pacing());
        self.wish.pace(self.control.pacing(), sample.rtt_min);
        // A shorter round trip may have moved a deadline into the past.
        self.handle_timeout(now);
    }

    pub(super) fn detect_lost(&mut self, now: Instant) {
        let mut settled = Vec::new();
        let rtt = self.rtt.smoothed_or_initial();
        self.sent.detect_lost(now, rtt, self.rtt.loss_delay(), |resolved, record| settled.push((resolved, record)));
        for (resolved, record) in settled {
            self.resolve(resolved, record);
        }
    }

    pub(super) fn resolve(&mut self, resolved: Resolved, record: Option<R>) {
        // Losses at the previous address say nothing about this path's medium, nor do probes about its size.
        let before_move = resolved.number < self.moved_at;
        let elsewhere = resolved.lost && before_move;
        if !elsewhere {
            self.losses.resolved(self.now, &resolved);
            self.control.resolved(&resolved);
        }
        self.gauge_in.take_if(|number| *number == resolved.number);
        let size = resolved.bytes as usize;
        if resolved.mtu_probe {
            if !before_move {
                self.mtu.probed(self.now, size, resolved.lost);
            }
        } else if !elsewhere {
            let could_fall = self.mtu.confirmed() > self.mtu.floor();
            let rtt = self.rtt.smoothed_or_initial();
            let together = [resolved.gap_before, resolved.gap_after].contains(&Some(Span::ZERO));
            let size_lost = self.mtu.resolved(self.now, rtt, size, resolved.lost);
            // A radio has no batches, and loses whole bursts to others' frames.
            let batches_lost =
                self.config.carrier.radio.is_none() && self.mtu.left(self.now, rtt, size, together, resolved.lost);
            if size_lost || batches_lost {
                if could_fall || batches_lost {
                    // Losses due to packet size or to batches say nothing about the medium. At the floor they may as well be due to the rate.
                    self.losses = Losses::default();
                    self.control.path_changed(self.now);
                    self.pacer.set_rate(self.now, self.control.pacing());
                }
                // Beside other lanes this one carries bulk again once a packet of the new size was answered.
                self.gauge = Gauge::after_fall(self.mtu.confirmed());
            }
        }
        if resolved.lost {
            if self.wish_in == Some(resolved.number) {
                self.wish.lost();
            }
            if !resolved.mtu_probe && !elsewhere {
                self.lost_sent = self.lost_sent.max(Some(resolved.sent_at));
            }
            self.lost_packets += u64::from(!resolved.mtu_probe);
        } else {
            self.delivered_packets += 1;
            self.delivered_bytes += u64::from(resolved.bytes);
            if !resolved.app_limited && !resolved.mtu_probe {
                self.gauge.shown(resolved.bytes);
            }
        }
        if let Some(record) = record {
            self.outcomes.push_back(if resolved.lost { Outcome::Lost(record) } else { Outcome::Delivered(record) });
        }
    }

    /// Takes back the record of packet `number` if its fate is unknown: its loss no longer matters to the link. Its fate still counts for
    /// the estimators.
    pub fn take_record(&mut self, number: u64) -> Option<R> {
        self.sent.take_record(number)
    }

    /// Gives up one packet in flight as lost, for other lanes to retransmit: the oldest one not considered before that was sent as late as
    /// `since` requires and whose record is `wanted`. Returns whether there was one.
    pub fn give_up_later(&mut self, since: impl Fn(Instant) -> bool, wanted: impl Fn(&R) -> bool) -> bool {
        let Some((number, record)) = self.sent.take_later(self.given_up, since, wanted) else { return false };
        self.given_up = number + 1;
        self.outcomes.push_back(Outcome::Lost(record));
        true
    }

    /// The same of the oldest packet sent before `before`. Its ack is overdue.
    pub fn give_up_overdue(&mut self, before: Instant, wanted: impl Fn(&R) -> bool) -> bool {
        let taken = self.sent.take_overdue(before, wanted).map(Outcome::Lost);
        let any = taken.is_some();
        self.outcomes.extend(taken);
        any
    }

    /// Gives up all packets in flight as lost, for other lanes to retransmit. Their fate still counts for the estimators.
    pub fn give_up_records(&mut self) {
        self.outcomes.extend(self.sent.take_records().map(Outcome::Lost));
    }

    /// The next outcome. Drain after every `handle_*` and `sent`.
    pub fn poll_outcome(&mut self) -> Option<Outcome<R>> {
        self.outcomes.pop_front()
    }

    pub(super) fn loss_time(&self) -> Option<Instant> {
        self.sent.loss_time(self.rtt.smoothed_or_initial(), self.rtt.loss_delay())
    }
}
