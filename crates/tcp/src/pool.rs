//! What all connections of a host share: the bytes that wait, and the windows that promise room for more.
//!
//! A window is announced out of what is left and counted until its data are read, so that readers that stop do not take what others
//! were promised. A connection on which nothing has come for a while is not counted, since thousands are idle at a time: its data are
//! vouched for anew as they come.

use super::config::Config;
use super::connection::Connection;
use super::host::HALF_OPEN_MAX;
use super::receive::Receiver;
use std::collections::VecDeque;
use wavelane_base::{FlowId, Instant, Span};

/// What a connection may hold in each direction whatever others do, where segments are no longer than Ethernet's.
const OWN: usize = 4_096;
/// Beyond that a direction of a connection may hold this part of what is left: one alone, a fifth of all.
pub const MEMORY_SHARE: usize = 4;
/// The same until something was read there, since a reader that stops keeps what it was promised first: 64 KiB while 2 MiB are left.
const UNREAD_SHARE: usize = 31;
/// The same while it opens: as many SYNs with invented sources as a host keeps leave a third of it to others.
const OPENING_SHARE: usize = HALF_OPEN_MAX - 1;
/// A connection is idle when nothing has come for so long: a sender's first timeout and the next (RFC 6298) are over.
const IDLE: Span = Span::from_secs(3);

/// What each may hold whatever others do: with less than two segments, or than its scaled window can say, it would stand still.
pub fn memory_own<'a>(configs: impl IntoIterator<Item = &'a Config>) -> usize {
    let least = |config: &Config| (2 * usize::from(config.mss)).max(1 << Receiver::shift(config));
    configs.into_iter().map(least).fold(OWN, usize::max)
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Pool {
    /// Bytes in all buffers.
    pub(super) held: usize,
    /// What is held or promised beyond what each connection may hold by itself.
    beyond: usize,
    /// The most of all, and what each may hold by itself.
    bounds: Option<(usize, usize)>,
    /// Connections with such a promise, and some that had one, each once.
    pub(super) promised: VecDeque<FlowId>,
}

impl Pool {
    pub(super) fn bound<'a>(&mut self, most: usize, own: usize, all: impl Iterator<Item = &'a Connection>) {
        self.bounds = Some((most, own));
        self.beyond = all.flat_map(|connection| self.beyond(connection)).sum();
    }
    /// What a connection holds or was promised beyond its own: to be read, and to be sent.
    fn beyond(&self, connection: &Connection) -> [usize; 2] {
        let own = self.bounds.map_or(usize::MAX, |(_, own)| own);
        connection.committed().map(|octets| octets.saturating_sub(own))
    }
    /// Whether its promise is one that may be withdrawn.
    pub(super) fn promises(&self, connection: &Connection) -> bool {
        self.beyond(connection)[0] > 0
    }
    /// Applies `action` to one of `count` connections, which may hold or promise its part of what is left.
    pub(super) fn within<T>(
        &mut self,
        count: usize,
        connection: &mut Connection,
        action: impl FnOnce(&mut Connection) -> T,
    ) -> T {
        let (held, beyond) = (connection.held(), self.beyond(connection));
        if let Some((most, own)) = self.bounds {
            let left = most.saturating_sub(self.beyond + 2 * own * count);
            // What it has is part of what it shares, so that it may keep what it was promised while nobody else wants more.
            let part = |mine, share| own + (left + mine) / (share + 1);
            let share = match connection.state() {
                state if state.opens() => OPENING_SHARE,
                _ if connection.receiver.was_read() => MEMORY_SHARE,
                _ => UNREAD_SHARE,
            };
            connection.set_spare([part(beyond[0], share), part(beyond[1], MEMORY_SHARE)]);
        }
        let result = action(connection);
        self.held = self.held + connection.held() - held;
        let after: usize = self.beyond(connection).iter().sum();
        self.beyond = self.beyond + after - beyond.iter().sum::<usize>();
        result
    }
    /// A connection that had a promise is looked at. Whether it is idle: then the promise no longer counts.
    pub(super) fn withdraws(&mut self, now: Instant, connection: &mut Connection) -> bool {
        let is_idle = now.since(connection.receiver.latest()) >= IDLE;
        if is_idle {
            let before = self.beyond(connection)[0];
            connection.receiver.withdraw();
            self.beyond = self.beyond + self.beyond(connection)[0] - before;
        }
        is_idle
    }
    pub(super) fn forget(&mut self, connection: &Connection) {
        self.held -= connection.held();
        self.beyond -= self.beyond(connection).iter().sum::<usize>();
    }
}
