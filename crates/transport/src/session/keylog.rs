//! Data keys on request, to decrypt captures, like TLS key logs.

use super::keys::Outcome;
use std::collections::VecDeque;
use wavelane_wire::keylog::LoggedKey;

/// Keys waiting for [`super::Sessions::poll_key`]; more are dropped.
pub const KEYS_MAX: usize = 256;

/// The keys that were not taken yet; `None` if they are not to be logged.
pub(super) struct KeyLog(Option<VecDeque<LoggedKey>>);

impl KeyLog {
    pub(super) fn new(wanted: bool) -> Self {
        Self(wanted.then(VecDeque::new))
    }
    /// Logs both directions of a session.
    pub(super) fn note(&mut self, session: &Outcome) {
        let Some(waiting) = &mut self.0 else { return };
        let (initiator, responder) =
            if session.initiator { (session.index, session.peer_index) } else { (session.peer_index, session.index) };
        for (receiver, key) in [(responder, session.split.0), (initiator, session.split.1)] {
            if waiting.len() < KEYS_MAX {
                waiting.push_back(LoggedKey { receiver, suite: session.suite, key });
            }
        }
    }
    pub(super) fn take(&mut self) -> Option<LoggedKey> {
        self.0.as_mut()?.pop_front()
    }
}
