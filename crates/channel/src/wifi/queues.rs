//! Queues of stations, as plain values: discipline, shares of airtime, a driver's ring and its airtime queue limits. What they do
//! is in `stage`.

use super::aggregate::AGGREGATE_FRAMES;
use super::{ConfigError, WifiConfig};
use crate::cable::{Discipline, QueueLimit, Queueing};
use wavelane_base::Span;
use wavelane_queue::AqlTerms;

/// Most frames that may wait in one station.
pub const QUEUE_BOUND: usize = 1 << 16;
/// Most stations of a cell in which airtime is shared: each receiver has a queue of its own in every such station.
pub const AIRTIME_STATIONS: usize = 64;
/// The longest airtime queue limit.
pub const AQL_MAX: Span = Span::from_millis(10_000);

/// The queue of a station, or with EDCA of each of its categories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StationQueue {
    /// How much may wait; with airtime fairness for each receiver. Drop-tail counts frames, the one in service too.
    pub limit: QueueLimit,
    /// What decides which frame is next, and which is dropped or marked.
    pub discipline: Discipline,
    /// One queue for each receiver, whose turns are equal in airtime.
    pub airtime: bool,
    /// Frames of a driver's ring behind it, out of reach of the discipline, which aggregates are made of; 0 is none: frames
    /// leave the queue for the transmission under way or the next.
    pub ring: u64,
    /// How much airtime may be pending in the ring for a receiver; needs `airtime` and a ring.
    pub aql: Option<AqlTerms>,
}

impl StationQueue {
    /// Whether it is more than drop-tail.
    pub fn is_managed(&self) -> bool {
        self.airtime || self.discipline != Discipline::Fifo
    }
    /// Most frames that leave it for the driver: what one transmission holds is taken out of it, or what a ring does.
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
