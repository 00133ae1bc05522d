//! The machine itself: data in and out, timers, reports.

use super::handshake::ReplyOut;
use super::keylog::KeyLog;
use super::mac::{Guard, MacKeys};
use super::noise::{Statics, public_key};
use super::peer::{Peer, WayOut};
use super::{
    DropReason, EVENTS_MAX, Incoming, LANES_MAX, NOTICE_WINDOW, NOTICES_PER_WINDOW_MAX, Origin, REJECT_AFTER,
    REKEY_AFTER_PACKETS, SessionEvent, SessionsConfig, Way,
};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use wavelane_base::{Address, Entropy, Instant, PortId, Wakeup};
use wavelane_wire::datagram::{DATA_HEADER_LEN, DataHeader, NUMBER_MAX, OPEN_LEN_LEN, TAG_LEN, kind};
use wavelane_wire::keylog::LoggedKey;

/// Every key and handshake of one node.
pub struct Sessions {
    pub(super) statics: Arc<Statics>,
    pub(super) public_key: [u8; 32],
    pub(super) boot_epoch: u64,
    pub(super) aes: bool,
    pub(super) overhear: bool,
    pub(super) compress: bool,
    pub(super) entropy: Entropy,
    /// The mac keys of our own public key, for others' messages to us.
    pub(super) mac: MacKeys,
    pub(super) guard: Guard,
    pub(super) peers: Vec<Peer>,
    /// Removed neighbours, without keys; they keep their numbers.
    pub(super) shelf: Vec<Peer>,
    /// Our handshakes since boot.
    pub(super) init_counter: u64,
    /// Peers with a handshake message that waits for room on a port.
    pub(super) due: BTreeSet<usize>,
    pub(super) replies: VecDeque<ReplyOut>,
    events: VecDeque<SessionEvent>,
    pub(super) keys: KeyLog,
    notice_window: Instant,
    notices: u32,
    dropped: [u64; DropReason::ALL.len()],
}

impl Sessions {
    /// Creates it. No handshake starts before [`Sessions::want`].
    pub fn new(now: Instant, config: SessionsConfig, mut entropy: Entropy) -> Self {
        let public_key = public_key(&config.private_key);
        Self {
            // Handshakes with peers are rare.
            statics: Statics::new(config.private_key, []),
            public_key,
            boot_epoch: config.boot_epoch,
            aes: config.aes,
            overhear: config.overhear,
            compress: config.compress,
            guard: Guard::new(now, &mut entropy),
            entropy,
            mac: MacKeys::new(&public_key),
            peers: config.peers.into_iter().map(Peer::new).collect(),
            shelf: Vec::new(),
            init_counter: 0,
            due: BTreeSet::new(),
            replies: VecDeque::new(),
            events: VecDeque::new(),
            keys: KeyLog::new(config.log_keys),
            notice_window: now,
            notices: 0,
            dropped: [0; DropReason::ALL.len()],
        }
    }

    /// Our static public key.
    pub fn own_key(&self) -> [u8; 32] {
        self.public_key
    }

    /// The next data key that was agreed on, if they are logged; oldest first.
    pub fn poll_key(&mut self) -> Option<LoggedKey> {
        self.keys.take()
    }

    /// Data waits for `peer` (or no longer): starts and keeps a session. Repeated calls are free.
    ///
    /// A peer without a known address is not called; it has to call us.
    pub fn want(&mut self, now: Instant, peer: usize, wanted: bool) {
        let p = &mut self.peers[peer];
        if p.wanted == wanted {
            return;
        }
        p.wanted = wanted;
        if wanted {
            self.advance(now, peer);
        } else {
            // The next call restarts the count; the current back-off remains.
            p.tries = 0;
            if let Some(initiation) = &mut p.initiation {
                initiation.due.clear();
            }
        }
    }

    /// The owner has evidence that `peer` lost its keys (several tail probes unanswered): starts a handshake now, although there are keys,
    /// which stay in use meanwhile. Does nothing unless the peer is wanted.
    pub fn suspect(&mut self, now: Instant, peer: usize) {
        let p = &mut self.peers[peer];
        if p.wanted && p.current.is_some() {
            p.suspected.get_or_insert(now);
            self.advance(now, peer);
        }
    }

    /// If there are no keys for `peer` and it can be called: it is called now, whether or not a call is due. Returns whether it is.
    pub fn call_now(&mut self, now: Instant, peer: usize) -> bool {
        self.advance(now, peer);
        if self.peers[peer].can_seal(now) || !self.peers[peer].can_be_called() {
            return false;
        }
        if self.peers[peer].initiation.is_none() {
            self.start_initiation(now, peer);
        }
        let p = &mut self.peers[peer];
        let ways: Vec<usize> = p.callable().collect();
        if let Some(initiation) = &mut p.initiation {
            initiation.tried = false;
            initiation.due.extend(ways);
        }
        self.due.insert(peer);
        true
    }

    /// Handles one received datagram. Data is opened in place.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        port: PortId,
        datagram: &mut [u8],
        from: impl Into<Origin>,
    ) -> Incoming {
        let from = from.into();
        let incoming = match datagram.first() {
            Some(&(kind::DATA | kind::DATA_OPEN)) => {
                self.handle_data(now, datagram, from).unwrap_or_else(Incoming::Dropped)
            }
            Some(&(kind::HANDSHAKE_INIT | kind::HANDSHAKE_RESPONSE)) => {
                self.handle_handshake(now, (port, from), datagram)
            }
            Some(&kind::COOKIE_REPLY) => self.handle_cookie_reply(now, datagram),
            Some(&kind::UNKNOWN_KEY) => self.handle_unknown_key(now, datagram),
            _ => Incoming::Dropped(DropReason::Malformed),
        };
        if let Incoming::Dropped(reason) = incoming {
            self.dropped[reason as usize] += 1;
        }
        incoming
    }

    fn handle_data(&mut self, now: Instant, datagram: &mut [u8], origin: Origin) -> Result<Incoming, DropReason> {
        let header = DataHeader::parse(datagram).map_err(|_| DropReason::Malformed)?;
        if usize::from(header.lane) >= LANES_MAX {
            return Err(DropReason::Lane);
        }
        let peer = self.peer_of(header.receiver).ok_or(DropReason::UnknownSession)?;
        let p = &self.peers[peer];
        let session = p.sessions().find(|s| s.index == header.receiver).ok_or(DropReason::UnknownSession)?;
        if session.age(now) >= REJECT_AFTER {
            return Err(DropReason::Expired);
        }
        // A new epoch starts with empty windows, so its first data cannot be a replay.
        let same_epoch = p.epoch == Some(session.epoch);
        if same_epoch && !p.is_new(header.lane, header.number) {
            return Err(DropReason::Replayed);
        }
        let partly = datagram[0] == kind::DATA_OPEN;
        let opened = match partly {
            true => session.open_partly(header, datagram).map(|(len, open)| (len, Some(open))),
            false => session.open(header, datagram).map(|len| (len, None)),
        };
        let (len, open) = opened.ok_or(DropReason::Forged)?;
        let confirms = p.answered.as_ref().is_some_and(|a| a.session.index == header.receiver);
        let established = if confirms { self.confirm_answered(now, peer, origin.from) } else { None };
        let p = &mut self.peers[peer];
        p.unanswered_since = None;
        p.suspected = None;
        let newest = p.commit(header.lane, header.number);
        let payload = DATA_HEADER_LEN..DATA_HEADER_LEN + len;
        Ok(Incoming::Data { peer, lane: header.lane, number: header.number, payload, newest, established, open })
    }

    /// The peer of one of our indices: it can be derived from the index as long as no peer is added or removed.
    pub(super) fn peer_of(&self, index: u32) -> Option<usize> {
        let likely = (index as usize).checked_rem(self.peers.len())?;
        if self.peers[likely].uses(index) {
            return Some(likely);
        }
        self.peers.iter().position(|p| p.uses(index))
    }

    /// Whether [`Sessions::seal`] would succeed now.
    pub fn can_seal(&self, now: Instant, peer: usize) -> bool {
        self.peers[peer].can_seal(now)
    }

    /// Whether the peer takes partly open datagrams now, and reports what it overhears.
    pub fn overhears(&self, peer: usize) -> bool {
        self.peers[peer].current.as_ref().is_some_and(|session| session.overhears)
    }

    /// Whether the peer takes packets now that are told by an earlier one's headers.
    pub fn compresses(&self, peer: usize) -> bool {
        self.peers[peer].current.as_ref().is_some_and(|session| session.compresses)
    }

    /// Seals the `plain_len` bytes at `buf[DATA_HEADER_LEN..]` in place, writes the header before and the tag behind them, and returns the
    /// datagram's length. `None` if there is no session, or if `number` is past [`NUMBER_MAX`].
    ///
    /// # Panics
    /// If `number` is not greater than every earlier one of this lane (a repeated nonce reveals the plaintexts), if `lane` is not below
    /// [`LANES_MAX`], or if `buf` has no room for header, plaintext and tag.
    pub fn seal(
        &mut self,
        now: Instant,
        peer: usize,
        lane: u8,
        number: u64,
        buf: &mut [u8],
        plain_len: usize,
    ) -> Option<usize> {
        self.seal_partly(now, peer, (lane, number), buf, (plain_len, 0))
    }

    /// The same of a plaintext whose last `open` octets anyone may read: they are authenticated, not encrypted, if the peer takes that. It
    /// needs [`OPEN_LEN_LEN`] octets of room besides.
    ///
    /// # Panics
    /// As [`Sessions::seal`], or if there are not so many octets.
    pub fn seal_partly(
        &mut self,
        now: Instant,
        peer: usize,
        (lane, number): (u8, u64),
        buf: &mut [u8],
        (plain_len, open): (usize, usize),
    ) -> Option<usize> {
        let around = DATA_HEADER_LEN + TAG_LEN + if open > 0 { OPEN_LEN_LEN } else { 0 };
        assert!(usize::from(lane) < LANES_MAX, "lane {lane} is not below {LANES_MAX}");
        assert!(buf.len() >= plain_len + around, "no room for header, plaintext and tag");
        assert!(open <= plain_len && open <= usize::from(u16::MAX), "no {open} octets of {plain_len} can be open");
        let p = &mut self.peers[peer];
        if number > NUMBER_MAX || !p.can_seal(now) {
            return None;
        }
        p.take_number(lane, number);
        let session = p.current.as_mut()?;
        let len = session.seal_partly(lane, number, buf, (plain_len, open));
        let rekey = session.sealed == REKEY_AFTER_PACKETS;
        p.unanswered_since.get_or_insert(now);
        if rekey {
            self.advance(now, peer);
        }
        Some(len)
    }

    /// Sets the destination of a way to the peer.
    pub fn set_address(&mut self, now: Instant, peer: usize, way: usize, address: Address) {
        let way = &mut self.peers[peer].ways[way];
        if way.address != Some(address) {
            way.address = Some(address);
            self.advance(now, peer);
        }
    }

    /// The peer's newest datagram on the reverse of a way arrived at `local`, one of our addresses.
    pub fn set_local(&mut self, peer: usize, way: usize, local: Option<IpAddr>) {
        self.peers[peer].ways[way].local = local;
    }

    /// The destination of a way to the peer is no longer known.
    pub fn forget_address(&mut self, peer: usize, way: usize) {
        let way = &mut self.peers[peer].ways[way];
        way.address = None;
        way.local = None;
    }

    /// Adds a way to the peer.
    ///
    /// # Panics
    /// If it has [`LANES_MAX`].
    pub fn add_way(&mut self, peer: usize, way: Way) {
        let ways = &mut self.peers[peer].ways;
        assert!(ways.len() < LANES_MAX, "ways are lanes, which are numbered below {LANES_MAX}");
        ways.push(WayOut::new(way));
    }

    /// The number of ways to the peer.
    pub fn ways(&self, peer: usize) -> usize {
        self.peers[peer].ways.len()
    }

    /// The destination of a way to the peer.
    pub fn address(&self, peer: usize, way: usize) -> Option<Address> {
        self.peers[peer].ways[way].address
    }

    /// Our source address on a way to the peer; `None` leaves it to the system.
    pub fn local(&self, peer: usize, way: usize) -> Option<IpAddr> {
        self.peers[peer].ways[way].local
    }

    /// Whether nothing is received on a way to the peer.
    pub fn is_one_way(&self, peer: usize, way: usize) -> bool {
        self.peers[peer].ways[way].one_way
    }

    /// The port of a way to the peer; `None` if the way was removed.
    pub fn port(&self, peer: usize, way: usize) -> Option<PortId> {
        self.peers[peer].ways[way].port
    }

    /// The peer's boot epoch, once there was a session.
    pub fn epoch(&self, peer: usize) -> Option<u64> {
        self.peers[peer].epoch
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        for peer in 0..self.peers.len() {
            if self.peers[peer].wakeup().is_some_and(|w| w.at <= now) {
                self.advance(now, peer);
            }
        }
    }

    /// The next deadline.
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        self.peers.iter().map(Peer::wakeup).fold(None, Wakeup::earliest)
    }

    /// The next report, oldest first.
    pub fn poll_event(&mut self) -> Option<SessionEvent> {
        self.events.pop_front()
    }

    /// Dropped datagrams by reason: (`dropped_<reason>`, how many), always all reasons in the same order.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        DropReason::ALL.iter().map(|r| (r.name(), self.dropped[*r as usize])).collect()
    }

    pub(super) fn report(&mut self, event: SessionEvent) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        }
    }

    /// Reports something that strangers or broken peers cause, possibly often. Returns whether it did.
    pub(super) fn notice(&mut self, now: Instant, event: SessionEvent) -> bool {
        if now.since(self.notice_window) >= NOTICE_WINDOW {
            self.notice_window = now;
            self.notices = 0;
        }
        let few = self.notices < NOTICES_PER_WINDOW_MAX;
        if few {
            self.notices += 1;
            self.report(event);
        }
        few
    }
}

impl core::fmt::Debug for Sessions {
    /// Shows no keys.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sessions").field("peers", &self.peers.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
