//! The lanes at the bottleneck, what their applications offer, and their private ways back.

use super::{What, World};
use crate::Controller;
use crate::lane::{Came, LaneConfig, LaneReceiver, LaneSender, Outcome, Probe, Room, SENT_MIN};
use std::collections::BTreeMap;
use wavelane_base::{Carrier, Class, Ecn, Instant, Octets, Span, Wakeup};

const OVERHEAD: usize = 28;
/// A lane ack alone in a datagram, as an IP packet.
pub(super) const ACK_BYTES: u64 = 84;

/// What the application of a lane offers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum App {
    Silent,
    Greedy,
    /// This many bytes every so often.
    Chunks {
        bytes: u64,
        every: Span,
    },
}

pub(crate) struct Lane {
    pub(crate) sender: LaneSender<u64>,
    receiver: LaneReceiver,
    pub(crate) app: App,
    next_chunk: Instant,
    backlog: u64,
    wake: Option<Wakeup>,
    reverse_free: Instant,
    /// What came back.
    pub(super) came: Came,
    /// IP bytes that arrived, per 100 ms.
    pub(crate) arrived: Vec<u64>,
    pub(crate) offered_packets: u64,
    pub(crate) dropped_packets: u64,
    pub(crate) outcomes: BTreeMap<u64, bool>,
    pub(crate) keep_outcomes: bool,
    pub(crate) last_arrival: Instant,
    pub(crate) tail_probes: u64,
}

impl Lane {
    /// When it wants to act next, whatever arrives.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let chunk = (self.next_chunk > now && matches!(self.app, App::Chunks { .. })).then_some(self.next_chunk);
        self.wake.map(|wake| wake.at).into_iter().chain(chunk).min()
    }
}

impl World {
    pub(crate) fn add_lane(&mut self, controller: Controller, app: App) -> usize {
        let config = LaneConfig {
            lane: self.lanes.len() as u8,
            controller,
            start_rate: None,
            carrier: Carrier { mtu_max: 1500, ..Carrier::default() },
            sent_max: SENT_MIN,
        };
        self.lanes.push(Lane {
            sender: LaneSender::new(self.now, config),
            receiver: LaneReceiver::new(config.lane),
            app,
            next_chunk: self.now,
            backlog: 0,
            wake: None,
            reverse_free: self.now,
            came: Came::default(),
            arrived: Vec::new(),
            offered_packets: 0,
            dropped_packets: 0,
            outcomes: BTreeMap::new(),
            keep_outcomes: false,
            last_arrival: self.now,
            tail_probes: 0,
        });
        self.lanes.len() - 1
    }

    /// Lets every lane act whose time has come.
    pub(super) fn wake_lanes(&mut self) {
        for i in 0..self.lanes.len() {
            let remote = self.remote(self.now);
            let lane = &mut self.lanes[i];
            lane.receiver.handle_timeout(remote);
            let due = lane.wake.is_some_and(|w| w.at <= self.now);
            let chunk = lane.next_chunk <= self.now && matches!(lane.app, App::Chunks { .. });
            if due {
                lane.sender.handle_timeout(self.now);
            }
            if due || chunk || lane.receiver.ack_due(remote) {
                self.pump(i);
            }
        }
    }

    pub(super) fn arrive(&mut self, i: usize, number: u64, bytes: u64, eliciting: bool) {
        let remote = self.remote(self.now);
        let slot = (self.time() * 10.0) as usize;
        let lane = &mut self.lanes[i];
        if lane.arrived.len() <= slot {
            lane.arrived.resize(slot + 1, 0);
        }
        lane.arrived[slot] += bytes;
        lane.last_arrival = self.now;
        lane.receiver.received(remote, remote, number, Ecn::NotEct, eliciting, false);
        if lane.receiver.ack_due(remote) {
            self.pump(i);
        }
    }

    pub(super) fn pump(&mut self, i: usize) {
        self.send_acks(i);
        loop {
            let now = self.now;
            let lane = &mut self.lanes[i];
            while let Some(outcome) = lane.sender.poll_outcome() {
                let (number, delivered) = match outcome {
                    Outcome::Delivered(n) => (n, true),
                    Outcome::Lost(n) => (n, false),
                };
                if lane.keep_outcomes {
                    assert!(lane.outcomes.insert(number, delivered).is_none(), "two outcomes for {number}");
                }
            }
            if let App::Chunks { bytes, every } = lane.app
                && now >= lane.next_chunk
            {
                lane.backlog += bytes;
                lane.next_chunk += every;
            }
            match lane.sender.poll_probe(now) {
                Some(Probe::Tail) => {
                    lane.tail_probes += 1;
                    self.transmit(i, 60);
                    continue;
                }
                Some(Probe::Mtu { datagram }) => {
                    let number = lane.sender.next_number();
                    lane.sender.sent_mtu_probe(now, datagram);
                    self.carry(i, number, (datagram + OVERHEAD) as u64, true);
                    continue;
                }
                Some(Probe::AckRequest) | None => {}
            }
            let wants = lane.app == App::Greedy || lane.backlog > 0;
            match lane.sender.room(now, Class::Bulk) {
                Room::Open { datagram_max } if wants => {
                    let size =
                        if lane.app == App::Greedy { datagram_max } else { datagram_max.min(lane.backlog as usize) };
                    lane.backlog = lane.backlog.saturating_sub(size as u64);
                    self.transmit(i, size);
                }
                Room::Open { .. } | Room::Closed => break,
            }
        }
        let local = self.remote_wake(i);
        let timer = self.link.timer.as_nanos();
        let late = |w: Wakeup| Wakeup { at: Instant::from_nanos(w.at.as_nanos().div_ceil(timer) * timer), ..w };
        self.lanes[i].wake = Wakeup::earliest(self.lanes[i].sender.poll_timeout(), local).map(late);
        assert!(self.lanes[i].wake.is_none_or(|w| w.at > self.now), "stale deadline {:?}", self.lanes[i].wake);
    }

    /// The receiver's deadline on our clock, rounded up by the drift.
    fn remote_wake(&self, i: usize) -> Option<Wakeup> {
        let wake = self.lanes[i].receiver.poll_timeout()?;
        let wait = wake.at.since(self.remote(self.now)) + Span::from_micros(1);
        Some(Wakeup { at: self.now + wait, cause: wake.cause })
    }

    fn transmit(&mut self, i: usize, datagram: usize) {
        let lane = &mut self.lanes[i];
        let number = lane.sender.next_number();
        let app_limited = lane.app != App::Greedy && lane.backlog == 0;
        lane.sender.sent(self.now, datagram, true, app_limited, number);
        self.carry(i, number, (datagram + OVERHEAD) as u64, true);
    }

    fn send_acks(&mut self, i: usize) {
        let remote = self.remote(self.now);
        let lane = &mut self.lanes[i];
        if let Some((packets, delay)) = lane.sender.ack_wish() {
            lane.receiver.wish(packets, delay);
            lane.sender.wish_sent(self.now);
        }
        if !lane.receiver.ack_due(remote) {
            return;
        }
        if let Some(ack) = lane.receiver.take_ack(remote, 32) {
            lane.reverse_free =
                lane.reverse_free.max(self.now) + self.link.reverse_rate.time_for(Octets::new(ACK_BYTES));
            let at = lane.reverse_free + self.link.delay;
            if !self.link.outage && !self.lost(1, self.link.ack_loss) {
                self.post(at, What::Ack { lane: i, ack });
            }
        }
    }
}
