//! Outages of connections on the kernel's sockets: one of each address that is silent tries often, and all there go on with its first answer,
//! or when a link comes up, where the kernel would wait until its doubled timeout is over.

use crate::config::marks::MARK_DIVERT;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use wavelane_base::{Instant, Span};
use wavelane_door::{Refusal, Syn, Unreachable};
use wavelane_host::outage::{oldest_unacknowledged, tries};
use wavelane_host::raw::RawSender;
use wavelane_wire::tcp::{Flags, TcpHeader, TcpPacket};

/// How often a silent address is tried, and connections are looked at.
pub(super) const PROBE: Span = Span::from_millis(200);
/// Connections looked at for whether they fell silent, each time.
const LOOKED_AT: usize = 256;
/// A single timeout may have been congestion.
const UNANSWERED_LEAST: u8 = 2;
/// Tries are as far apart as this part of the outage so far: each is a full segment, of which a thin line carries few.
const OUTAGE_SHARE: u64 = 8;
/// From so many tries on the kernel's timeouts stand: its count of them begins anew at 256, which would be taken for an answer.
const TRIES_MAX: u8 = 200;
/// Halves known to be silent; more wait for the kernel.
const SILENT_MAX: usize = 1_024;
/// Addresses of which one connection each tries often.
const PROBED_MAX: usize = 64;
/// ICMPv6's code of a network without a route: of all that say that a host is not reached, the one that Linux hears (`tcp_v6_err`).
const NO_ROUTE: u8 = 0;

/// A half of a connection: its number, and which.
type Half = (u64, usize);

/// See the module's description.
pub(super) struct Outages {
    /// `None`: without raw sockets the kernel's timeouts are as they are.
    raw: Option<RawSender>,
    silent: BTreeMap<IpAddr, Silence>,
    known: usize,
    /// The number from which on connections are looked at next.
    from: u64,
    looked: Instant,
}

/// An address of which some connections are silent.
struct Silence {
    halves: BTreeSet<Half>,
    /// When the first of them was found so, and when it was last tried.
    since: Instant,
    tried: Instant,
}

impl Outages {
    pub(super) fn new(now: Instant) -> Self {
        // The mark leads to this very host, to the socket that is told.
        let raw = RawSender::open(MARK_DIVERT).ok();
        Self { raw, silent: BTreeMap::new(), known: 0, from: 0, looked: now }
    }
    /// When to call [`Outages::look`], while there are connections.
    pub(super) fn deadline(&self) -> Instant {
        self.looked + PROBE
    }
    /// Looks at some connections whether they fell silent, and has those that are silent try. `next` gives the number of the first
    /// connection from a number on, `socket` a half of one.
    pub(super) fn look<'a>(
        &mut self,
        now: Instant,
        next: impl Fn(u64) -> Option<u64>,
        socket: impl Fn(Half) -> Option<&'a TcpStream>,
    ) {
        self.looked = now;
        let Some(raw) = &self.raw else { return };
        for _ in 0..LOOKED_AT {
            let Some(id) = next(self.from) else {
                self.from = 0;
                break;
            };
            self.from = id + 1;
            for half in [(id, 0), (id, 1)] {
                let Some(stream) = socket(half).filter(|stream| tries(stream).unanswered >= UNANSWERED_LEAST) else {
                    continue;
                };
                let Ok(remote) = stream.peer_addr() else { continue };
                if self.known < SILENT_MAX {
                    let new = || Silence { halves: BTreeSet::new(), since: now, tried: Instant::ZERO };
                    self.known += usize::from(self.silent.entry(remote.ip()).or_insert_with(new).halves.insert(half));
                }
            }
        }
        let mut probed = 0;
        for Silence { halves, since, tried } in self.silent.values_mut() {
            let before = halves.len();
            halves.retain(|half| socket(*half).is_some_and(|stream| tries(stream).unanswered > 0));
            let heard = halves.len() < before;
            self.known -= before - halves.len();
            probed += 1;
            let is_due =
                probed <= PROBED_MAX && now.since(*tried) >= PROBE.max(now.since(*since).scale(1, OUTAGE_SHARE));
            if is_due {
                *tried = now;
            }
            let few = if heard { usize::MAX } else { usize::from(is_due) };
            for stream in halves.iter().take(few).filter_map(|half| socket(*half)) {
                if heard || tries(stream).unanswered < TRIES_MAX {
                    let _ = try_at_once(raw, stream);
                }
            }
        }
        self.silent.retain(|_, silence| !silence.halves.is_empty());
    }
    /// A link came up: all try that wait.
    pub(super) fn call_back<'a>(&self, streams: impl Iterator<Item = &'a TcpStream>) {
        let Some(raw) = &self.raw else { return };
        for stream in streams.filter(|stream| tries(stream).unanswered > 0) {
            let _ = try_at_once(raw, stream);
        }
    }
}

/// Takes back every doubling of a connection's timeout.
fn try_at_once(raw: &RawSender, stream: &TcpStream) -> io::Result<()> {
    if tries(stream).doublings == 0 {
        return Ok(());
    }
    let (local, remote) = (stream.local_addr()?, stream.peer_addr()?);
    let message = unreached(local, remote, oldest_unacknowledged(stream)?);
    for _ in 0..tries(stream).doublings {
        match (&message, local.ip()) {
            (Some(Refusal::Icmp6(message)), IpAddr::V6(to)) => raw.send_icmp6(message, to)?,
            (Some(Refusal::Packet(packet)), to) => raw.send(packet, to)?,
            _ => {}
        }
    }
    Ok(())
}

/// The message that a segment did not reach its host.
fn unreached(local: SocketAddr, remote: SocketAddr, seq: u32) -> Option<Refusal> {
    let plain = |address: SocketAddr| SocketAddr::new(address.ip(), address.port());
    let header = TcpHeader { flags: Flags::SYN, seq, ..TcpHeader::default() };
    let packet =
        TcpPacket { source: plain(local), target: plain(remote), ecn: Default::default(), header, payload: &[] };
    let mut bytes = vec![0; 128];
    let len = packet.emit(&mut bytes).ok()?;
    let mut refusal = Syn::parse(bytes.get(..len)?)?.unreachable(Unreachable::Host);
    if let Refusal::Icmp6(message) = &mut refusal {
        message[1] = NO_ROUTE;
    }
    Some(refusal)
}
