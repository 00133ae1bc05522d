//! The client on real sockets: stages, load, probes, and periodic status reports.

use crate::ProbeError;
use crate::client::{Client, ClientEvent, Pace};
use crate::hops::{DISCARD_PORT, HopProber};
use crate::load::{Load, LoadPlan, SharedToken};
use crate::plan::{Measurement, Plan, SocketDrops, Stage, StageKind};
use crate::stream::Purpose;
use crate::vantage::{Watcher, hear};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wavelane_base::{Ecn, Entropy, Instant, Machine, PortId, Span};
use wavelane_host::clock::since_boot;
use wavelane_host::entropy;
use wavelane_host::hops::HopSocket;
use wavelane_host::poller::{Poller, Watch};
use wavelane_host::udp::UdpLane;

/// If the server has not answered by then, it is considered absent.
const SERVER_PATIENCE: Span = Span::from_secs(5);
/// Polling interval of the stop flag.
const TURN: Span = Span::from_millis(100);
/// Interval of samples of received bytes.
const SAMPLE_EVERY: Span = Span::from_millis(50);
/// Interval of status reports.
const SHOW_EVERY: Span = Span::from_millis(250);
/// Timeout for the server's counts of the last train.
const COUNT_PATIENCE: Span = Span::from_secs(3);
/// Interval of short connections: at 10 Mbit/s and 5,000 octets 4 % of the path.
const SMALL_EVERY: Span = Span::from_millis(100);
/// Seconds requested for the session beyond the plan.
const SPARE_S: u64 = 30;
const DATAGRAM_ROOM: usize = 2_048;

/// Status of a running measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    /// The stage.
    pub kind: StageKind,
    /// Seconds since the beginning ...
    pub at_s: f64,
    /// ... of this total.
    pub of_s: f64,
    /// Bits per second received in each direction since the last status.
    pub down_bps: f64,
    /// See `down_bps`.
    pub up_bps: f64,
    /// RTT of the latest answered probe.
    pub rtt_ms: Option<f64>,
    /// Probes sent, and answered, in this stage.
    pub probes: (usize, usize),
    /// Connections of load.
    pub streams: u64,
    /// The server answers.
    pub connected: bool,
}

struct Driver<'a> {
    plan: &'a Plan,
    lane: UdpLane,
    client: Client,
    hops: Option<HopProber>,
    poller: Poller,
    token: SharedToken,
    code: u8,
    connected: bool,
    refused: Option<ProbeError>,
    seen: Measurement,
    load: Option<Load>,
    retired: Vec<(usize, Load)>,
    shown: (Instant, u64, u64),
}

/// Measures until the plan is done or `stop` is set; `show` gets a status a few times a second.
pub fn measure(plan: &Plan, stop: &AtomicBool, show: &mut dyn FnMut(&View)) -> Result<Measurement, ProbeError> {
    let mut driver = Driver::new(plan)?;
    driver.connect(stop)?;
    let vantage = plan.vantage.as_ref().map(|(name, at)| Watcher::start(name, *at, plan.length(), stop)).transpose()?;
    let begun = since_boot();
    let mut passed = Span::ZERO;
    for (index, (kind, length)) in plan.stages.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        driver.begin(index, *kind)?;
        // Each stage ends at its planned time, so that late wake-ups do not accumulate.
        passed += *length;
        let end = begun + passed;
        while since_boot() < end && !stop.load(Ordering::Relaxed) {
            driver.turn(end)?;
            driver.show(begun, show);
        }
        driver.end(index);
    }
    driver.seen.vantage = vantage.map(Watcher::finish);
    driver.finish(stop)
}

impl<'a> Driver<'a> {
    fn new(plan: &'a Plan) -> Result<Self, ProbeError> {
        let failed = |what: &'static str| move |why| ProbeError::Socket { what, why };
        let any: SocketAddr = match plan.target {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let lane = UdpLane::bind(any, None, None).map_err(failed("open a socket for probes"))?;
        let poller = Poller::new().map_err(failed("wait"))?;
        poller.add(&lane, 1, Watch::Readable).map_err(failed("wait"))?;
        let now = since_boot();
        let seconds = plan.length().as_nanos() / 1_000_000_000 + SPARE_S;
        let seconds = u16::try_from(seconds).unwrap_or(u16::MAX);
        let pace = Pace { interval: plan.interval, size: plan.size, seconds };
        let mut seen = Measurement { probe_size: plan.size, interval: plan.interval, ..Measurement::default() };
        let hops = plan.hops.then(|| HopSocket::open(SocketAddr::new(plan.target.ip(), DISCARD_PORT)));
        let hops = match hops {
            Some(Ok(socket)) => {
                // A pending error is reported whatever is watched.
                poller.add(&socket, 2, Watch::Edges).map_err(failed("wait"))?;
                Some(HopProber::new(socket, now))
            }
            Some(Err(why)) => {
                seen.notes.push(format!("hops on the way were not timed: {why}"));
                None
            }
            None => None,
        };
        Ok(Self {
            plan,
            lane,
            client: Client::new(now, pace, Entropy::live(entropy::fill)),
            hops,
            poller,
            token: Arc::new(Mutex::new([0; 16])),
            code: 0,
            connected: false,
            refused: None,
            seen,
            load: None,
            retired: Vec::new(),
            shown: (now, 0, 0),
        })
    }

    /// Waits for a session.
    fn connect(&mut self, stop: &AtomicBool) -> Result<(), ProbeError> {
        let patience = since_boot() + SERVER_PATIENCE;
        while !self.connected {
            if stop.load(Ordering::Relaxed) {
                return Err(ProbeError::Interrupted);
            }
            if since_boot() >= patience {
                return Err(ProbeError::NoServer(self.plan.target));
            }
            self.turn(patience)?;
        }
        Ok(())
    }

    fn begin(&mut self, index: usize, kind: StageKind) -> Result<(), ProbeError> {
        let now = since_boot();
        let label = index as u32;
        self.client.begin(now, label, 0);
        for dscp in &self.plan.dscps {
            self.client.begin(now, label, *dscp);
        }
        let (down, up) = kind.ways();
        if down || up {
            let plan = LoadPlan {
                target: self.plan.target,
                congestion: self.plan.congestion.clone(),
                streams: self.plan.streams,
                ramp: self.plan.ramp,
            };
            let ways: Vec<Purpose> =
                [(down, Purpose::Down), (up, Purpose::Up)].iter().filter(|(is, _)| *is).map(|(_, way)| *way).collect();
            let load = Load::start(&plan, &ways, SMALL_EVERY, &self.token);
            self.load = Some(load.map_err(|why| ProbeError::Socket { what: "start load", why })?);
        }
        self.seen.stages.push(Stage { received: vec![(now, 0)], ..Stage::begun(kind, now) });
        self.shown = (now, 0, self.shown.2);
        Ok(())
    }

    fn end(&mut self, index: usize) {
        let now = since_boot();
        self.client.end(now, index as u32);
        self.sample(now, Span::ZERO);
        if let Some(stage) = self.seen.stages.last_mut() {
            stage.to = now;
        }
        if let Some(load) = self.load.take() {
            load.stop();
            self.retired.push((index, load));
        }
    }

    /// Sends what is due, waits until the next event, and processes what arrived; not beyond `end`.
    fn turn(&mut self, end: Instant) -> Result<(), ProbeError> {
        let now = since_boot();
        self.client.handle_timeout(now);
        self.send(now);
        if let Some(hops) = self.hops.as_mut().filter(|_| self.connected) {
            hops.send(now);
        }
        self.sample(now, SAMPLE_EVERY);
        self.events()?;
        let due = self.client.poll_timeout().map(|wakeup| wakeup.at);
        let hop = self.hops.as_ref().filter(|_| self.connected).map(HopProber::next);
        let next = due.into_iter().chain(hop).fold(end.min(now + TURN), Instant::min);
        let wait = next.since(since_boot());
        let failed = |why| ProbeError::Socket { what: "wait", why };
        for ready in self.poller.wait(Some(Duration::from_nanos(wait.as_nanos()))).map_err(failed)? {
            match ready.token {
                1 => self.receive(),
                _ => {
                    if let Some(hops) = &mut self.hops {
                        hops.receive(since_boot());
                    }
                }
            }
        }
        self.events()
    }

    fn send(&mut self, now: Instant) {
        let mut buf = [0; DATAGRAM_ROOM];
        let codes = [0].into_iter().chain(self.plan.dscps.iter().copied());
        for code in codes {
            while let Some(transmit) = self.client.poll_transmit(now, PortId(code.into()), &mut buf, 1) {
                if code != self.code && self.lane.set_dscp(code).is_ok() {
                    self.code = code;
                }
                // What the kernel has no room for counts as lost here: it is this host's queue.
                self.lane.send(&buf[..transmit.len], None, self.plan.target, Ecn::NotEct);
            }
        }
    }

    fn receive(&mut self) {
        hear(&mut self.lane, self.plan.target, &mut self.client);
    }

    fn events(&mut self) -> Result<(), ProbeError> {
        while let Some(event) = self.client.poll_event() {
            match event {
                ClientEvent::Opened { token, grant, again } => {
                    *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token;
                    self.connected = true;
                    self.seen.reopened += u32::from(again);
                    let needed = self.plan.length();
                    if !again && Span::from_secs(grant.seconds.into()) < needed {
                        self.refused = Some(ProbeError::TooLong { granted_s: grant.seconds, needed });
                    }
                    let (granted, needed) = (grant.probes_per_second, self.plan.probes_per_second());
                    if !again && u64::from(granted) < needed {
                        self.refused = Some(ProbeError::TooFast { granted, needed });
                    }
                }
                ClientEvent::Refused(why) if !self.connected => self.refused = Some(ProbeError::Refused(why)),
                ClientEvent::Refused(why) => {
                    self.seen.notes.push(format!("after a silence the server opened no session again: {}", why.text()));
                }
                ClientEvent::Silent => {
                    self.seen.notes.push("the server was silent for three seconds or more; probing went on".into());
                }
            }
        }
        self.refused.take().map_or(Ok(()), Err)
    }

    fn sample(&mut self, now: Instant, every: Span) {
        let (Some(load), Some(stage)) = (&self.load, self.seen.stages.last_mut()) else { return };
        if stage.received.last().is_none_or(|(at, _)| now.since(*at) >= every) {
            stage.received.push((now, load.seen.received.load(Ordering::Relaxed)));
        }
    }

    fn show(&mut self, begun: Instant, show: &mut dyn FnMut(&View)) {
        let now = since_boot();
        let passed = now.since(self.shown.0);
        if passed < SHOW_EVERY {
            return;
        }
        let Some(stage) = self.seen.stages.last() else { return };
        let received = self.load.as_ref().map_or(0, |load| load.seen.received.load(Ordering::Relaxed));
        let label = self.seen.stages.len() as u32 - 1;
        let train = self.client.trains().iter().rev().find(|train| train.label == label && train.dscp == 0);
        let samples = train.map_or(&[][..], |train| &train.samples);
        let last = samples.iter().rev().find_map(|s| Some((s.echo?, s.sent)));
        let loaded = last.map_or(self.shown.2, |((told, _), _)| told.loaded);
        let bps = |bytes: u64| bytes as f64 * 8.0 / passed.as_secs_f64();
        let (down, up) = stage.kind.ways();
        let streams = self.load.as_ref().map_or(0, |load| load.seen.streams.load(Ordering::Relaxed));
        show(&View {
            kind: stage.kind,
            at_s: now.since(begun).as_secs_f64(),
            of_s: self.plan.length().as_secs_f64(),
            down_bps: if down { bps(received.saturating_sub(self.shown.1)) } else { 0.0 },
            up_bps: if up { bps(loaded.saturating_sub(self.shown.2)) } else { 0.0 },
            rtt_ms: last.map(|((_, back), sent)| back.since(sent).as_secs_f64() * 1e3),
            probes: (samples.len(), samples.iter().filter(|s| s.echo.is_some()).count()),
            streams,
            connected: self.connected,
        });
        self.shown = (now, received, loaded);
    }

    /// Waits for the last counts and connections, closes the session, and returns the results.
    fn finish(mut self, stop: &AtomicBool) -> Result<Measurement, ProbeError> {
        let patience = since_boot() + COUNT_PATIENCE;
        while !self.client.counted() && since_boot() < patience && !stop.load(Ordering::Relaxed) {
            self.turn(patience)?;
        }
        self.client.close();
        self.send(since_boot());
        self.seen.interrupted = stop.load(Ordering::Relaxed);
        for (index, load) in self.retired.drain(..) {
            // After an interruption, do not wait for connections to close in order; the process's exit closes them.
            let seen = if self.seen.interrupted { Arc::clone(&load.seen) } else { load.finish() };
            let stage = &mut self.seen.stages[index];
            stage.take(&mut seen.tables());
            let wanted = &self.plan.congestion;
            let other = stage.congestions.iter().find(|name| !wanted.is_empty() && *name != wanted);
            self.seen.notes.extend(other.map(|name| {
                format!("load {} was sent with {name}: {wanted} may not be chosen at that end", stage.kind.word())
            }));
            // Each connection of load tells its congestion control.
            let (unanswered, unmade) = (stage.selfs.is_empty(), stage.congestions.is_empty());
            let seconds = stage.to.since(stage.from).as_secs_f64();
            let why = stage.failures.1.clone().filter(|_| unanswered).or_else(|| {
                unmade.then(|| {
                    format!(
                        "no connection was made in {seconds:.0} s: something on the way, such as a firewall, stops TCP"
                    )
                })
            });
            self.seen.notes.extend(why.map(|why| format!("there was no load {}: {why}", stage.kind.word())));
        }
        self.seen.socket_drops =
            SocketDrops { server: self.client.server_socket_drops(), own: self.lane.dropped().map_or(0, u64::from) };
        self.seen.trains = self.client.trains().to_vec();
        self.seen.hops = self.hops.map(|hops| hops.samples).unwrap_or_default();
        Ok(self.seen)
    }
}
