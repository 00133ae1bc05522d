//! What a host's program has read, processed by a separate thread: hashing in the link's thread would delay frames.

use super::ahead::PIECE;
use super::{Shared, lock};
use crate::LabError;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use wavelane_base::Instant;
use wavelane_run::ARRIVAL_BIN;

/// Maximum number of pieces queued for the thread; beyond that the link waits.
const PIECES_BEHIND: usize = 256;

/// Channel to the thread, open until the stream ends.
pub(super) struct Behind {
    pieces: Option<SyncSender<(Instant, Vec<u8>)>>,
    /// Collected bytes and the time of the latest read: waking the thread for each segment costs more than the segment.
    piece: (Instant, Vec<u8>),
    begun: bool,
    thread: Option<JoinHandle<()>>,
    inbox: Shared,
}

impl Behind {
    pub(super) fn new(inbox: &Shared) -> Result<Self, LabError> {
        let (pieces, arriving) = sync_channel::<(Instant, Vec<u8>)>(PIECES_BEHIND);
        let noting = Shared::clone(inbox);
        let note = move || {
            for (at, piece) in arriving {
                lock(&noting).received.note(Instant::ZERO, at, &piece);
            }
        };
        let thread = std::thread::Builder::new().name("reader".into()).spawn(note);
        let thread = thread.map_err(LabError::io("cannot start a thread; raise the process limit"))?;
        let piece = (Instant::ZERO, Vec::new());
        Ok(Self { pieces: Some(pieces), piece, begun: false, thread: Some(thread), inbox: Shared::clone(inbox) })
    }

    /// Records bytes that were read at `now`, on the run's clock.
    pub(super) fn note(&mut self, now: Instant, bytes: &[u8]) {
        let bin = |at: Instant| at.as_nanos() / ARRIVAL_BIN.as_nanos();
        let (latest, gathered) = &mut self.piece;
        // Within one bin only the time of the latest byte counts, except for the first byte of all.
        if bin(*latest) != bin(now) || gathered.len() >= PIECE {
            self.pass_on();
        }
        self.piece.0 = now;
        self.piece.1.extend_from_slice(bytes);
        if !std::mem::replace(&mut self.begun, true) {
            self.pass_on();
        }
    }

    fn pass_on(&mut self) {
        let (at, piece) = (self.piece.0, std::mem::take(&mut self.piece.1));
        if let (Some(pieces), false) = (&self.pieces, piece.is_empty()) {
            // The thread runs until its channel is closed.
            let _ = pieces.send((at, piece));
        }
    }

    /// Marks the end of the stream.
    pub(super) fn end(&mut self) {
        self.settle();
        lock(&self.inbox).ended = true;
    }

    /// Waits until everything recorded is in the inbox.
    fn settle(&mut self) {
        self.pass_on();
        self.pieces = None;
        if let Some(thread) = self.thread.take() {
            // It can only panic on a poisoned lock, and that message has already been printed.
            let _ = thread.join();
        }
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn read_bytes_are_in_the_inbox_at_the_end() {
        for ends in [true, false] {
            let inbox = Shared::default();
            let mut behind = Behind::new(&inbox).unwrap();
            let mut at_once = crate::content::Received::default();
            for i in 0..2_000u64 {
                // Several per bin, and one longer than a piece.
                let (at, len) = (Instant::from_micros(300 * i + 7), if i == 500 { PIECE + 1 } else { 900 });
                behind.note(at, &vec![i as u8; len]);
                at_once.note(Instant::ZERO, at, &vec![i as u8; len]);
            }
            if ends {
                behind.end();
            }
            drop(behind);
            let inbox = lock(&inbox);
            let seen = |r: &crate::content::Received| (r.octets, r.first_ns, r.last_ns, r.arrivals.clone(), r.hash());
            assert_eq!(seen(&inbox.received), seen(&at_once));
            assert_eq!(inbox.ended, ends);
        }
    }
}
