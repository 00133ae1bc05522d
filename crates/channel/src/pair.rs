//! What media between two ports share: a drop-tail queue at either port, frames to be fetched at the other, counters.

use crate::cable::{FRAME_MAX, Tally};
use std::collections::VecDeque;
use wavelane_base::{Ecn, FrameMeta, PortId, Transmit};

/// Most frames that wait at a port.
pub const PAIR_QUEUE_MAX: usize = 1 << 16;

/// What became of the frames handed in at one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PairCounters {
    /// Handed in.
    pub offered: Tally,
    /// Came out at the other port.
    pub delivered: Tally,
    /// Found the queue full.
    pub full: Tally,
    /// Longer than a frame may be, or than the buffer at the other port.
    pub oversize: Tally,
    /// Given up after the last repetition.
    pub given_up: Tally,
    /// Pieces sent: baseband packets or blocks, repetitions included.
    pub pieces: u64,
    /// Pieces repeated.
    pub repeated: u64,
}

/// A frame with its mark.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ecn: Ecn,
}

/// The frames of one direction.
#[derive(Debug)]
pub(crate) struct Side {
    waiting: VecDeque<Held>,
    limit: usize,
    ready: VecDeque<Held>,
    pub(crate) counters: PairCounters,
}

impl Side {
    pub(crate) fn new(limit: usize) -> Self {
        let counters = PairCounters::default();
        Self { waiting: VecDeque::new(), limit: limit.min(PAIR_QUEUE_MAX), ready: VecDeque::new(), counters }
    }

    /// Takes a frame, if there is room.
    pub(crate) fn push(&mut self, bytes: Vec<u8>, meta: &FrameMeta) {
        self.counters.offered.add(bytes.len());
        if bytes.len() > FRAME_MAX {
            self.counters.oversize.add(bytes.len());
        } else if self.waiting.len() >= self.limit {
            self.counters.full.add(bytes.len());
        } else {
            self.waiting.push_back(Held { bytes, ecn: meta.ecn });
        }
    }

    /// Takes a frame, or a batch of frames of equal size.
    pub(crate) fn push_batch(&mut self, frame: &[u8], meta: &FrameMeta) {
        match meta.segment {
            Some(size) if size > 0 && usize::from(size) < frame.len() => {
                frame.chunks(usize::from(size)).for_each(|segment| self.push(segment.to_vec(), meta));
            }
            _ => self.push(frame.to_vec(), meta),
        }
    }

    /// The next frame to send.
    pub(crate) fn pop(&mut self) -> Option<Held> {
        self.waiting.pop_front()
    }

    /// Whether no frame waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// A frame has arrived.
    pub(crate) fn arrive(&mut self, frame: Held) {
        self.ready.push_back(frame);
    }

    /// The next frame that has arrived, with its memory.
    pub(crate) fn take(&mut self) -> Option<(Ecn, Vec<u8>)> {
        let frame = self.ready.pop_front()?;
        self.counters.delivered.add(frame.bytes.len());
        Some((frame.ecn, frame.bytes))
    }

    /// Writes it into `buf`.
    pub(crate) fn write(&mut self, buf: &mut [u8]) -> Option<Transmit> {
        while let Some(frame) = self.ready.pop_front() {
            let len = frame.bytes.len();
            if let Some(room) = buf.get_mut(..len) {
                room.copy_from_slice(&frame.bytes);
                self.counters.delivered.add(len);
                return Some(Transmit { len, ecn: frame.ecn, ..Transmit::default() });
            }
            self.counters.oversize.add(len);
        }
        None
    }
}

/// The side of frames handed in at `port`; those that come out there are the other's.
pub(crate) fn side_of(port: PortId) -> usize {
    match port.0 {
        0 | 1 => usize::from(port.0),
        other => panic!("a medium between two ports has ports 0 and 1; the wiring names port {other}"),
    }
}
