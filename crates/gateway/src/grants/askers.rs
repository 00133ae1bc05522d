//! Who asks for turns on a medium: a sender alone needs none.

use super::PeerId;
use std::collections::BTreeMap;
use wavelane_base::{Instant, Span};

/// A sender that did not ask for this long does not contend any more. Several senders with much to send ask once a round of turns, which
/// of ten of them takes less.
const LATELY: Span = Span::from_secs(3);

/// Which others ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// Nobody else.
    Alone,
    /// That one, which was alone until now.
    Beside(PeerId),
    /// Some.
    Among,
}

/// The peers that asked lately, with the last time: no more than there are peers.
#[derive(Debug, Default)]
pub(super) struct Askers {
    heard: BTreeMap<PeerId, Instant>,
    /// The only one; it need not ask.
    alone: Option<PeerId>,
}

impl Askers {
    /// A peer asks; `idle` if nobody has a turn.
    pub(super) fn note(&mut self, now: Instant, peer: PeerId, idle: bool) -> Asked {
        if self.alone == Some(peer) {
            return Asked::Alone;
        }
        self.heard.retain(|_, at| now.since(*at) <= LATELY);
        self.heard.insert(peer, now);
        if let Some(other) = self.alone.take() {
            self.heard.insert(other, now);
            return Asked::Beside(other);
        }
        if self.heard.len() == 1 && idle {
            self.alone = Some(peer);
            return Asked::Alone;
        }
        Asked::Among
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_alone_until_another_asks_and_again_when_that_is_silent() {
        let mut askers = Askers::default();
        let [one, two] = [PeerId(1), PeerId(2)];
        let at = Instant::from_millis;
        assert_eq!(askers.note(at(0), one, true), Asked::Alone);
        assert_eq!(askers.note(at(9_000), one, true), Asked::Alone);
        assert_eq!(askers.note(at(9_001), two, true), Asked::Beside(one));
        assert_eq!(askers.note(at(9_100), one, true), Asked::Among);
        assert_eq!(askers.note(at(12_000), one, true), Asked::Among, "the other asked 2,999 ms ago");
        assert_eq!(askers.note(at(12_002), one, false), Asked::Among, "somebody has a turn");
        assert_eq!(askers.note(at(12_003), one, true), Asked::Alone);
    }
}
