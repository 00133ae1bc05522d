//! Queues of stations, as plain values: discipline, shares of airtime, a driver's ring and its airtime queue limits. They
//! are implemented in `stage`.

use super::aggregate::AGGREGATE_FRAMES;
use super::{ConfigError, WifiConfig};
use crate::cable::{Discipline, QueueLimit, Queueing};
use wavelane_base::Span;
use wavelane_queue::AqlTerms;

/// Most frames that may wait in one station.
pub const QUEUE_BOUND: usize = 1 << 16;
/// Most stations of a cell with airtime fairness: every such station has a queue per receiver.
pub const AIRTIME_STATIONS: usize = 64;
/// The longest airtime queue limit.
pub const AQL_MAX: Span = Span::from_millis(10_000);

/// The queue of a station, or with EDCA of each of its categories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StationQueue {
    /// Queue limit; with airtime fairness per receiver. Drop-tail counts frames, including the one in service.
    pub limit: QueueLimit,
    /// The discipline that selects the next frame and drops or marks.
    pub discipline: Discipline,
    /// Airtime fairness: one queue per receiver, with equal airtime.
    pub airtime: bool,
    /// Size in frames of a driver's ring behind it, not controlled by the discipline, from which aggregates are formed; 0 is
    /// none: frames leave the queue for the current or next transmission.
    pub ring: u64,
    /// Limits for pending airtime per receiver in the ring; needs `airtime` and a ring.
    pub aql: Option<AqlTerms>,
}

impl StationQueue {
    /// Whether it is more than drop-tail.
    pub fn is_managed(&self) -> bool {
        self.airtime || self.discipline != Discipline::Fifo
    }
    /// Most frames held by the driver: those of one transmission, or of a ring.
    fn limit(&self) -> usize {
        match (self.discipline, self.limit) {
            (Discipline::Fifo, QueueLimit::Packets(n)) => n as usize,
            _ => (2 * usize::from(AGGREGATE_FRAMES)).max(self.ring as usize),
        }
    }
    fn check(&self, station: usize, stations: usize) -> Result<(), ConfigError> {
        let refuse = |why| ConfigError::ManagedQueue { station, why };
        self.limit.check().map_err(refuse)?;
        Queueing { discipline: self.discipline, ring: self.ring }.check().map_err(refuse)?;
        let per_flow = matches!(self.discipline, Discipline::CoDel(_) | Discipline::FqCoDel(_) | Discipline::Cake(..));
        if self.airtime && (!per_flow || stations > AIRTIME_STATIONS) {
            return Err(ConfigError::Airtime(station));
        }
        if self.ring > 0 && !self.is_managed() {
            return Err(ConfigError::RingOfDropTail(station));
        }
        if let Some(terms) = self.aql {
            if !self.airtime || self.ring == 0 {
                return Err(ConfigError::AqlAlone(station));
            }
            let in_order = Span::ZERO < terms.low && terms.low <= terms.high && Span::ZERO < terms.broadcast;
            if !in_order || [terms.high, terms.threshold, terms.broadcast].iter().any(|limit| *limit > AQL_MAX) {
                return Err(ConfigError::AqlTerms(station));
            }
        }
        match (self.discipline, self.limit) {
            (_, QueueLimit::Packets(0)) => Err(ConfigError::Queue(0)),
            (Discipline::Fifo, QueueLimit::Packets(n)) if n > QUEUE_BOUND as u64 => Err(ConfigError::Queue(n as usize)),
            (Discipline::Fifo, QueueLimit::Octets(_) | QueueLimit::Bounded) => Err(ConfigError::FramesOnly(station)),
            _ => Ok(()),
        }
    }
}

impl WifiConfig {
    /// Most frames that a station's contender holds.
    pub(super) fn limit_of(&self, station: usize) -> usize {
        self.queues.get(&station).map_or(self.queue, StationQueue::limit)
    }
    pub(super) fn check_queues(&self) -> Result<(), ConfigError> {
        if !(1..=QUEUE_BOUND).contains(&self.queue) {
            return Err(ConfigError::Queue(self.queue));
        }
        let stations = self.reach.stations();
        for (&station, queue) in &self.queues {
            if station >= stations {
                return Err(ConfigError::Unknown { station, stations });
            }
            queue.check(station, stations)?;
        }
        Ok(())
    }
}
