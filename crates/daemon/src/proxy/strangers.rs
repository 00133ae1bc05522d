//! Ends of connections that a process before this one had and left behind: nobody knows their other halves.
//!
//! Their packets look like those of connections that pass by. The kernel tracks these, for their first packet went plainly; what it does
//! not know is an orphan.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use wavelane_host::conntrack::Conntrack;
use wavelane_wire::tcp::{Flags, TcpPacket};

/// Plain connections known to be such; with more, all that comes passes by from then on.
const PLAIN_MAX: usize = 65_536;

/// See the module's description.
pub(super) struct Strangers {
    kernel: Conntrack,
    plain: BTreeSet<(SocketAddr, SocketAddr)>,
    full: bool,
}

impl Strangers {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self { kernel: Conntrack::open()?, plain: BTreeSet::new(), full: false })
    }
    /// A connection begins that passes by.
    pub(super) fn passes(&mut self, ends: (SocketAddr, SocketAddr)) {
        self.full |= self.plain.len() >= PLAIN_MAX;
        if !self.full {
            self.plain.insert((ends.0.min(ends.1), ends.0.max(ends.1)));
        }
    }
    /// Whether a packet, which is of no connection of ours, is an orphan's, to be answered by a reset.
    pub(super) fn is_orphan(&mut self, packet: &[u8]) -> bool {
        let Ok(segment) = TcpPacket::parse(packet) else { return false };
        let (source, target, flags) = (segment.source, segment.target, segment.header.flags);
        let known = self.plain.contains(&(source.min(target), source.max(target)));
        if self.full || known || flags.has(Flags::SYN) || flags.has(Flags::RST) {
            return false;
        }
        // Who cannot be asked says nothing against it.
        let plain = self.kernel.knows(source, target).unwrap_or(true);
        if plain {
            self.passes((source, target));
        }
        !plain
    }
}
