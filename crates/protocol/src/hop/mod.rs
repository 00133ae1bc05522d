//! The block service on one hop: all flows with one peer, sans-IO. `docs/protocol/hop.md` is the prose twin.
//!
//! The link above owns session, lanes and lane acks. It asks [`Hop::fill`] for frames whenever a lane has room,
//! feeds received flow frames to [`Hop::handle_frame`], and reports the fate of everything carried through
//! [`Hop::delivered`] and [`Hop::lost`]. A session that dies reports everything it carried as lost.

mod types;

pub use types::{Carried, Counters, HopConfig, HopEvent, HopOpenError, HopStatus, Item, Path};

use std::net::SocketAddr;
use wavelane_base::{Class, Instant, ReadOutcome, Wakeup};
use wavelane_wire::Writer;
use wavelane_wire::frame::{FlowName, Frame, Reason};

/// All flows with one peer.
#[derive(Debug)]
pub struct Hop {
    counters: Counters,
}

impl Hop {
    /// An empty block service.
    pub fn new(_config: HopConfig) -> Self {
        Self { counters: Counters::default() }
    }
    /// Asks the peer to connect to `target` for the application at `source`.
    pub fn open(&mut self, _now: Instant, _source: SocketAddr, _target: SocketAddr) -> Result<FlowName, HopOpenError> {
        Err(HopOpenError::TableFull(0))
    }
    /// Answers an incoming flow: `None` accepts it.
    pub fn answer(&mut self, _now: Instant, _flow: FlowName, _refusal: Option<Reason>) {}
    /// Accepts as many bytes of `data` as there is room for; fewer than offered means a `Writable` event will follow.
    pub fn write(&mut self, _now: Instant, _flow: FlowName, _data: &[u8]) -> usize {
        0
    }
    /// Reads into `buf`.
    pub fn read(&mut self, _now: Instant, _flow: FlowName, _buf: &mut [u8]) -> ReadOutcome {
        ReadOutcome::Reset
    }
    /// Ends our direction in an orderly way, after everything written.
    pub fn shutdown(&mut self, _now: Instant, _flow: FlowName) {}
    /// Abandons both directions; the far application sees a reset. No event follows.
    pub fn reset(&mut self, _now: Instant, _flow: FlowName) {}
    /// Refreshes what the lanes know of the path.
    pub fn set_path(&mut self, _path: Path) {}
    /// The most urgent class with something to send now.
    pub fn wants(&self, _now: Instant) -> Option<Class> {
        None
    }
    /// Fills one datagram: appends whole frames of `class` and of more urgent classes, most urgent first, and what
    /// they are to `carried`. The last may be data to the datagram's end, so nothing may be appended after. Returns
    /// whether anything was written; everything written elicits a lane ack.
    pub fn fill(&mut self, _now: Instant, _class: Class, _w: &mut Writer<'_>, _carried: &mut Vec<Carried>) -> bool {
        false
    }
    /// Takes one received frame; frames that are not the block service's are ignored.
    pub fn handle_frame(&mut self, _now: Instant, _frame: &Frame<'_>) {}
    /// A lane ack showed that this arrived.
    pub fn delivered(&mut self, _now: Instant, _carried: Carried) {}
    /// This was lost, or its lane or session died before it was known to arrive. May be wrong.
    pub fn lost(&mut self, _now: Instant, _carried: Carried) {}
    /// The peer came back without its memory: every flow is reset.
    pub fn peer_restarted(&mut self, _now: Instant) {}
    /// Time has passed.
    pub fn handle_timeout(&mut self, _now: Instant) {}
    /// The next deadline.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        None
    }
    /// The next report, oldest first.
    pub fn poll_event(&mut self) -> Option<HopEvent> {
        None
    }
    /// What is held now.
    pub fn status(&self) -> HopStatus {
        HopStatus::default()
    }
    /// The counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}
