//! The server on real sockets: one thread for datagrams, one for each connection of load.

use crate::ProbeError;
use crate::limits::Limits;
use crate::nq;
pub use crate::nq::serve::Certificate;
use crate::packet::Token;
use crate::places::Places;
use crate::pump::{Moved, close, left, pump, read_by};
pub use crate::server::Drops;
use crate::server::Server;
use crate::stream::{self, End, OPENING_LEN, Opening, Purpose};
use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_rustls::rustls::ServerConfig;
use wavelane_base::{Ecn, Entropy, Instant, Span};
use wavelane_host::clock::since_boot;
use wavelane_host::poller::{Poller, Watch};
use wavelane_host::udp::{Destination, UdpLane};
use wavelane_host::{caps, entropy, load};

/// Default port of a server, UDP and TCP.
pub const PORT: u16 = 4_783;
/// A connection without a request by then is closed, including the time of the TLS handshake.
const OPENING_PATIENCE: Duration = Duration::from_secs(5);
/// Polling interval of the clock and of the server's stop flag.
const TURN: Duration = Duration::from_millis(200);
/// Load is counted at this interval, not after every read.
const COUNT_EVERY: Span = Span::from_millis(5);
const DATAGRAM_ROOM: usize = 2_048;
/// Connections accepted before the datagrams are served again.
const ACCEPTS_MAX: usize = 64;
/// Without descriptors a connection cannot even be refused: it waits this long in the kernel's queue, which avoids a busy loop.
const ACCEPT_PAUSE: Span = Span::from_millis(500);
/// Minimum interval of reports about refusals.
const TELL_EVERY: Span = Span::from_secs(10);

/// Events reported by a server to its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// It listens on this address.
    Ready(SocketAddr),
    /// Connections or requests were refused since the last report; these are the totals.
    Refused(Drops),
    /// Total datagrams dropped by the server's socket since the start, after they had crossed the network.
    SocketFull(u64),
}

pub(crate) struct Shared {
    server: Mutex<Server>,
    places: Mutex<Places>,
    /// For HTTP over TLS.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    stop: Arc<AtomicBool>,
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

/// Maximum number of ports chosen by the system for datagrams but in use for connections, before that is an error.
const PORT_TRIES: u32 = 16;

/// The socket for datagrams and the listener, on the same address.
fn open(listen: SocketAddr) -> Result<(UdpLane, std::net::TcpListener, SocketAddr), ProbeError> {
    let failed = |what: &'static str| move |why| ProbeError::Socket { what, why };
    // On a host without IPv6 the wildcard address accepts IPv4.
    let plain = SocketAddr::from((Ipv4Addr::UNSPECIFIED, listen.port()));
    let all = listen.ip() == Ipv6Addr::UNSPECIFIED;
    let mut tries = if listen.port() == 0 { PORT_TRIES } else { 1 };
    loop {
        let lane = UdpLane::bind(listen, None, None);
        let lane = lane.or_else(|why| if all { UdpLane::bind(plain, None, None) } else { Err(why) });
        let lane = lane.map_err(failed("listen for datagrams"))?;
        let local = lane.local().map_err(failed("listen for datagrams"))?;
        tries -= 1;
        match load::listen(local) {
            Ok(listener) => return Ok((lane, listener, local)),
            Err(why) if tries > 0 && why.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(why) => return Err(failed("listen for connections")(why)),
        }
    }
}

/// Serves until `stop` is set, and reports events to `tell`. Every connection needs descriptors, so the limit on them is raised.
pub fn serve(
    listen: SocketAddr,
    limits: Limits,
    tls: Option<Certificate>,
    stop: Arc<AtomicBool>,
    mut tell: impl FnMut(News),
) -> Result<(), ProbeError> {
    let failed = |what: &'static str| move |why| ProbeError::Socket { what, why };
    let (mut lane, listener, local) = open(listen)?;
    // If it is refused, only fewer connections fit.
    let _ = caps::raise_file_limit();
    let tls = tls.map(|certificate| Arc::new(certificate.0));
    let server = Mutex::new(Server::new(limits, Entropy::live(entropy::fill)));
    let shared = Arc::new(Shared { server, places: Mutex::default(), tls, stop });
    let mut poller = Poller::new().map_err(failed("wait"))?;
    const LANE: u64 = 1;
    const LISTENER: u64 = 2;
    poller.add(&lane, LANE, Watch::Readable).map_err(failed("wait"))?;
    poller.add(&listener, LISTENER, Watch::Readable).map_err(failed("wait"))?;
    tell(News::Ready(local));
    let mut code = 0;
    let mut resume: Option<Instant> = None;
    let (mut told, mut told_drops) = ((since_boot(), 0), (since_boot(), 0));
    while !shared.stopped() {
        for event in poller.wait(Some(TURN)).map_err(failed("wait"))? {
            match event.token {
                LANE => answer(&mut lane, &shared, &mut code),
                _ if !accept(&listener, &shared) && resume.is_none() => {
                    poller.remove(&listener).map_err(failed("wait"))?;
                    resume = Some(since_boot() + ACCEPT_PAUSE);
                }
                _ => {}
            }
        }
        let now = since_boot();
        if resume.is_some_and(|at| now >= at) {
            poller.add(&listener, LISTENER, Watch::Readable).map_err(failed("wait"))?;
            resume = None;
        }
        shared.server().expire(now);
        tell_refusals(now, &shared, &mut told, &mut tell);
        let dropped = note_socket_drops(&lane, &shared);
        if is_due(now, dropped, &mut told_drops) {
            tell(News::SocketFull(dropped));
        }
    }
    let dropped = note_socket_drops(&lane, &shared);
    if dropped > told_drops.1 {
        tell(News::SocketFull(dropped));
    }
    Ok(())
}

/// Reads the kernel's drop count; returns the total since the start.
fn note_socket_drops(lane: &UdpLane, shared: &Shared) -> u64 {
    let mut server = shared.server();
    if let Some(count) = lane.dropped() {
        server.note_socket_drops(count);
    }
    server.drops().socket
}

/// Whether an increased total is to be reported: at once the first time, then periodically.
fn is_due(now: Instant, sum: u64, told: &mut (Instant, u64)) -> bool {
    let due = sum > told.1 && (told.1 == 0 || now.since(told.0) >= TELL_EVERY);
    if due {
        *told = (now, sum);
    }
    due
}

fn tell_refusals(now: Instant, shared: &Shared, told: &mut (Instant, u64), tell: &mut impl FnMut(News)) {
    let drops = Drops { gave_way: shared.places().gave_way, ..shared.server().drops() };
    if is_due(now, drops.of_connections(), told) {
        tell(News::Refused(drops));
    }
}

fn answer(lane: &mut UdpLane, shared: &Shared, code: &mut u8) {
    let mut answers: Vec<(Destination, Vec<u8>, u8)> = Vec::new();
    note_socket_drops(lane, shared);
    // An ICMP error about an earlier answer is reported here and can be ignored.
    let _ = lane.receive(|datagram| {
        let mut out = [0; DATAGRAM_ROOM];
        let size = datagram.segment.map_or(datagram.bytes.len(), usize::from).max(1);
        let (Some(from), at) = (datagram.from.ip(), datagram.at) else { return };
        for one in datagram.bytes.chunks(size) {
            let now = since_boot();
            if let Some(answer) = shared.server().handle(now, now - datagram.waited, from, one, &mut out) {
                answers.push((
                    Destination { to: from.into(), from: at, dscp: 0 },
                    out[..answer.len].to_vec(),
                    answer.dscp,
                ));
            }
        }
    });
    for (to, bytes, dscp) in answers {
        // Code points that are not permitted (RFC 2474 leaves them to the operator) are sent as best effort.
        if dscp != *code && lane.set_dscp(dscp).is_ok() {
            *code = dscp;
        }
        lane.send(&bytes, None, to, Ecn::NotEct);
    }
}

/// Accepts the waiting connections; false if there are no descriptors left.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) -> bool {
    for _ in 0..ACCEPTS_MAX {
        let done = match listener.accept() {
            Ok((stream, from)) => {
                let done = admit(stream, from, shared);
                shared.server().drops_mut().no_place += u64::from(done.is_err());
                done
            }
            Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => return true,
            Err(why) => Err(why),
        };
        // Other errors concern one connection: it ended while it waited (accept(2)), or has no slot.
        if done.is_err_and(|why| caps::is_exhausted(&why)) {
            shared.server().drops_mut().pauses += 1;
            return false;
        }
    }
    true
}

/// Assigns a slot and a thread to a connection; otherwise it is closed.
fn admit(stream: TcpStream, from: SocketAddr, shared: &Arc<Shared>) -> std::io::Result<()> {
    let twin = stream.try_clone()?;
    let place = shared.places().enter(from.ip(), Some(twin));
    let place = place.ok_or_else(|| std::io::Error::other("no place"))?;
    let theirs = Arc::clone(shared);
    let started = std::thread::Builder::new().name("probe-load".into()).spawn(move || {
        // Any other error is left to the client to notice.
        if connection(&stream, from, place, &theirs).is_err_and(|why| caps::is_exhausted(&why)) {
            theirs.server().drops_mut().no_place += 1;
        }
        theirs.places().leave(place);
    });
    started.map(drop).inspect_err(|_| shared.places().leave(place))
}

fn connection(stream: &TcpStream, from: SocketAddr, place: u64, shared: &Arc<Shared>) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(OPENING_PATIENCE))?;
    load::prepare(stream)?;
    let until = since_boot() + Span::from_nanos(OPENING_PATIENCE.as_nanos() as u64);
    let language = Language::hear(stream, until)?;
    let opened = || shared.places().opened(place);
    if language != Language::Ours {
        // Its slot is kept once it carries load.
        return nq::serve::connection(stream, from, place, (language, left(until)?), shared);
    }
    let mut opening = [0; OPENING_LEN];
    read_by(stream, &mut opening, until)?;
    if !opened() {
        return Ok(());
    }
    let opening = Opening::parse(&opening).map_err(std::io::Error::other)?;
    let admission = shared.server().admit_load(since_boot(), from.ip(), &opening.token);
    let Some(admission) = admission else { return Ok(()) };
    let result = serve_load(stream, &opening, admission.until, shared);
    // Until it is closed it counts as one of the session's connections: it still carries data in flight.
    let drained = close(stream);
    shared.server().count_drained(from.ip(), drained);
    shared.server().end_load(since_boot(), &opening.token);
    result
}

/// The protocol of a connection, detected by its first octets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Language {
    /// Our own.
    Ours,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 without an upgrade (RFC 9113, section 3.3).
    Http2,
    /// TLS, which negotiates the protocol.
    Tls,
}

impl Language {
    /// Detects it by the first octets, if they suffice.
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

    /// Waits for the first octets without consuming them.
    #[expect(clippy::disallowed_methods, reason = "octets that are looked at and stay keep a socket readable")]
    fn hear(stream: &TcpStream, until: Instant) -> std::io::Result<Self> {
        const LOOK_EVERY: Duration = Duration::from_millis(5);
        loop {
            stream.set_read_timeout(Some(left(until)?))?;
            let mut first = [0; 4];
            match stream.peek(&mut first)? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                n => {
                    if let Some(language) = Self::of(&first[..n]) {
                        return Ok(language);
                    }
                }
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

fn serve_load(mut stream: &TcpStream, opening: &Opening, until: Instant, shared: &Shared) -> std::io::Result<()> {
    if !opening.congestion.is_empty() {
        // The answer reports what is in use.
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
    use crate::packet::{Message, QUESTION_LEN};
    use std::io::Read;

    /// Opens a session as a client does.
    fn session(shared: &Shared, from: SocketAddr) -> Token {
        let ask = |message: Message| {
            let (mut question, mut out) = ([0; DATAGRAM_ROOM], [0; DATAGRAM_ROOM]);
            let len = message.emit(&mut question, QUESTION_LEN).unwrap();
            let now = since_boot();
            let answer = shared.server().handle(now, now, from, &question[..len], &mut out).unwrap();
            Message::parse(&out[..answer.len]).unwrap()
        };
        let nonce = [9; 8];
        let Message::Cookie(_, cookie) = ask(Message::Hello(nonce)) else { panic!("no cookie") };
        let Message::Welcome(_, token, _) = ask(Message::Open(nonce, cookie, 30)) else { panic!("no session") };
        token
    }

    #[test]
    fn a_connection_that_is_being_closed_still_counts() {
        let server =
            Mutex::new(Server::new(Limits { connections: 1, ..Limits::default() }, Entropy::live(entropy::fill)));
        let shared = Arc::new(Shared { server, places: Mutex::default(), tls: None, stop: Arc::default() });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, from) = listener.accept().unwrap();
        let token = session(&shared, from);
        let place = shared.places().enter(from.ip(), None).unwrap();
        let theirs = Arc::clone(&shared);
        let serving = std::thread::spawn(move || connection(&stream, from, place, &theirs));
        let opening = Opening { purpose: Purpose::Small, token, congestion: String::new() };
        client.write_all(&opening.to_bytes()).unwrap();
        // Continuous arrivals keep it from being closed.
        let enough = Arc::new(AtomicBool::new(false));
        let (mut twin, told) = (client.try_clone().unwrap(), Arc::clone(&enough));
        let sending = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) && twin.write_all(&[7]).is_ok() {
                std::thread::park_timeout(Duration::from_millis(10));
            }
            let _ = twin.shutdown(std::net::Shutdown::Write);
        });
        client.read_to_end(&mut Vec::new()).unwrap();
        let another = || shared.server().admit_load(since_boot(), from.ip(), &token).is_some();
        assert!(!another(), "two connections where one is granted");
        enough.store(true, Ordering::Relaxed);
        sending.join().unwrap();
        serving.join().unwrap().unwrap();
        assert!(another());
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
}
