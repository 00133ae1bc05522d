//! The link all share: its policer, its queue, what it loses and delays.

use super::{What, World};
use crate::lane::rival::RIVAL_BYTES;
use wavelane_base::{Instant, Octets, Rate, Span};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    None,
    Random(f64),
    /// Mean time in the good state (no loss) and in the bad one (all lost).
    Bursts {
        good: Span,
        bad: Span,
    },
    /// The same, but in the bad state only this share is lost.
    Fades {
        good: Span,
        bad: Span,
        lost: f64,
    },
}

/// A token bucket that drops what does not conform and delays nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policer {
    pub(crate) rate: Rate,
    pub(crate) depth: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bottleneck {
    pub(crate) rate: Rate,
    pub(crate) queue_bytes: u64,
    pub(crate) policer: Option<Policer>,
    /// One way, after serialisation.
    pub(crate) delay: Span,
    pub(crate) jitter: Span,
    pub(crate) loss: Loss,
    /// On the return path.
    pub(crate) ack_loss: Loss,
    /// Arrivals are seen at the next multiple of this, as by a host that is scheduled so often.
    pub(crate) tick: Span,
    /// A lane's timers end at the next multiple of this, as a kernel's do.
    pub(crate) timer: Span,
    /// Nothing passes, in either direction.
    pub(crate) outage: bool,
    pub(crate) mtu: usize,
    /// Rate of the return path; acks queue there without limit.
    pub(crate) reverse_rate: Rate,
}

impl Bottleneck {
    pub(crate) fn new(mbit: u64, rtt_ms: u64) -> Self {
        Self {
            rate: Rate::from_bps(mbit * 1_000_000),
            queue_bytes: 250_000,
            policer: None,
            delay: Span::from_micros(rtt_ms * 500),
            jitter: Span::ZERO,
            loss: Loss::None,
            ack_loss: Loss::None,
            tick: Span::from_nanos(1),
            timer: Span::from_nanos(1),
            outage: false,
            mtu: 1500,
            reverse_rate: Rate::from_bps(1_000_000_000),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum From {
    Lane { lane: usize, eliciting: bool },
    Rival(usize),
}

#[derive(Clone, Copy)]
pub(super) struct Queued {
    from: From,
    number: u64,
    bytes: u64,
    since: Instant,
}

impl World {
    /// The forward bottleneck.
    pub(super) fn carry(&mut self, lane: usize, number: u64, bytes: u64, eliciting: bool) {
        self.lanes[lane].offered_packets += 1;
        if bytes as usize <= self.link.mtu && !self.enqueue(From::Lane { lane, eliciting }, number, bytes) {
            self.lanes[lane].dropped_packets += 1;
        }
    }

    pub(super) fn pump_rival(&mut self, rival: usize) {
        while let Some(number) = self.rivals[rival].poll(self.now) {
            self.enqueue(From::Rival(rival), number, RIVAL_BYTES);
        }
    }

    /// Whether there was room.
    pub(super) fn enqueue(&mut self, from: From, number: u64, bytes: u64) -> bool {
        if let Some(policer) = self.link.policer {
            let gained = policer.rate.as_bps() as f64 / 8.0 * self.now.since(self.tokens_at).as_secs_f64();
            self.tokens = (self.tokens + gained).min(policer.depth as f64);
            self.tokens_at = self.now;
            if self.tokens < bytes as f64 {
                return false;
            }
            self.tokens -= bytes as f64;
        }
        // The one in service does not count.
        let front = self.waiting.front().map_or(0, |q| q.bytes);
        if self.waiting_bytes - front + bytes > self.link.queue_bytes {
            return false;
        }
        self.waiting.push_back(Queued { from, number, bytes, since: self.now });
        self.waiting_bytes += bytes;
        if self.waiting.len() == 1 {
            self.serve_next();
        }
        true
    }

    fn serve_next(&mut self) {
        if let Some(next) = self.waiting.front() {
            let at = self.now + self.link.rate.time_for(Octets::new(next.bytes));
            self.serve_until(at);
        }
    }

    pub(super) fn served(&mut self) {
        let Queued { from, number, bytes, since } = self.waiting.pop_front().unwrap();
        self.waiting_bytes -= bytes;
        self.waits.push((since, self.now.since(since)));
        self.serve_next();
        if self.link.outage || self.lost(0, self.link.loss) {
            return;
        }
        let jitter = Span::from_nanos(self.chance.below(self.link.jitter.as_nanos() + 1));
        self.last_out = self.last_out.max(self.now + self.link.delay + jitter);
        let tick = self.link.tick.as_nanos();
        let seen = Instant::from_nanos(self.last_out.as_nanos().div_ceil(tick) * tick);
        let what = match from {
            From::Lane { lane, eliciting } => What::Arrive { lane, number, bytes, eliciting },
            From::Rival(rival) => What::RivalArrive { rival, number },
        };
        self.post(seen, what);
    }

    /// `way` is 0 forward and 1 back.
    pub(super) fn lost(&mut self, way: usize, loss: Loss) -> bool {
        match loss {
            Loss::None => false,
            Loss::Random(p) => self.chance.unit() < p,
            Loss::Fades { good, bad, lost } => self.lost(way, Loss::Bursts { good, bad }) && self.chance.unit() < lost,
            Loss::Bursts { good, bad } => {
                let (is_bad, switch_at) = &mut self.gilbert[way];
                while self.now >= *switch_at {
                    *is_bad = !*is_bad;
                    *switch_at += self.chance.exponential(if *is_bad { bad } else { good });
                }
                *is_bad
            }
        }
    }

    /// The link's rate changes, also for the rest of the packet in service.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        if !self.waiting.is_empty() {
            let rest = self.served_at.since(self.now).scale(self.link.rate.as_bps(), rate.as_bps());
            self.serve_until(self.now + rest);
        }
        self.link.rate = rate;
    }

    fn serve_until(&mut self, at: Instant) {
        self.services += 1;
        self.served_at = at;
        self.post(at, What::Served { service: self.services });
    }
}
