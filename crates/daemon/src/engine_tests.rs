//! The kernel's engine with a far side that has no link: a proxy in one box, on loopback.
#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::thread::JoinHandle;
use std::time::Duration;
use wavelane_door::{Door, FarSide, FlowEvent, Pair, PairConfig, Stage};
use wavelane_host::realtime;

/// What each side sends, enough to fill every buffer on the way.
const OCTETS: usize = 8 << 20;
/// No transfer takes this long on loopback, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

fn body(salt: u8) -> Vec<u8> {
    (0..OCTETS).map(|i| (i / 251) as u8 ^ salt).collect()
}

/// A proxy that connects every application it accepts to one server.
struct Proxy {
    door: Door<KernelEngine>,
    pair: Pair,
    poller: Poller,
    listener: TcpListener,
    server: SocketAddr,
}

impl Proxy {
    fn new(server: SocketAddr) -> Self {
        let poller = Poller::new().unwrap();
        let engine = KernelEngine::new(None, poller.share().unwrap(), None, 1);
        let listener = tcp::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        poller.add(&listener, 0, Watch::Readable).unwrap();
        Self { door: Door::new(engine), pair: Pair::new(PairConfig::default()), poller, listener, server }
    }

    fn accept(&mut self, now: Instant) {
        let Ok((stream, source)) = self.listener.accept() else { return };
        tcp::prepare(&stream).unwrap();
        self.pair.towards(now, self.server.ip()).unwrap();
        self.door.open_for(now, &mut self.pair, (), [0; 32], stream, (source, self.server));
    }

    fn event(&mut self, now: Instant, event: FlowEvent) {
        match event {
            FlowEvent::Incoming { flow, source, target } => {
                self.door.connect(now, &mut self.pair, flow, [0; 32], None, (source, target));
            }
            FlowEvent::Accepted(flow) => self.door.accepted(now, flow),
            FlowEvent::Refused(flow, _) | FlowEvent::Reset(flow, _) => {
                assert!(self.door.flow_gone(now, flow).is_none())
            }
            FlowEvent::Ending(flow) => self.door.flow_ending(now, flow),
            FlowEvent::Readable(flow) | FlowEvent::Writable(flow) => self.door.flow_ready(flow),
            FlowEvent::Closed(flow) => self.door.flow_closed(flow),
        }
    }

    fn ready(&mut self, now: Instant, ready: wavelane_host::poller::Ready) {
        let token = ready.token;
        self.door.ready(token, ready.readable, ready.writable);
        let Some(connection) = self.door.connection(token) else { return };
        let error = if ready.failed { connection.own.kept.take_error() } else { None };
        let answered = ready.writable && matches!(connection.splice.stage, Stage::Connecting(_));
        match error {
            Some(error) => self.door.failed(now, &mut self.pair, token, why(&error)),
            None if answered => self.door.connected(now, &mut self.pair, token),
            None => {}
        }
    }

    /// Serves one application, until no connection is left.
    fn run(&mut self) {
        let (began, mut came) = (realtime::now(), false);
        while !came || !self.door.is_empty() {
            came |= !self.door.is_empty();
            let now = realtime::now();
            assert!(now.since(began).as_millis() < PATIENCE.as_millis() as u64, "{:?}", self.door.counts);
            let mut acted = true;
            while acted {
                acted = self.door.serve_next(now, &mut self.pair);
                while let Some(event) = self.pair.poll_event() {
                    self.event(now, event);
                    acted = true;
                }
            }
            self.door.look_after_last_bytes(now, &mut self.pair);
            self.door.tick(now, &mut self.pair);
            for ready in self.poller.wait(Some(Duration::from_millis(1))).unwrap() {
                match ready.token {
                    0 => self.accept(now),
                    _ => self.ready(now, ready),
                }
            }
        }
        assert_eq!((self.pair.flows(), self.pair.waiting()), (0, 0));
    }
}

/// A server that takes one connection; what it read, unless that ended in a reset.
fn server(work: fn(&TcpListener) -> io::Result<Vec<u8>>) -> (SocketAddr, JoinHandle<io::Result<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (listener.local_addr().unwrap(), std::thread::spawn(move || work(&listener)))
}

#[test]
fn a_proxy_on_kernel_sockets_carries_bodies_both_ways_and_half_closes() {
    let (target, serving) = server(|listener| {
        let (mut stream, _) = listener.accept()?;
        let mut got = Vec::new();
        // The answer begins only when the request has ended: the half-close crosses.
        stream.read_to_end(&mut got)?;
        stream.write_all(&body(2))?;
        Ok(got)
    });
    let mut proxy = Proxy::new(target);
    let local = proxy.listener.local_addr().unwrap();
    let application = std::thread::spawn(move || {
        let mut stream = std::net::TcpStream::connect(local).unwrap();
        stream.write_all(&body(1)).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).map(|_| got)
    });
    proxy.run();
    assert!(serving.join().unwrap().unwrap() == body(1), "the request");
    assert!(application.join().unwrap().unwrap() == body(2), "the answer");
    let counted = |what| proxy.door.counts.get(what).copied();
    assert_eq!((counted("connections_made"), counted("connections_closed")), (Some(1), Some(2)));
    assert_eq!(counted("connections_reset"), None);
}

#[test]
fn a_proxy_on_kernel_sockets_passes_a_refusal_and_a_reset_on() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let resets: fn(&TcpListener) -> io::Result<Vec<u8>> = |listener| {
        let (mut stream, _) = listener.accept()?;
        stream.write_all(b"last")?;
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        // A close before all was read resets.
        wavelane_host::tcp::prepare(&stream)?;
        Ok(Vec::new())
    };
    for target in [Some(nobody), None] {
        let serving = target.map_or_else(|| server(resets), |target| (target, std::thread::spawn(|| Ok(Vec::new()))));
        let mut proxy = Proxy::new(serving.0);
        let local = proxy.listener.local_addr().unwrap();
        let application = std::thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(local).unwrap();
            let _ = stream.write_all(b"x");
            let mut got = [0; 4];
            let read = stream.read_exact(&mut got).map(|()| got.to_vec());
            (read.unwrap_or_default(), stream.read(&mut [0]).map_err(|error| error.kind()))
        });
        proxy.run();
        serving.1.join().unwrap().unwrap();
        let (got, end) = application.join().unwrap();
        let expected = if target.is_some() { &b""[..] } else { &b"last"[..] };
        assert_eq!((&got[..], end.is_err() || target.is_some()), (expected, true), "{end:?}");
    }
}
