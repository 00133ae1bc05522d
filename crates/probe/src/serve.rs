//! The server on real sockets: one thread for datagrams, one for each connection of load.

use crate::ProbeError;
use crate::limits::{Limits, source_of};
use crate::packet::Token;
use crate::pump::{Moved, close, pump};
use crate::server::Server;
use crate::stream::{self, End, OPENING_LEN, Opening, Purpose};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wavelane_base::{Ecn, Entropy, Instant, Span};
use wavelane_host::clock::since_boot;
use wavelane_host::poller::{Poller, Watch};
use wavelane_host::udp::{Destination, UdpLane};
use wavelane_host::{entropy, load};

/// Where a server listens unless told, UDP and TCP.
pub const PORT: u16 = 4_783;
/// Connections at once, of all sessions and of those who have not said which.
const CONNECTIONS_MAX: usize = 256;
/// Of these from one source, who may be nobody's client.
const CONNECTIONS_PER_SOURCE_MAX: usize = CONNECTIONS_MAX / 2;
/// A connection that has not said by then what it wants is closed.
const OPENING_PATIENCE: Duration = Duration::from_secs(5);
const CLOSE_PATIENCE: Duration = Duration::from_millis(500);
/// Between looks at the clock and at the flag that ends the server.
const TURN: Duration = Duration::from_millis(200);
/// Load is counted after so long, not after every read.
const COUNT_EVERY: Span = Span::from_millis(5);
const DATAGRAM_ROOM: usize = 2_048;

struct Shared {
    server: Mutex<Server>,
    places: Mutex<Places>,
    stop: Arc<AtomicBool>,
}

/// Connections by source.
#[derive(Default)]
struct Places(BTreeMap<IpAddr, usize>);

impl Places {
    /// Whether there is room for one more of `ip`, which then takes it.
    fn enter(&mut self, ip: IpAddr) -> bool {
        let all: usize = self.0.values().sum();
        let of_source = self.0.get(&source_of(ip)).copied().unwrap_or(0);
        if all >= CONNECTIONS_MAX || of_source >= CONNECTIONS_PER_SOURCE_MAX {
            return false;
        }
        self.0.insert(source_of(ip), of_source + 1);
        true
    }
    fn leave(&mut self, ip: IpAddr) {
        if let Some(of_source) = self.0.get_mut(&source_of(ip)) {
            *of_source -= 1;
            if *of_source == 0 {
                self.0.remove(&source_of(ip));
            }
        }
    }
}

impl Shared {
    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Serves until `stop` is set. `ready` is told the address.
pub fn serve(
    listen: SocketAddr,
    limits: Limits,
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
    let server = Mutex::new(Server::new(limits, Entropy::live(entropy::fill)));
    let shared = Arc::new(Shared { server, places: Mutex::default(), stop });
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
        if !shared.places().enter(from.ip()) {
            continue;
        }
        let theirs = Arc::clone(shared);
        let started = std::thread::Builder::new().name("probe-load".into()).spawn(move || {
            // Whatever goes wrong is the client's to notice.
            let _ = connection(&stream, from, &theirs);
            theirs.places().leave(from.ip());
        });
        if started.is_err() {
            shared.places().leave(from.ip());
        }
    }
}

fn connection(stream: &TcpStream, from: SocketAddr, shared: &Shared) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(OPENING_PATIENCE))?;
    load::prepare(stream)?;
    let mut opening = [0; OPENING_LEN];
    read_opening(stream, &mut opening, OPENING_PATIENCE)?;
    let opening = Opening::parse(&opening).map_err(std::io::Error::other)?;
    let admission = shared.server().admit_load(since_boot(), from.ip(), &opening.token);
    let Some(admission) = admission else { return Ok(()) };
    let result = serve_load(stream, &opening, admission.until, shared);
    shared.server().end_load(since_boot(), &opening.token);
    close(stream, CLOSE_PATIENCE);
    result
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
        let mut enter = |ip: &str, times: usize| (0..times).filter(|_| places.enter(ip.parse().unwrap())).count();
        assert_eq!(enter(one, 100), 100);
        assert_eq!(enter(neighbour, 100), 28, "of the same network of 64 bits");
        assert_eq!(enter(other, 300), 128);
        assert_eq!(enter("192.0.2.2", 1), 0, "all are taken");
        for _ in 0..128 {
            places.leave(one.parse().unwrap());
        }
        assert!(places.0.len() == 1 && places.enter("192.0.2.2".parse().unwrap()));
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
