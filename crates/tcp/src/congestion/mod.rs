//! Congestion control: a closed list of algorithms behind one set of verbs. Windows are in bytes.

mod aggregation;
mod bbr;
mod bbr3;
mod cubic;
mod hystart;
mod hystart_classic;
mod policer;
mod reno;
mod windowed_max;

use super::config::{Config, CongestionControl, SlowStartExit};
use super::rate::RateSample;
use bbr::Bbr;
use bbr3::Bbr3;
use cubic::Cubic;
use hystart::HyStart;
use hystart_classic::{Classic, SenderWindow};
use reno::Reno;
use wavelane_base::{Instant, Octets, Rate, Span};

/// The information in an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acked {
    pub(super) now: Instant,
    /// Bytes newly known to have arrived.
    pub(super) octets: u64,
    /// Bytes delivered so far, these included.
    pub(super) delivered: u64,
    /// Bytes newly marked lost.
    pub(super) lost: u64,
    pub(super) rtt: Option<Span>,
    pub(super) smoothed: Span,
    /// The minimum RTT so far.
    pub(super) least: Span,
    /// Bytes in the network after it.
    pub(super) pipe: u64,
    /// The next byte not sent yet.
    pub(super) next: u64,
    /// The first byte not acknowledged.
    pub(super) una: u64,
    /// The sender was cwnd-limited, not app-limited.
    pub(super) limited: bool,
    pub(super) sample: Option<RateSample>,
    /// A loss recovery is under way.
    pub(super) repairing: bool,
}

/// A segment that is newly marked lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub(super) now: Instant,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Bytes delivered so far.
    pub(super) delivered: u64,
    /// Bytes in flight when it was sent, itself included.
    pub(super) in_flight: u64,
    /// Bytes marked lost since it was sent, itself included.
    pub(super) lost: u64,
    /// It was sent while app-limited.
    pub(super) app_limited: bool,
}

/// What Reno and CUBIC share.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) cwnd: u64,
    pub(super) ssthresh: u64,
    pub(super) mss: u64,
    hystart: Option<HyStart>,
    classic: Option<Classic>,
    byte_counting: bool,
    /// Count in whole segments.
    whole: bool,
}

impl Window {
    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
    /// A window of `octets`, two segments at least.
    fn rounded(&self, octets: u64) -> u64 {
        let octets = if self.whole { octets / self.mss * self.mss } else { octets };
        octets.max(2 * self.mss)
    }
    /// Linux's HyStart, which sees every acknowledgement.
    fn watch(&mut self, acked: &Acked, stage: Option<Instant>) {
        let seen = SenderWindow { cwnd: self.cwnd, ssthresh: self.ssthresh, mss: self.mss, stage };
        if let Some(classic) = &mut self.classic
            && classic.on_ack(acked, seen)
        {
            self.ssthresh = self.cwnd;
        }
    }
    /// Slow start (RFC 5681, section 3.1, counting as RFC 3465 or by acknowledgements); returns bytes left over for
    /// congestion avoidance.
    fn slow_start(&mut self, acked: &Acked) -> u64 {
        let counted = if self.byte_counting { acked.octets } else { acked.octets.min(self.mss) };
        // RFC 9406, section 4.3: in the initial slow start only; later ones end at ssthresh.
        if self.ssthresh != u64::MAX {
            self.hystart = None;
        }
        let growth = match &mut self.hystart {
            Some(hystart) => hystart.growth(counted, self.mss),
            None => counted,
        };
        let used = growth.min(self.ssthresh - self.cwnd);
        self.cwnd += used;
        if let Some(hystart) = &mut self.hystart
            && hystart.on_ack(acked)
        {
            self.ssthresh = self.cwnd;
        }
        growth - used
    }
}

/// The algorithm of one connection.
#[derive(Clone, Debug)]
pub(super) enum Algorithm {
    Reno(Reno),
    Cubic(Cubic),
    Bbr(Box<Bbr>),
    Bbr3(Box<Bbr3>),
}

impl Algorithm {
    /// `segments` is the initial window; `sack` whether losses are known one by one; `dice` a random number from the owner.
    pub(super) fn new(config: &Config, now: Instant, mss: u64, segments: u32, sack: bool, dice: u32) -> Self {
        let window = Window {
            cwnd: u64::from(segments.max(1)) * mss,
            ssthresh: u64::MAX,
            mss,
            hystart: (config.slow_start_exit == SlowStartExit::HyStartPlusPlus).then(HyStart::default),
            classic: (config.slow_start_exit == SlowStartExit::HyStart).then(|| Classic::new(config.pacing)),
            byte_counting: config.byte_counting,
            whole: config.whole_segments,
        };
        match config.congestion {
            CongestionControl::Reno | CongestionControl::NewReno => Self::Reno(Reno::new(window)),
            CongestionControl::Cubic => Self::Cubic(Cubic::new(window)),
            CongestionControl::Bbr => Self::Bbr(Box::new(Bbr::new(now, mss, window.cwnd, config.policers, dice))),
            CongestionControl::Bbr3 => Self::Bbr3(Box::new(Bbr3::new(now, mss, window.cwnd, sack, dice))),
        }
    }
    fn window(&self) -> Option<&Window> {
        match self {
            Self::Reno(reno) => Some(&reno.window),
            Self::Cubic(cubic) => Some(&cubic.window),
            Self::Bbr(_) | Self::Bbr3(_) => None,
        }
    }
    fn window_mut(&mut self) -> Option<&mut Window> {
        match self {
            Self::Reno(reno) => Some(&mut reno.window),
            Self::Cubic(cubic) => Some(&mut cubic.window),
            Self::Bbr(_) | Self::Bbr3(_) => None,
        }
    }
    pub(super) fn cwnd(&self) -> u64 {
        match self {
            Self::Bbr(bbr) => bbr.cwnd(),
            Self::Bbr3(bbr) => bbr.cwnd(),
            _ => self.window().map_or(0, |window| window.cwnd),
        }
    }
    /// BBR has none.
    pub(super) fn ssthresh(&self) -> Option<u64> {
        self.window().map(|window| window.ssthresh)
    }
    pub(super) fn in_slow_start(&self) -> bool {
        self.window().is_some_and(Window::in_slow_start)
    }
    /// The window as proportional rate reduction sets it. BBR ignores it.
    pub(super) fn set_cwnd(&mut self, cwnd: u64) {
        if let Some(window) = self.window_mut() {
            window.cwnd = cwnd.max(window.mss);
        }
    }
    /// An acknowledgement. Reno and CUBIC do not change cwnd in fast recovery: the caller sets it then.
    pub(super) fn on_ack(&mut self, acked: &Acked, in_recovery: bool) {
        let stage = if let Self::Cubic(cubic) = self { cubic.stage() } else { None };
        self.window_mut().into_iter().for_each(|window| window.watch(acked, stage));
        match self {
            Self::Bbr(bbr) => bbr.on_ack(acked),
            Self::Bbr3(bbr) => bbr.on_ack(acked, in_recovery),
            Self::Reno(reno) if !in_recovery && acked.limited => reno.on_ack(acked),
            Self::Cubic(cubic) if !in_recovery && acked.limited => cubic.on_ack(acked),
            _ => {}
        }
    }
    /// A loss or a congestion mark begins a recovery. `flight` bytes are not acknowledged.
    pub(super) fn on_congestion(&mut self, now: Instant, flight: u64) {
        match self {
            Self::Reno(reno) => reno.reduce(flight),
            Self::Cubic(cubic) => cubic.reduce(now),
            Self::Bbr(bbr) => bbr.on_congestion(),
            Self::Bbr3(bbr) => bbr.on_congestion(),
        }
    }
    /// Whether [`Algorithm::on_lost`] is to be called for every segment that is marked lost.
    pub(super) fn asks_about_losses(&self) -> bool {
        matches!(self, Self::Bbr3(_))
    }
    /// A segment is marked lost. Called before the recovery or timeout handling that follows.
    pub(super) fn on_lost(&mut self, lost: &Lost) {
        if let Self::Bbr3(bbr) = self {
            bbr.on_lost(lost);
        }
    }
    /// Bytes are newly marked lost by a timer. [`Acked::lost`] has the others.
    pub(super) fn note_lost(&mut self, octets: u64) {
        if let Self::Bbr(bbr) = self {
            bbr.note_lost(octets);
        }
    }
    /// A congestion mark began a recovery, with `pipe` bytes in the network.
    pub(super) fn on_mark(&mut self, now: Instant, pipe: u64) {
        if let Self::Bbr3(bbr) = self {
            bbr.on_mark(now, pipe);
        }
    }
    /// Sending restarts after an application pause, with nothing in flight. Returns whether the following data counts as
    /// app-limited.
    pub(super) fn on_restart(&mut self, now: Instant) -> bool {
        match self {
            Self::Bbr3(bbr) => {
                bbr.on_restart(now);
                true
            }
            _ => false,
        }
    }
    /// The algorithm itself limits the rate, so samples do not show the path's capacity.
    pub(super) fn limits_itself(&self) -> bool {
        match self {
            Self::Bbr(bbr) => bbr.is_probing_rtt(),
            Self::Bbr3(bbr) => bbr.is_probing_rtt(),
            Self::Reno(_) | Self::Cubic(_) => false,
        }
    }
    /// The reduction since `prior` was spurious: the prior state is restored, with cwnd no smaller than now (RFC 9438,
    /// section 4.9; RFC 5681's algorithm as Linux restores it). Linux's CUBIC nevertheless starts a new epoch. Both BBR
    /// versions handle it themselves.
    pub(super) fn take_back(&mut self, prior: Self) {
        let cwnd = self.cwnd();
        match (&mut *self, prior) {
            (Self::Bbr(bbr), _) => bbr.take_back(),
            (Self::Bbr3(bbr), _) => bbr.on_spurious_recovery(),
            (Self::Cubic(cubic), Self::Cubic(prior)) if cubic.window.whole => cubic.take_back(&prior.window),
            (this, prior) => {
                *this = prior;
                let before = this.cwnd();
                this.set_cwnd(cwnd.max(before));
            }
        }
    }
    /// An outage since `prior` was no congestion: the window is as before.
    pub(super) fn resume(&mut self, now: Instant, prior: Self) {
        match prior {
            Self::Bbr(mut bbr) => {
                bbr.resume(now);
                *self = Self::Bbr(bbr);
            }
            Self::Bbr3(_) => *self = prior,
            prior => self.take_back(prior),
        }
    }
    /// A timeout with `flight` bytes unacknowledged; `reduces` unless ssthresh was already reduced for the same loss.
    pub(super) fn on_timeout(&mut self, now: Instant, flight: u64, reduces: bool) {
        match self {
            Self::Reno(reno) if reduces => reno.reduce(flight),
            Self::Cubic(cubic) => {
                if reduces {
                    cubic.reduce(now);
                }
                cubic.after_timeout();
            }
            // Everything is marked lost.
            Self::Bbr(bbr) => return bbr.on_timeout(0),
            Self::Bbr3(bbr) => return bbr.on_timeout(0),
            _ => {}
        }
        if let Some(window) = self.window_mut() {
            // RFC 5681, section 3.1, equation 5: one segment.
            window.cwnd = window.mss;
            window.classic.iter_mut().for_each(Classic::restart);
        }
    }
    /// Nothing was sent for longer than a timeout (RFC 5681, section 4.1).
    pub(super) fn after_idle(&mut self, idle: Span, initial: u64) {
        if let Self::Cubic(cubic) = self {
            cubic.shift(idle);
        }
        if let Some(window) = self.window_mut() {
            window.cwnd = window.cwnd.min(initial);
        }
    }
    /// The segment size changed.
    pub(super) fn set_mss(&mut self, mss: u64) {
        match self {
            Self::Bbr(bbr) => bbr.set_mss(mss),
            Self::Bbr3(bbr) => bbr.set_mss(mss),
            Self::Reno(_) | Self::Cubic(_) => self.window_mut().into_iter().for_each(|window| window.mss = mss),
        }
    }
    /// The pacing rate; `None` sends as the window allows.
    pub(super) fn pace(&self, spread: bool, smoothed: Option<Span>) -> Option<Rate> {
        match (self, smoothed) {
            (Self::Bbr(bbr), _) => bbr.pace(),
            (Self::Bbr3(bbr), _) => Some(bbr.pace()),
            (_, Some(rtt)) if spread => {
                // As Linux: twice the rate of the window in slow start, else 1.2 times.
                let percent = if self.in_slow_start() { 200 } else { 120 };
                Some(Rate::of(Octets::new(self.cwnd()), rtt).scale(percent, 100))
            }
            _ => None,
        }
    }
}
