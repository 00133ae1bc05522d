//! What a guest's program has read, looked at by a thread of its own: hashing in the link's thread would delay frames.

use super::{Shared, lock};
use crate::LabError;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use wavelane_base::Instant;

/// Pieces that wait for the thread at the most; then the link waits. A piece is what one segment or more let the program
/// read.
const PIECES_BEHIND: usize = 4_096;

/// The way to the thread, until the stream ends.
pub(super) struct Behind {
    pieces: Option<SyncSender<(Instant, Vec<u8>)>>,
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
        Ok(Self { pieces: Some(pieces), thread: Some(thread), inbox: Shared::clone(inbox) })
    }

    /// Notes bytes that were read at `now`, on the run's clock.
    pub(super) fn note(&self, now: Instant, bytes: &[u8]) {
        if let Some(pieces) = &self.pieces {
            // The thread goes on until this is dropped.
            let _ = pieces.send((now, bytes.to_vec()));
        }
    }

    /// The stream is over.
    pub(super) fn end(&mut self) {
        self.settle();
        lock(&self.inbox).ended = true;
    }

    /// Waits until all that was noted is in the inbox.
    fn settle(&mut self) {
        self.pieces = None;
        if let Some(thread) = self.thread.take() {
            // It cannot panic but for a poisoned allocation, whose message stands above.
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
    fn what_was_read_is_in_the_inbox_when_the_stream_ends_or_is_given_up() {
        for ends in [true, false] {
            let inbox = Shared::default();
            let mut behind = Behind::new(&inbox).unwrap();
            for i in 0..1_000u64 {
                behind.note(Instant::from_millis(i), &[i as u8; 100]);
            }
            if ends {
                behind.end();
            }
            drop(behind);
            let inbox = lock(&inbox);
            assert_eq!((inbox.received.octets, inbox.ended), (100_000, ends));
            assert_eq!(inbox.received.last_ns, Some(999_000_000));
        }
    }
}
