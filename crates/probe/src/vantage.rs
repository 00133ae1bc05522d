//! A second vantage: probes to another server, nearer than the target, while the target is measured. It carries no load, so its delay rises
//! only if the queue is on the common part of both paths.

use crate::ProbeError;
use crate::client::{Client, ClientEvent, Pace};
use crate::packet::PROBE_MIN;
use crate::train::{Sample, Train};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use wavelane_base::{Ecn, Entropy, FrameMeta, Instant, Machine, PortId, Span};
use wavelane_host::clock::since_boot;
use wavelane_host::entropy;
use wavelane_host::poller::{Poller, Watch};
use wavelane_host::udp::UdpLane;

/// Interval between probes: a train then lasts an hour.
pub const VANTAGE_INTERVAL: Span = Span::from_millis(20);
const SERVER_PATIENCE: Span = Span::from_secs(5);
const TURN: Span = Span::from_millis(100);
const DATAGRAM_ROOM: usize = 2_048;
/// Seconds requested for the session beyond the plan.
const SPARE_S: u64 = 30;

/// Results of a second vantage.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Vantage {
    /// As the user named it.
    pub name: String,
    /// Its probes in order of time.
    pub samples: Vec<Sample>,
}

/// Sends probes until it is stopped.
pub(crate) struct Watcher {
    name: String,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Train>>,
}

impl Watcher {
    /// Opens a session and starts probing; an error if no session can be opened.
    pub(crate) fn start(name: &str, at: SocketAddr, length: Span, stop: &AtomicBool) -> Result<Self, ProbeError> {
        let seconds = u16::try_from(length.as_nanos() / 1_000_000_000 + SPARE_S).unwrap_or(u16::MAX);
        let mut watch = Session::new(at, seconds)?;
        let ours = Arc::<AtomicBool>::default();
        let theirs = Arc::clone(&ours);
        let (told, ready) = channel();
        let failed = |why| ProbeError::Socket { what: "start a second vantage", why };
        let thread = std::thread::Builder::new().name("probe-vantage".into()).spawn(move || watch.run(&theirs, &told));
        let watcher = Self { name: name.to_owned(), stop: ours, thread: thread.map_err(failed)? };
        loop {
            match ready.recv_timeout(Duration::from_nanos(TURN.as_nanos())) {
                Ok(opened) => return opened.map(|()| watcher),
                Err(_) if stop.load(Ordering::Relaxed) => return Err(ProbeError::Interrupted),
                // The thread ends with an answer or at its timeout.
                Err(_) if watcher.thread.is_finished() => return Err(ProbeError::NoServer(at)),
                Err(_) => {}
            }
        }
    }

    /// Stops it and returns its results.
    pub(crate) fn finish(self) -> Vantage {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that panicked has already reported it on stderr; there are no results then.
        let trains = self.thread.join().unwrap_or_default();
        let mut samples: Vec<Sample> = trains.into_iter().flat_map(|train| train.samples).collect();
        samples.sort_by_key(|sample| sample.sent);
        Vantage { name: self.name, samples }
    }
}

struct Session {
    at: SocketAddr,
    lane: UdpLane,
    poller: Poller,
    client: Client,
}

impl Session {
    fn new(at: SocketAddr, seconds: u16) -> Result<Self, ProbeError> {
        let failed = |what: &'static str| move |why| ProbeError::Socket { what, why };
        let any: SocketAddr = match at {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let lane = UdpLane::bind(any, None, None).map_err(failed("open a socket for a second vantage"))?;
        let poller = Poller::new().map_err(failed("wait"))?;
        poller.add(&lane, 1, Watch::Readable).map_err(failed("wait"))?;
        let pace = Pace { interval: VANTAGE_INTERVAL, size: PROBE_MIN, seconds };
        Ok(Self { at, lane, poller, client: Client::new(since_boot(), pace, Entropy::live(entropy::fill)) })
    }

    fn run(&mut self, stop: &AtomicBool, told: &Sender<Result<(), ProbeError>>) -> Vec<Train> {
        let patience = since_boot() + SERVER_PATIENCE;
        let mut connected = false;
        while !stop.load(Ordering::Relaxed) {
            let now = since_boot();
            if !connected && now >= patience {
                let _ = told.send(Err(ProbeError::NoServer(self.at)));
                return Vec::new();
            }
            self.turn(now);
            while let Some(event) = self.client.poll_event() {
                match event {
                    ClientEvent::Opened { again: false, .. } => {
                        connected = true;
                        self.client.begin(since_boot(), 0, 0);
                        let _ = told.send(Ok(()));
                    }
                    ClientEvent::Refused(why) if !connected => {
                        let _ = told.send(Err(ProbeError::Refused(why)));
                        return Vec::new();
                    }
                    // The probes lost meanwhile give enough information.
                    ClientEvent::Opened { .. } | ClientEvent::Refused(_) | ClientEvent::Silent => {}
                }
            }
        }
        self.client.end(since_boot(), 0);
        self.client.close();
        self.send(since_boot());
        self.client.trains().to_vec()
    }

    /// Sends what is due, waits until the next event, and processes what arrived.
    fn turn(&mut self, now: Instant) {
        self.client.handle_timeout(now);
        self.send(now);
        let next = self.client.poll_timeout().map_or(now + TURN, |wakeup| wakeup.at.min(now + TURN));
        let wait = Duration::from_nanos(next.since(since_boot()).as_nanos());
        if self.poller.wait(Some(wait)).is_ok_and(|ready| ready.into_iter().next().is_some()) {
            hear(&mut self.lane, self.at, &mut self.client);
        }
    }

    fn send(&mut self, now: Instant) {
        let mut buf = [0; DATAGRAM_ROOM];
        while let Some(transmit) = self.client.poll_transmit(now, PortId(0), &mut buf, 1) {
            self.lane.send(&buf[..transmit.len], None, self.at, Ecn::NotEct);
        }
    }
}

/// Passes waiting datagrams from its server to the client.
pub(crate) fn hear(lane: &mut UdpLane, server: SocketAddr, client: &mut Client) {
    // An ICMP error about an earlier probe is reported here; the missing answers show the rest.
    let _ = lane.receive(|datagram| {
        if datagram.from != server.into() {
            return;
        }
        let size = datagram.segment.map_or(datagram.bytes.len(), usize::from).max(1);
        let now = since_boot();
        let meta = FrameMeta { rx_time: now - datagram.waited, ..FrameMeta::default() };
        for one in datagram.bytes.chunks_mut(size) {
            client.handle_frame(now, PortId(0), one, meta);
        }
    });
}
