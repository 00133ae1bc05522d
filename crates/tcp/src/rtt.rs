//! Round-trip time and the retransmission timeout: RFC 6298, or with Linux's variance estimate.

use super::config::{Config, RtoFloor};
use wavelane_base::{Instant, Span};

/// The clock's granularity G of RFC 6298. Our clock is finer; Linux's timers are not.
const GRANULARITY: Span = Span::from_millis(1);
/// Maximum number of doublings, whatever the ceiling.
const BACKOFF_MAX: u32 = 16;

/// Milliseconds, as our timestamps count.
pub(super) fn clock_ms(now: Instant) -> u64 {
    now.as_nanos() / 1_000_000
}

/// RTT variance.
#[derive(Debug)]
enum Variance {
    /// RFC 6298's RTTVAR.
    Mean(Span),
    Peak(Peak),
}

/// Linux's `tcp_rtt_estimator` (net/ipv4/tcp_input.c): the largest deviation within a round trip counts and decays by a
/// quarter per round trip; a falling RTT has little weight.
#[derive(Debug, Default)]
struct Peak {
    floor: Span,
    /// Four times the mean deviation.
    deviation: Span,
    /// Its largest value in this round trip, and where that ends.
    largest: Span,
    round_end: u64,
    /// Added to the smoothed RTT.
    margin: Span,
}

impl Peak {
    fn first(&mut self, rtt: Span, next: u64) {
        self.deviation = rtt.times(2);
        self.margin = self.deviation.max(self.floor);
        self.largest = self.margin;
        self.round_end = next;
    }
    fn sample(&mut self, rtt: Span, smoothed: Span, una: u64, next: u64) {
        let error = Span::from_nanos(smoothed.as_nanos().abs_diff(rtt.as_nanos()));
        let quarter = self.deviation.scale(1, 4);
        let (more, less) = (error.saturating_sub(quarter), quarter.saturating_sub(error));
        let more = if rtt < smoothed { more.scale(1, 8) } else { more };
        self.deviation = (self.deviation + more).saturating_sub(less);
        self.largest = self.largest.max(self.deviation);
        self.margin = self.margin.max(self.largest);
        if una > self.round_end {
            self.margin = self.margin.saturating_sub(self.margin.saturating_sub(self.largest).scale(1, 4));
            self.largest = self.floor;
            self.round_end = next;
        }
    }
}

#[derive(Debug)]
pub(super) struct Rtt {
    smoothed: Option<Span>,
    variance: Variance,
    min: Option<Span>,
    initial: Span,
    floor: Span,
    max: Span,
    tick: Span,
    backoff: u32,
}

impl Rtt {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            smoothed: None,
            variance: match config.rto_floor {
                RtoFloor::Total(_) => Variance::Mean(Span::ZERO),
                RtoFloor::Variance(floor) => Variance::Peak(Peak { floor, ..Peak::default() }),
            },
            min: None,
            initial: config.rto_initial,
            floor: if let RtoFloor::Total(floor) = config.rto_floor { floor } else { Span::ZERO },
            max: config.rto_max,
            tick: config.rto_tick,
            backoff: 0,
        }
    }
    /// RFC 6298, sections 2.2 and 2.3. Positions `una` to `next` are in flight.
    pub(super) fn sample(&mut self, rtt: Span, una: u64, next: u64) {
        let rtt = self.whole_ticks(rtt);
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(rtt);
            match &mut self.variance {
                Variance::Mean(mean) => *mean = rtt.scale(1, 2),
                Variance::Peak(peak) => peak.first(rtt, next),
            }
            return;
        };
        match &mut self.variance {
            Variance::Mean(mean) => {
                let error = Span::from_nanos(smoothed.as_nanos().abs_diff(rtt.as_nanos()));
                *mean = mean.scale(3, 4) + error.scale(1, 4);
            }
            Variance::Peak(peak) => peak.sample(rtt, smoothed, una, next),
        }
        self.smoothed = Some(smoothed.scale(7, 8) + rtt.scale(1, 8));
    }
    /// An RTT sample believed free of delayed-ACK delay.
    pub(super) fn note_min(&mut self, rtt: Span) {
        self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
    }
    pub(super) fn smoothed(&self) -> Option<Span> {
        self.smoothed
    }
    pub(super) fn min(&self) -> Option<Span> {
        self.min
    }
    /// The current timeout, including back-off.
    pub(super) fn rto(&self) -> Span {
        self.backed_off(0)
    }
    /// The timeout after `times` further doublings.
    pub(super) fn backed_off(&self, times: u32) -> Span {
        let plain = match self.smoothed {
            None => self.initial,
            Some(smoothed) => {
                let margin = match &self.variance {
                    Variance::Mean(mean) => mean.times(4).max(GRANULARITY),
                    Variance::Peak(peak) => peak.margin,
                };
                (smoothed + margin).max(self.floor)
            }
        };
        self.whole_ticks(plain).times(1 << self.backoff.saturating_add(times).min(BACKOFF_MAX)).min(self.max)
    }
    fn whole_ticks(&self, span: Span) -> Span {
        let tick = self.tick.as_nanos().max(1);
        Span::from_nanos(span.as_nanos().div_ceil(tick).saturating_mul(tick))
    }
    /// RFC 6298, section 5.5.
    pub(super) fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }
    pub(super) fn progress(&mut self) {
        self.backoff = 0;
    }
    /// RFC 6298, section 5.7: after a lost SYN, the initial timeout for data is at least 3 s until an RTT is measured.
    pub(super) fn after_lost_syn(&mut self) {
        self.initial = self.initial.max(Span::from_secs(3));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(floor: RtoFloor) -> Rtt {
        Rtt::new(&Config { rto_floor: floor, ..Config::default() })
    }

    /// RFC 6298, section 2, computed by hand: SRTT = 100, then 100*7/8 + 200/8 = 112.5; RTTVAR = 50, then 62.5.
    #[test]
    fn rfc_6298_worked_by_hand() {
        let mut rtt = with(RtoFloor::Total(Span::ZERO));
        assert_eq!(rtt.rto(), Span::from_secs(1));
        rtt.sample(Span::from_millis(100), 0, 0);
        assert_eq!(rtt.rto(), Span::from_millis(300));
        rtt.sample(Span::from_millis(200), 0, 0);
        assert_eq!(rtt.rto(), Span::from_micros(112_500 + 4 * 62_500));
    }

    /// RFC 6298, section 2.3: without variance, the margin is the clock's granularity.
    #[test]
    fn the_margin_is_a_tick_at_least_and_ticks_are_whole() {
        let mut rtt = with(RtoFloor::Total(Span::ZERO));
        for _ in 0..200 {
            rtt.sample(Span::from_millis(100), 0, 0);
        }
        assert_eq!(rtt.rto(), Span::from_millis(101));
        let tick = Span::from_millis(100);
        let config = Config { rto_tick: tick, rto_floor: RtoFloor::Total(Span::ZERO), ..Config::default() };
        let mut coarse = Rtt::new(&config);
        coarse.sample(Span::from_millis(101), 0, 0);
        assert_eq!((coarse.smoothed(), coarse.rto()), (Some(tick.times(2)), tick.times(6)));
    }

    /// Linux's `tcp_rtt_estimator`, worked by hand in milliseconds: the margin rises to the largest deviation at once, is
    /// kept for the round trip, and then falls by a quarter of its excess.
    #[test]
    fn the_largest_deviation_is_forgotten_by_quarters() {
        let mut rtt = with(RtoFloor::Variance(Span::from_millis(200)));
        let micros = |rtt: &Rtt| rtt.rto().as_micros();
        rtt.sample(Span::from_millis(100), 1, 1);
        assert_eq!(micros(&rtt), 300_000);
        rtt.sample(Span::from_millis(100), 2, 101);
        assert_eq!(micros(&rtt), 300_000, "the deviation falls from 200 to 150; the floor is 200");
        // Deviation 200, of which a quarter of 150 was expected.
        rtt.sample(Span::from_millis(300), 50, 101);
        assert_eq!(micros(&rtt), 125_000 + 312_500);
        rtt.sample(Span::from_millis(100), 101, 150);
        assert_eq!(micros(&rtt), 121_875 + 312_500, "what was in flight is not over");
        rtt.sample(Span::from_micros(121_875), 102, 200);
        assert_eq!(micros(&rtt), 121_875 + 312_500, "and this was its largest");
        rtt.sample(Span::from_micros(121_875), 201, 300);
        assert_eq!(micros(&rtt), 121_875 + 284_375, "a quarter of what is above 200 less");
        // An RTT that falls by 100 has a weight of one eighth.
        let mut rtt = with(RtoFloor::Variance(Span::from_millis(1)));
        for position in 0..200 {
            rtt.sample(Span::from_millis(100), position, position);
        }
        rtt.sample(Span::from_millis(20), 200, 200);
        assert!((99_900..100_100).contains(&micros(&rtt)), "90 and an eighth of 80: {}", micros(&rtt));
    }

    #[test]
    fn the_least_round_trip() {
        let mut rtt = with(RtoFloor::Total(Span::ZERO));
        for (sample, least) in [(50, 50), (70, 50), (20, 20), (30, 20)] {
            rtt.note_min(Span::from_millis(sample));
            assert_eq!(rtt.min(), Some(Span::from_millis(least)));
        }
    }

    #[test]
    fn floors_and_back_off() {
        let (mut total, mut variance) =
            (with(RtoFloor::Total(Span::from_secs(1))), with(RtoFloor::Variance(Span::from_millis(200))));
        for _ in 0..200 {
            total.sample(Span::from_millis(100), 0, 0);
            variance.sample(Span::from_millis(100), 0, 0);
        }
        assert_eq!(total.rto(), Span::from_secs(1));
        let linux = variance.rto();
        assert!(linux >= Span::from_millis(299) && linux <= Span::from_millis(300), "{linux}");
        variance.back_off();
        assert_eq!(variance.rto(), linux.times(2));
        for _ in 0..100 {
            variance.back_off();
        }
        assert_eq!(variance.rto(), Span::from_secs(120));
        variance.progress();
        assert_eq!(variance.rto(), linux);
    }
}
