//! Measures such a server: its document, then stages of load as with our own server.

use super::config::{CONFIG_MAX, Config, ConfigError, config_url, outward, quoted, server};
use super::load::{Load, Work};
use super::trust::{Trust, tls_config};
use super::wire::{Endpoint, either, endpoint, whole, within};
use crate::ProbeError;
use crate::drive::View;
use crate::hops::{DISCARD_PORT, HopProber};
use crate::load::LoadCounts;
use crate::names::look_up;
use crate::plan::{Beside, Measurement, Stage, StageKind};
use crate::vantage::Watcher;
use hyper::Uri;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_rustls::rustls::ClientConfig;
use wavelane_base::{Instant, Span};
use wavelane_host::clock::since_boot;
use wavelane_host::hops::HopSocket;

/// Timeout of all requests before the first stage.
const OPENING_PATIENCE: Duration = Duration::from_secs(15);
const TURN: Duration = Duration::from_millis(10);
/// Interval of samples of received bytes.
const SAMPLE_EVERY: Span = Span::from_millis(50);
/// Interval of status reports.
const SHOW_EVERY: Span = Span::from_millis(250);
/// Interval of short connections.
const SMALL_EVERY: Span = Span::from_millis(100);

/// What to measure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpPlan {
    /// The document's URL, or a host.
    pub url: String,
    /// Stages and their length.
    pub stages: Vec<(StageKind, Span)>,
    /// Congestion control of uploads; empty for the system's.
    pub congestion: String,
    /// Connections in each direction ...
    pub streams: usize,
    /// ... and the delay before each further one starts.
    pub ramp: Span,
    /// Whether to look for the hop whose delay rises.
    pub hops: bool,
    /// A nearer server of ours that is probed at the same time: its name and address.
    pub vantage: Option<(String, SocketAddr)>,
    /// Trusted certificates of the server.
    pub trust: Trust,
}

impl HttpPlan {
    /// Total duration.
    pub fn length(&self) -> Span {
        self.stages.iter().fold(Span::ZERO, |sum, (_, length)| sum + *length)
    }
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> ProbeError {
    move |why| ProbeError::Socket { what, why }
}

fn server_failed(url: &Uri, why: &io::Error) -> ProbeError {
    ProbeError::Http { url: quoted(&url.to_string()), why: why.to_string() }
}

/// The server and its protocol.
struct Found {
    config: Config,
    endpoint: Endpoint,
    words: &'static str,
    notes: Vec<String>,
}

/// Resolved on a separate thread, so that this one can still check the clock and the stop flag.
async fn addresses(uri: &Uri) -> io::Result<Vec<SocketAddr>> {
    let (_, host, port) = server(uri);
    let looking = tokio::task::spawn_blocking(move || look_up(&host, port, &AtomicBool::new(false)));
    looking.await.map_err(io::Error::other)?
}

/// Tries each address in turn.
async fn ask(uri: &Uri, config: Option<&Arc<ClientConfig>>) -> Result<(Endpoint, Vec<u8>), ProbeError> {
    let wrong = |why| server_failed(uri, &why);
    let mut last = None;
    for address in addresses(uri).await.map_err(wrong)? {
        let endpoint = endpoint(uri, address, "", config).map_err(wrong)?;
        let answer = async {
            let mut opened = endpoint.open().await?;
            whole(opened.sender.get(uri).await?, CONFIG_MAX).await
        };
        match answer.await {
            Ok(body) => return Ok((endpoint, body.to_vec())),
            Err(why) => last = Some(why),
        }
    }
    Err(wrong(last.unwrap_or_else(|| io::Error::other("it has no address"))))
}

async fn find(plan: &HttpPlan) -> Result<Found, ProbeError> {
    let url = config_url(&plan.url)?;
    let tls = tls_config(&plan.trust);
    let needs = |uri: &Uri| match (server(uri).0, &tls) {
        (false, _) => Ok(None),
        (true, Ok(config)) => Ok(Some(Arc::clone(config))),
        (true, Err(why)) => Err(server_failed(uri, why)),
    };
    let (asked, document) = ask(&url, needs(&url)?.as_ref()).await?;
    let config = Config::parse(&document)?;
    let own = needs(&config.small)?;
    let mut notes = Vec::new();
    let address = if server(&config.small) == server(&url) {
        asked.address
    } else {
        // Checked before anything is sent there.
        for address in addresses(&config.small).await.map_err(|why| server_failed(&config.small, &why))? {
            outward(asked.address.ip(), address.ip())?;
        }
        let (other, _) = ask(&config.small, own.as_ref()).await?;
        outward(asked.address.ip(), other.address.ip()).map_err(ProbeError::from)?;
        let (from, to) = (quoted(&url.to_string()), quoted(&config.small.to_string()));
        notes.push(format!("the configuration of {from} leads to {to}, which was measured"));
        other.address
    };
    outward(asked.address.ip(), address.ip())?;
    let mut endpoint = endpoint(&config.small, address, &plan.congestion, own.as_ref())
        .map_err(|why| server_failed(&config.small, &why))?;
    let is_tls = endpoint.tls.is_some();
    if !is_tls {
        endpoint.learn(&config.small).await;
    }
    let opened = endpoint.open().await.map_err(|why| server_failed(&config.small, &why))?;
    let words = match (opened.sender.is_h2(), is_tls) {
        (true, true) => "HTTP/2 over TLS",
        (true, false) => "HTTP/2",
        (false, true) => "HTTP/1.1 over TLS",
        (false, false) => "HTTP/1.1",
    };
    if !opened.sender.is_h2() {
        let why = "it answers HTTP/1.1 alone, in which nothing can be asked inside a connection that carries load: there is \
                   no responsiveness (RPM) and no delay inside the load";
        notes.push(why.into());
    }
    Ok(Found { config, endpoint, words, notes })
}

struct Driver<'a> {
    plan: &'a HttpPlan,
    found: Found,
    seen: Measurement,
    hops: Option<HopProber>,
    load: Option<Load>,
    shown: (Instant, u64, u64),
}

/// Measures until the plan is done or `stop` is set; `show` gets a status a few times a second.
pub fn measure(plan: &HttpPlan, stop: &AtomicBool, show: &mut dyn FnMut(&View)) -> Result<Measurement, ProbeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed("start a runtime"))?;
    let found = runtime.block_on(async {
        let late = |why: io::Error| Err(ProbeError::Http { url: quoted(&plan.url), why: why.to_string() });
        let found = async { within(OPENING_PATIENCE, async { Ok(find(plan).await) }).await.unwrap_or_else(late) };
        either(found, async {
            stopped(stop).await;
            Err(ProbeError::Interrupted)
        })
        .await
    });
    runtime.shutdown_background();
    let mut driver = Driver::new(plan, found?);
    let vantage = plan.vantage.as_ref().map(|(name, at)| Watcher::start(name, *at, plan.length(), stop)).transpose()?;
    let begun = since_boot();
    let mut passed = Span::ZERO;
    for (kind, length) in &plan.stages {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        driver.begin(*kind)?;
        passed += *length;
        let end = begun + passed;
        while since_boot() < end && !stop.load(Ordering::Relaxed) {
            pause();
            driver.turn(begun, show);
        }
        driver.end();
    }
    driver.seen.interrupted = stop.load(Ordering::Relaxed);
    driver.seen.vantage = vantage.map(Watcher::finish);
    driver.seen.hops = driver.hops.map(|hops| hops.samples).unwrap_or_default();
    Ok(driver.seen)
}

#[expect(clippy::disallowed_methods, reason = "what is timed runs on threads of its own; this one only looks at them")]
fn pause() {
    std::thread::sleep(TURN);
}

async fn stopped(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(TURN).await;
    }
}

impl<'a> Driver<'a> {
    fn new(plan: &'a HttpPlan, mut found: Found) -> Self {
        let now = since_boot();
        let mut notes = std::mem::take(&mut found.notes);
        let address = found.endpoint.address;
        let hops = plan.hops.then(|| HopSocket::open(SocketAddr::new(address.ip(), DISCARD_PORT)));
        let hops = match hops {
            Some(Ok(socket)) => Some(HopProber::new(socket, now)),
            Some(Err(why)) => {
                notes.push(format!("hops on the way were not timed: {why}"));
                None
            }
            None => None,
        };
        let beside = Beside::Connections(found.words);
        let seen = Measurement { beside, notes, ..Measurement::default() };
        Self { plan, found, seen, hops, load: None, shown: (now, 0, 0) }
    }

    fn begin(&mut self, kind: StageKind) -> Result<(), ProbeError> {
        let now = since_boot();
        if kind != StageKind::Rest {
            let work = Work {
                endpoint: self.found.endpoint.clone(),
                config: self.found.config.clone(),
                ways: kind.ways(),
                streams: self.plan.streams,
                ramp: self.plan.ramp,
                small: SMALL_EVERY,
            };
            self.load = Some(Load::start(work).map_err(failed("start load"))?);
        }
        self.seen.stages.push(Stage { received: vec![(now, 0)], sent: vec![(now, 0)], ..Stage::begun(kind, now) });
        self.shown = (now, 0, 0);
        Ok(())
    }

    fn turn(&mut self, begun: Instant, show: &mut dyn FnMut(&View)) {
        let now = since_boot();
        if let Some(hops) = &mut self.hops {
            hops.send(now);
            hops.receive(now);
        }
        self.sample(now, SAMPLE_EVERY);
        self.show(now, begun, show);
    }

    fn moved(&self) -> (u64, u64) {
        let of = |seen: &Arc<LoadCounts>| (seen.received.load(Ordering::Relaxed), seen.sent.load(Ordering::Relaxed));
        self.load.as_ref().map_or((0, 0), |load| of(&load.seen))
    }

    fn sample(&mut self, now: Instant, every: Span) {
        let (received, sent) = self.moved();
        let Some(stage) = self.seen.stages.last_mut() else { return };
        if stage.received.last().is_none_or(|(at, _)| now.since(*at) >= every) {
            stage.received.push((now, received));
            stage.sent.push((now, sent));
        }
    }

    fn show(&mut self, now: Instant, begun: Instant, show: &mut dyn FnMut(&View)) {
        let passed = now.since(self.shown.0);
        if passed < SHOW_EVERY {
            return;
        }
        let (Some(stage), Some(load)) = (self.seen.stages.last(), &self.load) else { return };
        let (received, sent) = self.moved();
        let bps = |bytes: u64| bytes as f64 * 8.0 / passed.as_secs_f64();
        let (down, up) = stage.kind.ways();
        let tables = load.seen.tables();
        let answered = tables.smalls.len();
        show(&View {
            kind: stage.kind,
            at_s: now.since(begun).as_secs_f64(),
            of_s: self.plan.length().as_secs_f64(),
            down_bps: if down { bps(received.saturating_sub(self.shown.1)) } else { 0.0 },
            up_bps: if up { bps(sent.saturating_sub(self.shown.2)) } else { 0.0 },
            rtt_ms: tables.smalls.last().map(|small| small.connect.as_secs_f64() * 1e3),
            probes: (answered + tables.failures as usize, answered),
            streams: load.seen.streams.load(Ordering::Relaxed),
            connected: true,
        });
        drop(tables);
        self.shown = (now, received, sent);
    }

    fn end(&mut self) {
        let now = since_boot();
        self.sample(now, Span::ZERO);
        let Some(stage) = self.seen.stages.last_mut() else { return };
        stage.to = now;
        let Some(load) = self.load.take() else { return };
        let seen = load.finish();
        stage.take(&mut seen.tables());
        let word = stage.kind.word();
        if let (n @ 1.., Some(why)) = &stage.unanswered {
            self.seen
                .notes
                .push(format!("{word}: {n} requests inside loaded connections failed, the last one because {why}"));
        }
        let loads = stage.kind.ways() != (false, false);
        let (received, sent) = (seen.received.load(Ordering::Relaxed), seen.sent.load(Ordering::Relaxed));
        if let (Some(why), true) =
            (&stage.failures.1, loads && received + sent == 0 || !loads && stage.smalls.is_empty())
        {
            self.seen.notes.push(format!("{word}: {why}"));
        }
    }
}

impl From<ConfigError> for ProbeError {
    fn from(why: ConfigError) -> Self {
        Self::Config(why)
    }
}
