//! Bodies made ahead of the programs that send them, so that a program only copies: a kernel's and ours refill a send
//! buffer equally fast, and ours, which runs in the link's thread, delays no frame meanwhile.

use crate::LabError;
use crate::content::Content;
use std::io::Read;
use std::sync::mpsc::{Receiver, sync_channel};

/// Bytes that a program moves at once.
pub(super) const PIECE: usize = 64 << 10;
/// Pieces in store: more than the third of a send buffer of 4 MiB that is refilled at once.
const PIECES_AHEAD: usize = 32;

/// A body that a thread makes. The thread ends with the body, or when this is dropped.
pub(super) struct Ahead(Receiver<Vec<u8>>);

impl Ahead {
    pub(super) fn new(mut body: Content) -> Result<Self, LabError> {
        let (store, pieces) = sync_channel(PIECES_AHEAD);
        let make = move || {
            let mut piece = vec![0; PIECE];
            // Making content cannot fail; an end without a hash would show as a flow that is not intact.
            while let Ok(len @ 1..) = body.read(&mut piece) {
                if store.send(piece[..len].to_vec()).is_err() {
                    return;
                }
            }
        };
        let spawned = std::thread::Builder::new().name("content".into()).spawn(make);
        spawned.map_err(LabError::io("cannot start a thread; raise the process limit"))?;
        Ok(Self(pieces))
    }

    /// The next piece, as soon as it is made; `None` at the end.
    pub(super) fn wait(&self) -> Option<Vec<u8>> {
        self.0.recv().ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use wavelane_base::Seed;

    #[test]
    fn a_body_made_ahead_is_the_body() {
        let len = (PIECES_AHEAD + 2) * PIECE + 5;
        let body = || Content::new(Seed(3), "page", len as u64);
        let mut whole = Vec::new();
        body().read_to_end(&mut whole).unwrap();
        let ahead = Ahead::new(body()).unwrap();
        let mut pieces = Vec::new();
        while let Some(piece) = ahead.wait() {
            pieces.extend(piece);
        }
        assert_eq!(pieces, whole);
        assert_eq!(ahead.wait(), None);
    }
}
