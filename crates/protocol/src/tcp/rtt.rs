//! Round-trip time and the retransmission timeout (RFC 6298).

use super::config::{Config, RtoFloor};
use wavelane_base::{Instant, Span};

/// The clock's granularity G of RFC 6298. Our clock is finer; Linux's timers are not.
const GRANULARITY: Span = Span::from_millis(1);
/// Doublings after which back-off stops growing whatever the ceiling.
const BACKOFF_MAX: u32 = 16;

/// Milliseconds, as our timestamps count.
pub(super) fn clock_ms(now: Instant) -> u64 {
    now.as_nanos() / 1_000_000
}

#[derive(Debug)]
pub(super) struct Rtt {
    smoothed: Option<Span>,
    variance: Span,
    min: Option<Span>,
    initial: Span,
    floor: RtoFloor,
    max: Span,
    tick: Span,
    backoff: u32,
}

impl Rtt {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            smoothed: None,
            variance: Span::ZERO,
            min: None,
            initial: config.rto_initial,
            floor: config.rto_floor,
            max: config.rto_max,
            tick: config.rto_tick,
            backoff: 0,
        }
    }
    /// RFC 6298, sections 2.2 and 2.3.
    pub(super) fn sample(&mut self, rtt: Span) {
        let rtt = self.whole_ticks(rtt);
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variance = rtt.scale(1, 2);
            }
            Some(smoothed) => {
                let error = Span::from_nanos(smoothed.as_nanos().abs_diff(rtt.as_nanos()));
                self.variance = self.variance.scale(3, 4) + error.scale(1, 4);
                self.smoothed = Some(smoothed.scale(7, 8) + rtt.scale(1, 8));
            }
        }
    }
    /// A round trip that no delayed acknowledgement lengthened, as far as we know.
    pub(super) fn note_min(&mut self, rtt: Span) {
        self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
    }
    pub(super) fn smoothed(&self) -> Option<Span> {
        self.smoothed
    }
    pub(super) fn min(&self) -> Option<Span> {
        self.min
    }
    /// The timeout as it stands, back-off included.
    pub(super) fn rto(&self) -> Span {
        self.backed_off(0)
    }
    /// The timeout doubled so many times more.
    pub(super) fn backed_off(&self, times: u32) -> Span {
        let plain = match self.smoothed {
            None => self.initial,
            Some(smoothed) => {
                let margin = self.variance.times(4).max(GRANULARITY);
                match self.floor {
                    RtoFloor::Total(floor) => (smoothed + margin).max(floor),
                    RtoFloor::Variance(floor) => smoothed + margin.max(floor),
                }
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
    /// RFC 6298, section 5.7: after a lost SYN, data begins with a timeout of at least 3 s while nothing is measured.
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
        rtt.sample(Span::from_millis(100));
        assert_eq!(rtt.rto(), Span::from_millis(300));
        rtt.sample(Span::from_millis(200));
        assert_eq!(rtt.rto(), Span::from_micros(112_500 + 4 * 62_500));
    }

    /// RFC 6298, section 2.3: where nothing varies, the clock's granularity is the margin.
    #[test]
    fn the_margin_is_a_tick_at_least_and_ticks_are_whole() {
        let mut rtt = with(RtoFloor::Total(Span::ZERO));
        for _ in 0..200 {
            rtt.sample(Span::from_millis(100));
        }
        assert_eq!(rtt.rto(), Span::from_millis(101));
        let tick = Span::from_millis(100);
        let config = Config { rto_tick: tick, rto_floor: RtoFloor::Total(Span::ZERO), ..Config::default() };
        let mut coarse = Rtt::new(&config);
        coarse.sample(Span::from_millis(101));
        assert_eq!((coarse.smoothed(), coarse.rto()), (Some(tick.times(2)), tick.times(6)));
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
            total.sample(Span::from_millis(100));
            variance.sample(Span::from_millis(100));
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
