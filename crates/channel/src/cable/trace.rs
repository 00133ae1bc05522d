//! Rates and delays that follow a recording of a real link.

use core::fmt;
use std::sync::Arc;
use wavelane_base::{Instant, Rate, Ratio, Span};

/// Most entries of a recording: an hour of a link of 14 Mbit/s, opportunity by opportunity.
pub const ENTRIES_MAX: usize = 1 << 22;
/// Longest recording: the longest run.
pub const PERIOD_MAX: Span = Span::from_secs(24 * 3_600);
/// Highest recorded rate.
pub const TRACE_RATE_MAX: Rate = Rate::from_bps(1_000_000_000_000);
/// Bytes of one delivery opportunity (Mahimahi, `link_queue.hh`: `PACKET_SIZE`).
pub const OPPORTUNITY: u64 = 1_504;
/// What a packet takes of its opportunities beside its own bytes: the header that a TUN device puts before it, which Mahimahi counts.
pub const OPPORTUNITY_HEADER: u64 = 4;

/// Work in units of 1 bit x 1 ns/s, as in the serialiser.
const PER_OCTET: u128 = 8 * 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;
/// The window over which [`RateTrace::peak`] is the highest mean.
const PEAK_WINDOW: Span = Span::from_millis(100);
/// Most windows looked at for the peak.
const PEAK_WINDOWS: u64 = 1 << 20;

/// Where a recording came from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Source {
    /// The file, as it was found.
    pub file: String,
    /// SHA-256 of its unpacked bytes, in hexadecimal.
    pub sha256: String,
}

/// What follows the end of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Then {
    /// Its beginning.
    #[default]
    Wrap,
    /// Nothing passes any more; of a delay, the last one stays.
    End,
}

/// When a link could send how much. Cloning shares it.
#[derive(Clone, PartialEq, Eq)]
pub struct RateTrace {
    source: Source,
    supply: Supply,
    scale: Ratio,
    then: Then,
    period: Span,
    /// Work of one period.
    total: u128,
    peak: Rate,
}

/// What a recording holds.
#[derive(Clone, PartialEq, Eq)]
enum Supply {
    /// Milliseconds at which one opportunity each is given, not falling; what an opportunity is worth, in units of work.
    Opportunities(Arc<[u32]>, u128),
    /// Starts of steps in nanoseconds, rising from 0; the work before each; its rate in bit/s.
    Steps(Arc<[(u64, u128, u64)]>),
}

/// A link's one-way delay over time.
#[derive(Clone, PartialEq, Eq)]
pub struct DelayTrace {
    source: Source,
    values: Arc<[Span]>,
    every: Span,
    then: Then,
}

/// Why a recording cannot be used; an entry is counted from 0.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TraceError {
    /// Nothing in it.
    #[error("it holds no entry: name a file with a recording")]
    Empty,
    /// More than [`ENTRIES_MAX`].
    #[error("it has more than {ENTRIES_MAX} entries: cut the recording")]
    TooMany,
    /// Time runs backwards, or stands still where it must not.
    #[error("its time {what} the entry before: sort the recording")]
    Order {
        /// Which entry.
        entry: usize,
        /// `falls below` or `does not rise above`.
        what: &'static str,
    },
    /// Too long, or over at once.
    #[error("it lasts {0}, which must lie above 0 and at most {PERIOD_MAX}: cut the recording")]
    Period(Span),
    /// A rate beyond the bound.
    #[error("a rate above 1 Tbit/s: is its unit right?")]
    Fast {
        /// Which entry.
        entry: usize,
    },
    /// A delay beyond the bound.
    #[error("a delay above {}: is its unit right?", super::SPAN_MAX)]
    Long {
        /// Which entry.
        entry: usize,
    },
    /// Nothing ever passes.
    #[error("nothing ever passes: name a recording with a rate above 0, or a scale above 0")]
    Nothing,
}

impl TraceError {
    /// The entry that is wrong, from 0, if it is one.
    pub fn entry(&self) -> Option<usize> {
        match self {
            Self::Order { entry, .. } | Self::Fast { entry } | Self::Long { entry } => Some(*entry),
            _ => None,
        }
    }
}

fn count(entries: usize) -> Result<(), TraceError> {
    match entries {
        0 => Err(TraceError::Empty),
        n if n > ENTRIES_MAX => Err(TraceError::TooMany),
        _ => Ok(()),
    }
}

impl RateTrace {
    /// Delivery opportunities as Mahimahi takes them: the millisecond of each; the last one is the recording's length.
    pub fn opportunities(source: Source, ms: Vec<u32>, scale: Ratio, then: Then) -> Result<Self, TraceError> {
        count(ms.len())?;
        if let Some(at) = ms.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(TraceError::Order { entry: at + 1, what: "falls below" });
        }
        let period = Span::from_millis(u64::from(ms[ms.len() - 1]));
        let worth = worth(scale);
        let total = worth * ms.len() as u128;
        let supply = Supply::Opportunities(ms.into(), worth);
        Self { source, supply, scale, then, period, total, peak: Rate::default() }.checked()
    }

    /// The same recording, found at `source`, with another scale and another end. It shares this one's table, unless that holds rates of
    /// another scale.
    pub fn again(&self, source: Source, scale: Ratio, then: Then) -> Option<Result<Self, TraceError>> {
        let mut again = Self { source, scale, then, ..self.clone() };
        match &self.supply {
            Supply::Opportunities(ms, _) => {
                let worth = worth(scale);
                again.total = worth * ms.len() as u128;
                again.supply = Supply::Opportunities(Arc::clone(ms), worth);
            }
            Supply::Steps(_) if scale != self.scale => return None,
            Supply::Steps(_) => {}
        }
        Some(again.checked())
    }

    /// A rate from each time on, times counted from the first; the last one lasts as long as the one before it, or a second if it is alone.
    pub fn steps(source: Source, steps: &[(Span, Rate)], scale: Ratio, then: Then) -> Result<Self, TraceError> {
        count(steps.len())?;
        if let Some(at) = steps.windows(2).position(|pair| pair[1].0 <= pair[0].0) {
            return Err(TraceError::Order { entry: at + 1, what: "does not rise above" });
        }
        if let Some(entry) = steps.iter().position(|(_, rate)| *rate > TRACE_RATE_MAX) {
            return Err(TraceError::Fast { entry });
        }
        let first = steps[0].0;
        let since = |at: usize| steps[at].0.saturating_sub(first);
        let last = steps.len() - 1;
        let lasts = if last == 0 { Span::from_secs(1) } else { steps[last].0.saturating_sub(steps[last - 1].0) };
        let period = since(last) + lasts;
        let mut total = 0;
        let mut table = Vec::with_capacity(steps.len());
        for (at, (_, rate)) in steps.iter().enumerate() {
            let bps = rate.scale(u64::from(scale.num()), u64::from(scale.den())).as_bps();
            let (start, end) = (since(at), if at == last { period } else { since(at + 1) });
            table.push((start.as_nanos(), total, bps));
            total += u128::from(bps) * u128::from(end.saturating_sub(start).as_nanos());
        }
        let supply = Supply::Steps(table.into());
        Self { source, supply, scale, then, period, total, peak: Rate::default() }.checked()
    }

    fn checked(mut self) -> Result<Self, TraceError> {
        if self.period == Span::ZERO || self.period > PERIOD_MAX {
            return Err(TraceError::Period(self.period));
        }
        if self.total == 0 {
            return Err(TraceError::Nothing);
        }
        // Asked for again and again, and the same each time.
        self.peak = self.highest();
        Ok(self)
    }

    /// Octets of memory that its table takes, which its clones share.
    pub fn octets(&self) -> usize {
        match &self.supply {
            Supply::Opportunities(ms, _) => size_of_val(&ms[..]),
            Supply::Steps(steps) => size_of_val(&steps[..]),
        }
    }
    /// Whether it shares the table of `other`.
    pub fn shares(&self, other: &Self) -> bool {
        match (&self.supply, &other.supply) {
            (Supply::Opportunities(one, _), Supply::Opportunities(two, _)) => Arc::ptr_eq(one, two),
            (Supply::Steps(one), Supply::Steps(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }

    /// Where it came from.
    pub fn source(&self) -> &Source {
        &self.source
    }
    /// Whether it is a list of opportunities, not of rates.
    pub fn is_opportunities(&self) -> bool {
        matches!(self.supply, Supply::Opportunities(..))
    }
    /// The part of the recorded rate that the link has.
    pub fn scale(&self) -> Ratio {
        self.scale
    }
    /// What follows its end.
    pub fn then(&self) -> Then {
        self.then
    }
    /// How long it is.
    pub fn period(&self) -> Span {
        self.period
    }
    /// The mean rate of one period, in bytes of full packets.
    pub fn mean(&self) -> Rate {
        self.mean_between(Instant::ZERO, Instant::ZERO + self.period)
    }
    /// The mean rate between two times, in bytes of full packets (an opportunity's header is no part of them).
    pub fn mean_between(&self, from: Instant, until: Instant) -> Rate {
        let ns = u128::from(until.since(from).as_nanos()).max(1);
        let work = self.supplied(until).saturating_sub(self.supplied(from));
        let bps = match self.supply {
            Supply::Opportunities(..) => {
                work / u128::from(OPPORTUNITY) * u128::from(OPPORTUNITY - OPPORTUNITY_HEADER) / ns
            }
            Supply::Steps(_) => work / ns,
        };
        Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
    }
    /// The highest mean of a tenth of a second.
    pub fn peak(&self) -> Rate {
        self.peak
    }
    fn highest(&self) -> Rate {
        let windows = self.period.as_nanos().div_ceil(PEAK_WINDOW.as_nanos()).min(PEAK_WINDOWS);
        let mean =
            |n| self.mean_between(Instant::ZERO + PEAK_WINDOW.times(n), Instant::ZERO + PEAK_WINDOW.times(n + 1));
        (0..windows).map(mean).max().unwrap_or_default().max(self.mean())
    }

    /// The work that a frame is.
    pub(super) fn work(&self, octets: usize) -> u128 {
        let header = if self.is_opportunities() && octets > 0 { u128::from(OPPORTUNITY_HEADER) } else { 0 };
        (octets as u128 + header) * PER_OCTET
    }

    /// The work that could be done from the start up to `now`, opportunities at `now` included.
    pub(super) fn supplied(&self, now: Instant) -> u128 {
        let (periods, inside) = (now.as_nanos() / self.period.as_nanos(), now.as_nanos() % self.period.as_nanos());
        if self.then == Then::End && periods > 0 {
            return self.total;
        }
        u128::from(periods) * self.total
            + match &self.supply {
                // The last opportunity is given when the period is over, so it does not count in the next one.
                Supply::Opportunities(ms, worth) => {
                    ms.partition_point(|at| u64::from(*at) * NS_PER_MS <= inside) as u128 * worth
                }
                Supply::Steps(steps) => {
                    let (start, before, bps) = steps[steps.partition_point(|step| step.0 <= inside) - 1];
                    before + u128::from(bps) * u128::from(inside - start)
                }
            }
    }

    /// When that much work is done, rounded up to a nanosecond; never after an end.
    pub(super) fn when(&self, work: u128) -> Instant {
        if work == 0 {
            return Instant::ZERO;
        }
        let (periods, rest) = ((work - 1) / self.total, (work - 1) % self.total + 1);
        if self.then == Then::End && periods > 0 {
            return Instant::FAR_FUTURE;
        }
        let inside = match &self.supply {
            Supply::Opportunities(ms, worth) => u64::from(ms[((rest - 1) / worth) as usize]) * NS_PER_MS,
            Supply::Steps(steps) => {
                let (start, before, bps) = steps[steps.partition_point(|step| step.1 < rest) - 1];
                start + (rest - before).div_ceil(u128::from(bps.max(1))) as u64
            }
        };
        let ns = periods * u128::from(self.period.as_nanos()) + u128::from(inside);
        Instant::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// The work that an opportunity is worth.
fn worth(scale: Ratio) -> u128 {
    u128::from(OPPORTUNITY) * PER_OCTET * u128::from(scale.num()) / u128::from(scale.den())
}

impl DelayTrace {
    /// The same recording, found at `source`, with another end, and other stretches; it shares this one's table.
    pub fn again(&self, source: Source, every: Span, then: Then) -> Result<Self, TraceError> {
        Self { source, then, every, ..self.clone() }.checked()
    }
    /// Octets of memory that its table takes, which its clones share.
    pub fn octets(&self) -> usize {
        size_of_val(&self.values[..])
    }
    /// Whether it shares the table of `other`.
    pub fn shares(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.values, &other.values)
    }
    /// One delay for each stretch of `every`.
    pub fn new(source: Source, values: Vec<Span>, every: Span, then: Then) -> Result<Self, TraceError> {
        count(values.len())?;
        let made = Self { source, values: values.into(), every, then }.checked()?;
        match made.values.iter().position(|delay| *delay > super::SPAN_MAX) {
            Some(entry) => Err(TraceError::Long { entry }),
            None => Ok(made),
        }
    }
    fn checked(self) -> Result<Self, TraceError> {
        let period = self.period();
        if self.every == Span::ZERO || period > PERIOD_MAX { Err(TraceError::Period(period)) } else { Ok(self) }
    }
    /// Where it came from.
    pub fn source(&self) -> &Source {
        &self.source
    }
    /// How long each delay stands.
    pub fn every(&self) -> Span {
        self.every
    }
    /// What follows its end.
    pub fn then(&self) -> Then {
        self.then
    }
    /// How long it is.
    pub fn period(&self) -> Span {
        self.every.times(self.values.len() as u64)
    }
    /// The longest delay.
    pub fn longest(&self) -> Span {
        self.values.iter().copied().max().unwrap_or_default()
    }
    /// The delay at a time.
    pub fn at(&self, now: Instant) -> Span {
        let step = now.as_nanos() / self.every.as_nanos();
        let last = self.values.len() as u64 - 1;
        let place = if self.then == Then::Wrap { step % (last + 1) } else { step.min(last) };
        self.values[place as usize]
    }
}

impl Source {
    /// A recording made by a program, for tests.
    pub fn made(name: &str) -> Self {
        Self { file: name.into(), sha256: String::new() }
    }
}

/// A recording has up to millions of entries; its name stands for them.
impl fmt::Debug for RateTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RateTrace({}, {} of it, {:?})", self.source.file, self.scale, self.then)
    }
}

impl fmt::Debug for DelayTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DelayTrace({}, every {}, {:?})", self.source.file, self.every, self.then)
    }
}
