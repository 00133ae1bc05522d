//! The configuration of a cable per direction, as plain values. Files are read by the scenario.

use super::trace::{DelayTrace, RateTrace};
use crate::loss::{LossConfig, LossError, Windows, check_windows};
use wavelane_base::{Instant, Octets, Rate, Ratio, Span};
use wavelane_queue::{Limits, Tins};

/// Most bytes that wait in one direction with [`QueueLimit::Bounded`].
pub const QUEUE_DEFAULT: Octets = Octets::new(64 << 20);
/// Most bytes that wait in one direction, whatever the configuration.
pub const QUEUE_BOUND: Octets = Octets::new(256 << 20);
/// Most bytes one direction holds between serialiser and far port; frames above it are dropped and counted.
pub const FLIGHT_BOUND: Octets = Octets::new(256 << 20);
/// Most frames that wait, and most that are in flight, in one direction, whatever their size.
pub const FRAMES_BOUND: u64 = 1 << 20;
/// Most frames in a driver's ring: sixteen times the largest that network cards have.
pub const RING_BOUND: u64 = 1 << 16;
/// The largest frame a cable carries; an IP packet cannot be larger (RFC 791, section 3.1).
pub const FRAME_MAX: usize = 65_535;

/// A cable between two ports; side a is `PortId(0)`, side b is `PortId(1)`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CableConfig {
    /// From side a to side b.
    pub forward: DirectionConfig,
    /// From side b to side a.
    pub reverse: DirectionConfig,
}

/// One direction of a cable. The default does nothing to a frame: infinite rate, no delay, no loss.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectionConfig {
    /// Serialisation rate, counting the frame's own bytes only; `None` is infinitely fast. With a recording its mean.
    pub rate: Option<Rate>,
    /// The recording that the rate follows.
    pub rate_trace: Option<RateTrace>,
    /// One-way delay, after serialisation. With a recording its longest.
    pub delay: Span,
    /// The recording that the delay follows.
    pub delay_trace: Option<DelayTrace>,
    /// Extra delay per frame, uniform in `0..jitter`.
    pub jitter: Span,
    /// Whether frames keep their order under jitter and a falling delay (a frame then waits for the previous one).
    pub keep_order: bool,
    /// Limit of the queue for the serialiser, without the frame in service.
    pub queue: QueueLimit,
    /// How the queue is managed.
    pub queueing: Queueing,
    /// Which frames are lost after serialisation.
    pub loss: LossConfig,
    /// Probability that a frame arrives twice.
    pub duplicate: Ratio,
    /// Reordering: which frames are delayed so that later ones pass them.
    pub reorder: Reorder,
    /// Probability that one bit of a frame, chosen uniformly, is flipped.
    pub corrupt: Ratio,
    /// Outages `[start, stop)`, sorted and disjoint: frames entering service in one use airtime and are lost.
    pub outages: Windows,
    /// A token bucket without a queue, before the queue.
    pub policer: Option<Policer>,
    /// Longer frames are dropped on arrival, without a word to their sender.
    pub mtu: Option<Octets>,
}

/// Limit of the queue for the serialiser.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QueueLimit {
    /// [`QUEUE_DEFAULT`] bytes.
    #[default]
    Bounded,
    /// This many bytes.
    Octets(Octets),
    /// This many frames (and still at most [`QUEUE_BOUND`] bytes).
    Packets(u64),
}

/// How the queue for the serialiser is managed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Queueing {
    /// The discipline that selects the next frame and drops or marks.
    pub discipline: Discipline,
    /// Frames in a driver's ring behind the discipline, not controlled by it, in addition to [`DirectionConfig::queue`].
    pub ring: u64,
}

/// The disciplines of a cable's queue, a closed list; `docs/models/queues.md` describes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Discipline {
    /// First in, first out, drop-tail.
    #[default]
    Fifo,
    /// Controlled delay (RFC 8289).
    CoDel(CoDelTimes),
    /// A CoDel queue per flow, sparse flows first (RFC 8290).
    FqCoDel(CoDelTimes),
    /// PIE (RFC 8033), with this target delay.
    Pie(Span),
    /// One queue for L4S and one for classic traffic (RFC 9332), with this target delay.
    DualPi2(Span),
    /// Modelled on CAKE: tins by code point, in each a CoDel queue per flow, with host fairness.
    Cake(CoDelTimes, Tins),
}

/// CoDel's two times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoDelTimes {
    /// Target delay.
    pub target: Span,
    /// How long it may be exceeded before the first drop.
    pub interval: Span,
}

impl Default for CoDelTimes {
    /// RFC 8289, section 4.4.
    fn default() -> Self {
        Self { target: Span::from_millis(5), interval: Span::from_millis(100) }
    }
}

/// Reordering by delaying frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reorder {
    /// Probability per frame.
    pub p: Ratio,
    /// Extra delay of a chosen frame; later frames do not wait for it.
    pub extra: Span,
}

/// A token bucket that drops excess frames (RFC 2697 with a single bucket: no yellow).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policer {
    /// Rate at which the bucket fills.
    pub rate: Rate,
    /// Size of the bucket, which is full at the start. A frame larger than it never passes.
    pub burst: Octets,
}

/// One parameter of one direction, for changes during a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Parameter {
    /// [`DirectionConfig::rate`]; the rest of the frame in service is sent at the new rate.
    Rate(Option<Rate>),
    /// [`DirectionConfig::rate_trace`], on the cable's clock; the rest of the frame in service follows it.
    RateTrace(RateTrace),
    /// [`DirectionConfig::delay`], for frames that leave the serialiser from now on.
    Delay(Span),
    /// [`DirectionConfig::delay_trace`], on the cable's clock, for frames that leave the serialiser from now on.
    DelayTrace(DelayTrace),
    /// [`DirectionConfig::jitter`], for frames that leave the serialiser from now on.
    Jitter(Span),
    /// [`DirectionConfig::keep_order`], for frames that leave the serialiser from now on.
    KeepOrder(bool),
    /// [`DirectionConfig::queue`] of a FIFO; frames already waiting beyond a smaller limit stay.
    Queue(QueueLimit),
    /// [`DirectionConfig::queue`] and [`DirectionConfig::queueing`]; frames waiting under another discipline move into the
    /// new queue as if they arrived now, as far as it has room.
    Queueing(QueueLimit, Queueing),
    /// [`DirectionConfig::loss`]; new dwell times start a new process, in the good state, now.
    Loss(LossConfig),
    /// [`DirectionConfig::duplicate`].
    Duplicate(Ratio),
    /// [`DirectionConfig::reorder`].
    Reorder(Reorder),
    /// [`DirectionConfig::corrupt`].
    Corrupt(Ratio),
    /// [`DirectionConfig::outages`], on the cable's clock, for frames that enter service from now on.
    Outages(Windows),
    /// [`DirectionConfig::policer`]; a new bucket is full.
    Policer(Option<Policer>),
    /// [`DirectionConfig::mtu`], for frames that arrive from now on.
    Mtu(Option<Octets>),
}

/// Why a cable cannot be built, or a parameter cannot be changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// A rate of zero never finishes a frame.
    #[error("rate 0 never finishes a frame: leave the rate out for an infinite one, or use an outage to lose frames")]
    RateZero,
    /// A delay beyond [`SPAN_MAX`].
    #[error("{what} of {value} is beyond {SPAN_MAX}: choose a shorter one")]
    SpanTooLong {
        /// Which span.
        what: &'static str,
        /// What was asked for.
        value: Span,
    },
    /// A queue limit beyond the bound.
    #[error("queue limit {asked} is beyond the bound of {bound} {unit}: choose a smaller one")]
    QueueTooLarge {
        /// What was asked for.
        asked: u64,
        /// The bound.
        bound: u64,
        /// What both count.
        unit: &'static str,
    },
    /// A discipline with invalid times.
    #[error("queue with {what} {value}: choose one above 0 and at most {SPAN_MAX}")]
    QueueTime {
        /// Which time.
        what: &'static str,
        /// What was asked for.
        value: Span,
    },
    /// A policer that drops everything.
    #[error("policer with rate {} bit/s and burst {} B passes nothing: raise both above 0", .0.rate.as_bps(), .0.burst.get())]
    PolicerEmpty(Policer),
    /// Outage windows out of order.
    #[error("outage windows: {0}")]
    Outages(LossError),
    /// The loss model is impossible.
    #[error(transparent)]
    Loss(#[from] LossError),
}

/// The longest delay, jitter or extra delay: an hour, far beyond any terrestrial or satellite path.
pub const SPAN_MAX: Span = Span::from_secs(3_600);

impl Default for DirectionConfig {
    fn default() -> Self {
        Self {
            rate: None,
            rate_trace: None,
            delay: Span::ZERO,
            delay_trace: None,
            jitter: Span::ZERO,
            keep_order: true,
            queue: QueueLimit::Bounded,
            queueing: Queueing::default(),
            loss: LossConfig::None,
            duplicate: Ratio::ZERO,
            reorder: Reorder::default(),
            corrupt: Ratio::ZERO,
            outages: Windows::new(),
            policer: None,
            mtu: None,
        }
    }
}

impl Default for Reorder {
    fn default() -> Self {
        Self { p: Ratio::ZERO, extra: Span::ZERO }
    }
}

impl CableConfig {
    /// The same in both directions.
    pub fn symmetric(direction: DirectionConfig) -> Self {
        Self { forward: direction.clone(), reverse: direction }
    }
    /// The preset `ethernet`: 1 Gbit/s and 0.05 ms each way.
    pub fn ethernet() -> Self {
        Self::symmetric(DirectionConfig {
            rate: Some(Rate::from_bps(1_000_000_000)),
            delay: Span::from_micros(50),
            ..DirectionConfig::default()
        })
    }
    /// Rejects invalid values.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.forward.check()?;
        self.reverse.check()
    }
}

impl DirectionConfig {
    /// Rejects invalid values.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.rate.is_some_and(|rate| rate.as_bps() == 0) {
            return Err(ConfigError::RateZero);
        }
        for (what, value) in [("delay", self.delay), ("jitter", self.jitter), ("extra delay", self.reorder.extra)] {
            if value > SPAN_MAX {
                return Err(ConfigError::SpanTooLong { what, value });
            }
        }
        self.queue.check()?;
        self.queueing.check()?;
        self.loss.check()?;
        check_windows(&self.outages).map_err(ConfigError::Outages)?;
        match self.policer {
            Some(p) if p.rate.as_bps() == 0 || p.burst == Octets::ZERO => Err(ConfigError::PolicerEmpty(p)),
            _ => Ok(()),
        }
    }

    /// The highest rate: that of a recording's fastest tenth of a second. `None` is infinitely fast.
    pub fn fastest(&self) -> Option<Rate> {
        self.rate_trace.as_ref().map(RateTrace::peak).or(self.rate)
    }
    /// The one-way delay at a time.
    pub fn delay_at(&self, now: Instant) -> Span {
        self.delay_trace.as_ref().map_or(self.delay, |trace| trace.at(now))
    }

    /// Replaces one parameter; the direction is unchanged if the result is invalid.
    pub fn set(&mut self, parameter: Parameter) -> Result<(), ConfigError> {
        let mut changed = self.clone();
        match parameter {
            Parameter::Rate(rate) => (changed.rate, changed.rate_trace) = (rate, None),
            Parameter::RateTrace(trace) => {
                // A recording of less than one bit a second still has a rate.
                changed.rate = Some(trace.mean().max(Rate::from_bps(1)));
                changed.rate_trace = Some(trace);
            }
            Parameter::Delay(delay) => (changed.delay, changed.delay_trace) = (delay, None),
            Parameter::DelayTrace(trace) => {
                changed.delay = trace.longest();
                changed.delay_trace = Some(trace);
            }
            Parameter::Jitter(jitter) => changed.jitter = jitter,
            Parameter::KeepOrder(keep) => changed.keep_order = keep,
            Parameter::Queue(queue) => (changed.queue, changed.queueing) = (queue, Queueing::default()),
            Parameter::Queueing(queue, queueing) => (changed.queue, changed.queueing) = (queue, queueing),
            Parameter::Loss(loss) => changed.loss = loss,
            Parameter::Duplicate(p) => changed.duplicate = p,
            Parameter::Reorder(reorder) => changed.reorder = reorder,
            Parameter::Corrupt(p) => changed.corrupt = p,
            Parameter::Outages(outages) => changed.outages = outages,
            Parameter::Policer(policer) => changed.policer = policer,
            Parameter::Mtu(mtu) => changed.mtu = mtu,
        }
        changed.check()?;
        *self = changed;
        Ok(())
    }
}

impl QueueLimit {
    /// Rejects a limit beyond the bounds.
    pub fn check(self) -> Result<(), ConfigError> {
        let (asked, bound, unit) = match self {
            Self::Bounded => return Ok(()),
            Self::Octets(octets) => (octets.get(), QUEUE_BOUND.get(), "B"),
            Self::Packets(packets) => (packets, FRAMES_BOUND, "packets"),
        };
        if asked > bound { Err(ConfigError::QueueTooLarge { asked, bound, unit }) } else { Ok(()) }
    }
    /// Most frames and most bytes that wait.
    pub(crate) fn limits(self) -> Limits {
        let (items, octets) = match self {
            Self::Bounded => (FRAMES_BOUND, QUEUE_DEFAULT.get()),
            Self::Octets(limit) => (FRAMES_BOUND, limit.get()),
            Self::Packets(limit) => (limit, QUEUE_BOUND.get()),
        };
        Limits { items: items as usize, octets: octets as usize }
    }
}

impl Queueing {
    /// Rejects invalid values.
    pub(crate) fn check(self) -> Result<(), ConfigError> {
        if self.ring > RING_BOUND {
            return Err(ConfigError::QueueTooLarge {
                asked: self.ring,
                bound: RING_BOUND,
                unit: "packets in its ring",
            });
        }
        let times = match self.discipline {
            Discipline::Fifo => return Ok(()),
            Discipline::CoDel(times) | Discipline::FqCoDel(times) | Discipline::Cake(times, _) => {
                [times.target, times.interval]
            }
            Discipline::Pie(target) | Discipline::DualPi2(target) => [target; 2],
        };
        match ["target", "interval"].into_iter().zip(times).find(|(_, t)| *t == Span::ZERO || *t > SPAN_MAX) {
            Some((what, value)) => Err(ConfigError::QueueTime { what, value }),
            None => Ok(()),
        }
    }
}
