//! Finding the rate: from the first train's dispersion, else by doubling until the queue grows or nothing is gained.

use super::{Delay, INITIAL_RATE, PACKET, SERVICE_JITTERS, TRAIN_RATE};
use crate::lane::control::AckSample;
use crate::lane::control::service::Served;
use crate::lane::forward::Forward;
use crate::lane::losses::Losses;
use wavelane_base::{Instant, Octets, Rate, Span};

/// The train is judged over at least this time and this many packets.
const TRAIN_SPAN: Span = Span::from_millis(8);
const TRAIN_PACKETS: u64 = 12;
const TRAIN_BYTES: u64 = TRAIN_PACKETS * PACKET / 2;
const TRAIN_SLOW: Span = Span::from_millis(100);
const TRAIN_SPREAD: u64 = 3;
/// If this many of its packets arrive as fast as they were sent, the link carries the train's rate.
const TRAIN_MOST: u64 = 20;
/// It shows a slower link only if it arrived at less than this share of its sending rate: then a queue dispersed it. A token bucket, or a
/// link faster than the train, passes it unchanged, and startup doubles as if there were no train.
const TRAIN_DRAWN_OUT: (u64, u64) = (3, 4);
/// With a shorter round trip doubling is soon over, and mistaking a token bucket for a fast link costs as much as with a long one.
const TRAIN_RTT_MIN: Span = Span::from_millis(250);
/// The link carries the train's rate for longer than a train if at least this share of the following traffic arrives.
const TRAIN_KEPT: (u64, u64) = (9, 10);
/// The following traffic is judged over this part of a round trip.
const TRAIN_JUDGED_RTT_PART: u64 = 5;
/// While the rate doubles, a queue of this many jitters, up to this part of a round trip, does not end startup.
const STARTUP_JITTERS: u64 = 8;
const STARTUP_RTT_PART: u64 = 8;
/// A queue of this length that grows for this long is overload, even if the application never had more to send than its next few bytes ...
const OVERLOAD: Span = Span::from_millis(250);
/// ... because more is sent than arrives, by at least this ratio.
const OVERLOAD_GROWTH: (u64, u64) = (5, 4);
/// Startup ends after this many rounds in a row with less than [`PLATEAU_GROWTH`].
const PLATEAU_ROUNDS: u32 = 2;
const PLATEAU_SURE: f64 = 0.15;
const PLATEAU_GROWTH: f64 = 1.2;

/// The source of the rate in startup.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Believed {
    /// None but the common start rate, or later measurements.
    Nothing,
    /// The rate of the first train, used for sending since then.
    Train(Instant),
    /// A measurement of the traffic after the train.
    Measured,
}

/// The result of the first train.
enum Train {
    /// It was dispersed: to the rate of the link.
    DrawnOut(Rate),
    /// It was unchanged, and this much of it.
    Unchanged(Rate),
}

impl Delay {
    pub(super) fn startup(
        &mut self,
        sample: &AckSample,
        forward: &Forward,
        losses: &mut Losses,
        queue: Span,
        round_over: bool,
    ) {
        let now = sample.now;
        if self.best.as_bps() == 0
            && let Some(train) = self.train(forward)
        {
            match train {
                Train::DrawnOut(rate) => {
                    self.rate = rate;
                    self.enter_cruise(now, losses);
                    return;
                }
                Train::Unchanged(rate) if self.believed == Believed::Nothing && sample.rtt_min >= TRAIN_RTT_MIN => {
                    self.rate = self.rate.max(rate);
                    self.believed = Believed::Train(now);
                }
                Train::Unchanged(_) => {}
            }
        }
        self.judge_train(sample);
        if let Some(served) = self.service.rate(self.service_window(sample, forward)) {
            // Only the rate that arrives may be doubled: behind a policer any other would grow without bound.
            if !served.app_limited || served.delivered > self.rate {
                self.round_best = self.round_best.max(served.delivered);
                // Never below the start rate: little may have arrived because the medium was bad just then.
                self.rate = self.rate.max(served.delivered);
            }
            // Jitter is only being learnt now, and looks like a queue.
            let doubt = forward.jitter().times(STARTUP_JITTERS).min(sample.rtt_min.scale(1, STARTUP_RTT_PART));
            // A pause of the application is not service: then only the arrivals since count.
            let window = self.service_window(sample, forward);
            let busy = if served.app_limited { self.service.busy_rate(window, TRAIN_PACKETS) } else { Some(served) };
            if queue > self.target(forward).max(doubt)
                && let Some(served) = busy
            {
                self.rate = plausible(&served).scale(1000 - self.cause.overflow(losses), 1000);
                self.enter_cruise(now, losses);
                return;
            }
        }
        if let Some(rate) = self.overloaded(now, queue) {
            self.rate = rate;
            self.enter_cruise(now, losses);
            return;
        }
        if !round_over {
            return;
        }
        if self.best.as_bps() > 0 && !self.round_limited && self.round_best.as_bps() > 0 {
            let grown = self.round_best.as_bps() as f64 >= self.best.as_bps() as f64 * PLATEAU_GROWTH;
            if grown {
                // Losses while more arrives than ever are not caused by a limit.
                self.cause.learn(losses, now);
            }
            let share = losses.single_share().max(losses.share());
            let lossy = self.cause.exceeds(share);
            // Loss this high needs no second round.
            let step = if share > PLATEAU_SURE { PLATEAU_ROUNDS } else { 1 };
            self.flat_rounds = if grown || !lossy { 0 } else { self.flat_rounds + step };
        }
        self.best = self.best.max(self.round_best);
        if self.flat_rounds >= PLATEAU_ROUNDS {
            let lasting = self.service.rate(sample.rtt).map_or(self.best, |s| s.delivered);
            self.rate = lasting.min(self.best);
            self.enter_cruise(now, losses);
        }
    }

    /// The rate of a link that small writes overload: each leaves at once, so none of them shows more than the application's rate until the
    /// queue does.
    fn overloaded(&mut self, now: Instant, queue: Span) -> Option<Rate> {
        if queue < OVERLOAD {
            self.overload_since = None;
            return None;
        }
        let since = *self.overload_since.get_or_insert(now);
        let served = self.service.rate(OVERLOAD).filter(|_| now.since(since) >= OVERLOAD)?;
        (served.sent >= served.rate.scale(OVERLOAD_GROWTH.0, OVERLOAD_GROWTH.1)).then(|| plausible(&served))
    }

    /// Checks whether the link sustains the train's rate, or a token bucket let the train through.
    fn judge_train(&mut self, sample: &AckSample) {
        let Believed::Train(at) = self.believed else { return };
        let window = sample.rtt_min.scale(1, TRAIN_JUDGED_RTT_PART);
        let Some(served) = self.service.rate(window) else { return };
        if served.app_limited || sample.newest.is_none_or(|newest| newest.sent_at < at + window) {
            return;
        }
        self.believed = Believed::Measured;
        if served.delivered < served.sent.scale(TRAIN_KEPT.0, TRAIN_KEPT.1) {
            self.rate = served.delivered.max(INITIAL_RATE);
        }
    }

    /// The result of the first train.
    fn train(&self, forward: &Forward) -> Option<Train> {
        if !self.service.even(TRAIN_PACKETS, TRAIN_SPREAD) {
            return None;
        }
        let measure = |span: Span, packets| {
            let served = self.service.busy_rate(span.max(forward.jitter().times(SERVICE_JITTERS)), packets)?;
            let drawn_out = served.rate < served.sent.scale(TRAIN_DRAWN_OUT.0, TRAIN_DRAWN_OUT.1);
            Some((served, drawn_out))
        };
        if let Some((served, true)) = measure(TRAIN_SPAN, TRAIN_PACKETS) {
            // Jitter disperses a few small packets as much as a link does, unless the link is slower than any jitter.
            let took = served.rate.time_for(Octets::new(served.bytes));
            let tells = served.bytes >= TRAIN_BYTES || took >= TRAIN_SLOW;
            return tells.then(|| Train::DrawnOut(plausible(&served)));
        }
        let (served, drawn_out) = measure(TRAIN_SPAN.scale(1, 2), TRAIN_MOST)?;
        let tells = served.bytes >= TRAIN_MOST * PACKET / 2 && !drawn_out;
        tells.then(|| Train::Unchanged(served.delivered.min(TRAIN_RATE)))
    }
}

/// Lost packets count as served, but while the medium is unknown no more than the amount that arrives: a policer drops much more.
fn plausible(served: &Served) -> Rate {
    served.rate.min(served.delivered.scale(2, 1))
}
