//! The server on real sockets: one thread for datagrams, one for each connection of load.

use crate::ProbeError;
use crate::limits::{Limits, source_of};
use crate::nq;
pub use crate::nq::serve::Certificate;
use crate::packet::Token;
use crate::pump::{Moved, close, pump};
use crate::server::Server;
use crate::stream::{self, End, OPENING_LEN, Opening, Purpose};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_rustls::rustls::ServerConfig;
use wavelane_base::{Ecn, Entropy, Instant, Span};
use wavelane_host::clock::since_boot;
use wavelane_host::poller::{Poller, Watch};
use wavelane_host::udp::{Destination, UdpLane};
use wavelane_host::{entropy, load};

/// Where a server listens unless told, UDP and TCP.
pub const PORT: u16 = 4_783;
/// Connections at once, of all sessions and of those who have not said which.
const CONNECTIONS_MAX: usize = 256;
/// Of these from one source, which need not belong to a session.
const CONNECTIONS_PER_SOURCE_MAX: usize = CONNECTIONS_MAX / 2;
/// A connection without a request by then is closed.
const OPENING_PATIENCE: Duration = Duration::from_secs(5);
const CLOSE_PATIENCE: Duration = Duration::from_millis(500);
/// Between looks at the clock and at the flag that ends the server.
const TURN: Duration = Duration::from_millis(200);
/// Load is counted after so long, not after every read.
const COUNT_EVERY: Span = Span::from_millis(5);
const DATAGRAM_ROOM: usize = 2_048;

pub(crate) struct Shared {
    server: Mutex<Server>,
    places: Mutex<Places>,
    /// For HTTP over TLS.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    stop: Arc<AtomicBool>,
}

/// Connections in the order of their coming.
#[derive(Default)]
pub(crate) struct Places {
    next: u64,
    held: BTreeMap<u64, Place>,
}

struct Place {
    source: IpAddr,
    /// The socket of a connection without a request so far.
    opening: Option<TcpStream>,
}

impl Places {
    /// A place for a connection of `ip`. If all are taken, the oldest without a request is evicted, of the same
    /// source if that has as many as one may have: a client that only occupies places cannot keep others out.
    fn enter(&mut self, ip: IpAddr, stream: Option<TcpStream>) -> Option<u64> {
        let source = source_of(ip);
        let of_source = self.held.values().filter(|place| place.source == source).count();
        let alone = of_source >= CONNECTIONS_PER_SOURCE_MAX;
        if alone || self.held.len() >= CONNECTIONS_MAX {
            let gives_way = |place: &Place| place.opening.is_some() && (!alone || place.source == source);
            let oldest = self.held.iter().find(|(_, place)| gives_way(place)).map(|(id, _)| *id)?;
            if let Some(Place { opening: Some(stream), .. }) = self.held.remove(&oldest) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        self.next += 1;
        self.held.insert(self.next, Place { source, opening: stream });
        Some(self.next)
    }
    /// Its request arrived; false if it was evicted before.
    pub(crate) fn opened(&mut self, id: u64) -> bool {
        self.held.get_mut(&id).map(|place| place.opening = None).is_some()
    }
    fn leave(&mut self, id: u64) {
        self.held.remove(&id);
    }
}

impl Shared {
    pub(crate) fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub(crate) fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Serves until `stop` is set. `ready` is told the address.
pub fn serve(
    listen: SocketAddr,
    limits: Limits,
    tls: Option<Certificate>,
    stop: Arc<AtomicBool>,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ProbeError> {
    let failed = |what: &'static str| move |why| ProbeError::Socket { what, why };
    // A host without IPv6 hears IPv4 on what stands for all addresses.
    let plain = SocketAddr::from((Ipv4Addr::UNSPECIFIED, listen.port()));
    let all = listen.ip() == Ipv6Addr::UNSPECIFIED;
    let lane =
        UdpLane::bind(listen, None, None).or_else(|why| if all { UdpLane::bind(plain, None, None) } else { Err(why) });
    let mut lane = lane.map_err(failed("listen for datagrams"))?;
    let local = lane.local().map_err(failed("listen for datagrams"))?;
    let listener = load::listen(local).map_err(failed("listen for connections"))?;
    let tls = tls.map(|certificate| Arc::new(certificate.0));
    let server = Mutex::new(Server::new(limits, Entropy::live(entropy::fill)));
    let shared = Arc::new(Shared { server, places: Mutex::default(), tls, stop });
    let mut poller = Poller::new().map_err(failed("wait"))?;
    const LANE: u64 = 1;
    const LISTENER: u64 = 2;
    poller.add(&lane, LANE, Watch::Readable).map_err(failed("wait"))?;
    poller.add(&listener, LISTENER, Watch::Readable).map_err(failed("wait"))?;
    ready(local);
    let mut code = 0;
    while !shared.stopped() {
        for event in poller.wait(Some(TURN)).map_err(failed("wait"))? {
            match event.token {
                LANE => answer(&mut lane, &shared, &mut code),
                _ => accept(&listener, &shared),
            }
        }
        shared.server().expire(since_boot());
    }
    Ok(())
}

fn answer(lane: &mut UdpLane, shared: &Shared, code: &mut u8) {
    let mut answers: Vec<(Destination, Vec<u8>, u8)> = Vec::new();
    // An ICMP error about an earlier answer is reported here and means nothing more.
    let _ = lane.receive(|datagram| {
        let mut out = [0; DATAGRAM_ROOM];
        let size = datagram.segment.map_or(datagram.bytes.len(), usize::from).max(1);
        let (from, at) = (datagram.from, datagram.at);
        for one in datagram.bytes.chunks(size) {
            let now = since_boot();
            if let Some(answer) = shared.server().handle(now, now - datagram.waited, from, one, &mut out) {
                answers.push((Destination { to: from, from: at }, out[..answer.len].to_vec(), answer.dscp));
            }
        }
    });
    for (to, bytes, dscp) in answers {
        // Forbidden code points (RFC 2474 leaves them to the operator) are sent as best effort.
        if dscp != *code && lane.set_dscp(dscp).is_ok() {
            *code = dscp;
        }
        lane.send(&bytes, None, to, Ecn::NotEct);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((stream, from)) = listener.accept() {
        let Ok(twin) = stream.try_clone() else { continue };
        let Some(place) = shared.places().enter(from.ip(), Some(twin)) else { continue };
        let theirs = Arc::clone(shared);
        let started = std::thread::Builder::new().name("probe-load".into()).spawn(move || {
            // Whatever goes wrong is the client's to notice.
            let _ = connection(&stream, from, place, &theirs);
            theirs.places().leave(place);
        });
        if started.is_err() {
            shared.places().leave(place);
        }
    }
}

fn connection(stream: &TcpStream, from: SocketAddr, place: u64, shared: &Arc<Shared>) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(OPENING_PATIENCE))?;
    load::prepare(stream)?;
    let language = Language::hear(stream, OPENING_PATIENCE)?;
    let opened = || shared.places().opened(place);
    if language != Language::Ours {
        // Its place is kept for it once it carries load.
        return nq::serve::connection(stream, from, place, language, shared);
    }
    let mut opening = [0; OPENING_LEN];
    read_opening(stream, &mut opening, OPENING_PATIENCE)?;
    if !opened() {
        return Ok(());
    }
    let opening = Opening::parse(&opening).map_err(std::io::Error::other)?;
    let admission = shared.server().admit_load(since_boot(), from.ip(), &opening.token);
    let Some(admission) = admission else { return Ok(()) };
    let result = serve_load(stream, &opening, admission.until, shared);
    shared.server().end_load(since_boot(), &opening.token);
    close(stream, CLOSE_PATIENCE);
    result
}

/// The protocol of a connection, by its first octets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Language {
    /// Our own.
    Ours,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 without an upgrade (RFC 9113, section 3.3).
    Http2,
    /// TLS, which tells the rest.
    Tls,
}

impl Language {
    /// By the first octets, if they are enough.
    fn of(first: &[u8]) -> Option<Self> {
        /// A record of a handshake (RFC 8446, section 5.1).
        const HANDSHAKE: u8 = 22;
        match first {
            [HANDSHAKE, ..] => Some(Self::Tls),
            [b'W', b'L', b'P', b'L', ..] => Some(Self::Ours),
            [b'P', b'R', b'I', b' ', ..] => Some(Self::Http2),
            [_, _, _, _, ..] => Some(Self::Http1),
            _ => None,
        }
    }

    /// Waits for the first octets, which stay to be read.
    #[expect(clippy::disallowed_methods, reason = "octets that are looked at and stay keep a socket readable")]
    fn hear(stream: &TcpStream, patience: Duration) -> std::io::Result<Self> {
        const LOOK_EVERY: Duration = Duration::from_millis(5);
        let begun = since_boot();
        stream.set_read_timeout(Some(patience))?;
        loop {
            let mut first = [0; 4];
            match stream.peek(&mut first)? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                n => {
                    if let Some(language) = Self::of(&first[..n]) {
                        return Ok(language);
                    }
                }
            }
            if Duration::from_nanos(since_boot().since(begun).as_nanos()) >= patience {
                return Err(std::io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Fills `opening` within `patience`, however many pieces it comes in.
fn read_opening(mut stream: &TcpStream, opening: &mut [u8], patience: Duration) -> std::io::Result<()> {
    let (begun, mut read) = (since_boot(), 0);
    while read < opening.len() {
        let spent = Duration::from_nanos(since_boot().since(begun).as_nanos());
        let left = patience.saturating_sub(spent);
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut opening[read..])? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            n => read += n,
        }
    }
    Ok(())
}

fn serve_load(mut stream: &TcpStream, opening: &Opening, until: Instant, shared: &Shared) -> std::io::Result<()> {
    if !opening.congestion.is_empty() {
        // The answer tells what is in force.
        let _ = load::set_congestion(stream, &opening.congestion);
    }
    stream.write_all(&stream::answer(&load::congestion(stream)?))?;
    if opening.purpose == Purpose::Small {
        let reply = stream::small_reply();
        shared.server().count_load(since_boot(), &opening.token, 0, reply.len() as u64);
        return stream.write_all(&reply);
    }
    let mut counter = Counter { token: opening.token, at: since_boot(), moved: Moved::default() };
    let mut end = End::new(opening.purpose == Purpose::Down);
    let result = pump(stream, &mut end, |end, moved| {
        let now = since_boot();
        counter.add(now, moved, shared) && now < until && !end.ended() && !shared.stopped()
    });
    counter.settle(since_boot(), shared);
    result
}

/// Load that is not yet counted in the session.
struct Counter {
    token: Token,
    at: Instant,
    moved: Moved,
}

impl Counter {
    fn add(&mut self, now: Instant, moved: Moved, shared: &Shared) -> bool {
        self.moved.received += moved.received;
        self.moved.sent += moved.sent;
        now.since(self.at) < COUNT_EVERY || self.settle(now, shared)
    }
    fn settle(&mut self, now: Instant, shared: &Shared) -> bool {
        let moved = std::mem::take(&mut self.moved);
        self.at = now;
        shared.server().count_load(now, &self.token, moved.received, moved.sent)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::sync::mpsc::RecvTimeoutError::Timeout;

    #[test]
    fn one_source_takes_half_of_the_places_at_most() {
        let (one, neighbour, other) = ("2001:db8::1", "2001:db8::2", "192.0.2.1");
        let mut places = Places::default();
        let mut enter = |ip: &str, times: usize| {
            let ids = (0..times).filter_map(|_| places.enter(ip.parse().unwrap(), None));
            ids.collect::<Vec<u64>>()
        };
        let first = enter(one, 100);
        assert_eq!(first.len(), 100);
        assert_eq!(enter(neighbour, 100).len(), 28, "of the same network of 64 bits");
        assert_eq!(enter(other, 300).len(), 128);
        assert!(enter("192.0.2.2", 1).is_empty(), "all are taken");
        first.iter().for_each(|id| places.leave(*id));
        assert!(places.held.len() == 156 && places.enter("192.0.2.2".parse().unwrap(), None).is_some());
    }

    #[test]
    fn silent_connections_are_evicted_first() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut silent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let theirs = listener.accept().unwrap().0;
        let mut places = Places::default();
        let first = places.enter("192.0.2.1".parse().unwrap(), Some(theirs)).unwrap();
        for i in 0..CONNECTIONS_MAX as u32 - 1 {
            assert!(places.enter(IpAddr::from((i / 100).to_be_bytes()), None).is_some());
        }
        let new = places.enter("198.51.100.1".parse().unwrap(), None).unwrap();
        assert!(!places.opened(first) && places.opened(new));
        assert_eq!(silent.read(&mut [0]).unwrap(), 0, "its connection was closed");
        assert_eq!(places.enter("198.51.100.2".parse().unwrap(), None), None, "the others have said what they want");
    }

    #[test]
    fn first_octets_select_the_protocol() {
        for (first, language) in [
            (&b"WLPL\x01"[..], Some(Language::Ours)),
            (b"GET /", Some(Language::Http1)),
            (b"PRI * HTTP/2.0", Some(Language::Http2)),
            (b"\x16", Some(Language::Tls)),
            (b"PRI", None),
            (b"", None),
        ] {
            assert_eq!(Language::of(first), language, "{first:?}");
        }
    }

    #[test]
    fn an_opening_in_small_pieces_has_no_more_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let writer = std::thread::spawn(move || {
            while (&slow).write_all(b"x").is_ok()
                && ended.recv_timeout(Duration::from_millis(20)).is_err_and(|e| e == Timeout)
            {}
        });
        // Endless: only the time ends it.
        let why = read_opening(&stream, &mut vec![0; 1 << 20], Duration::from_millis(200)).unwrap_err();
        assert!(matches!(why.kind(), std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock), "{why}");
        drop((end, stream));
        writer.join().unwrap();
    }
}
