//! The client's TCP: connections that carry load, and short ones that do not.

use crate::packet::Token;
use crate::pump::{Moved, close, pump, read_by};
use crate::stream::{self, ANSWER_LEN, End, Opening, Purpose, SMALL_REPLY};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use wavelane_base::{Instant, Span};
use wavelane_host::clock::since_boot;
use wavelane_host::load as sockets;

/// Interval of requests inside one connection of load.
pub(crate) const PING_EVERY: Span = Span::from_millis(100);
/// Timeout of a connection, and of the complete answer to its opening or its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Delay after a failed connection before the next attempt.
pub(crate) const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// Maximum number of samples of each kind; a day of them.
const SAMPLES_MAX: usize = 1_000_000;

/// An answered request inside a connection of load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SelfSample {
    /// When it was sent.
    pub asked: Instant,
    /// When the answer arrived.
    pub back: Instant,
    /// Bytes in flight of its sender's TCP, and the connection.
    pub in_flight: (usize, u32),
}

/// A short connection.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SmallSample {
    /// When it started.
    pub begun: Instant,
    /// Duration of the TCP handshake.
    pub connect: Span,
    /// Duration of the TLS handshake, divided by its number of round trips, where there is TLS.
    pub tls: Option<Span>,
    /// From the request to the last octet of the reply.
    pub request: Span,
}

/// State that the threads share with their owner.
#[derive(Debug, Default)]
pub(crate) struct LoadCounts {
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) streams: AtomicU64,
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) selfs: Vec<SelfSample>,
    pub(crate) smalls: Vec<SmallSample>,
    /// Congestion controls in use where load was sent, without duplicates.
    pub(crate) congestions: Vec<String>,
    pub(crate) failures: u64,
    pub(crate) last_failure: Option<String>,
    /// Requests inside connections of load without an answer, and the reason for the last.
    pub(crate) unanswered: (u64, Option<String>),
}

impl LoadCounts {
    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub(crate) fn fail(&self, why: &io::Error) {
        let mut tables = self.tables();
        tables.failures += 1;
        tables.last_failure = Some(why.to_string());
    }
    /// Records a request inside a connection of load without an answer.
    pub(crate) fn unanswered(&self, why: &io::Error) {
        let mut tables = self.tables();
        tables.unanswered.0 += 1;
        tables.unanswered.1 = Some(why.to_string());
    }
    /// Records an answer inside a connection of load.
    pub(crate) fn answered(&self, sample: SelfSample) {
        let mut tables = self.tables();
        if tables.selfs.len() < SAMPLES_MAX && sample.asked <= sample.back {
            tables.selfs.push(sample);
        }
    }
    /// Records a short connection.
    pub(crate) fn small(&self, sample: SmallSample) {
        let mut tables = self.tables();
        if tables.smalls.len() < SAMPLES_MAX {
            tables.smalls.push(sample);
        }
    }
    pub(crate) fn congestion(&self, name: String) {
        let mut tables = self.tables();
        if !tables.congestions.contains(&name) {
            tables.congestions.push(name);
        }
    }
}

/// Parameters of the load.
#[derive(Clone, Debug)]
pub(crate) struct LoadPlan {
    pub(crate) target: SocketAddr,
    /// Empty for the system's default.
    pub(crate) congestion: String,
    /// Connections in each direction ...
    pub(crate) streams: usize,
    /// ... and the delay before each further one starts.
    pub(crate) ramp: Span,
}

/// Load that runs until it is dropped or stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<(JoinHandle<()>, Sender<()>)>,
    pub(crate) seen: Arc<LoadCounts>,
}

/// The session's name, which may change.
pub(crate) type SharedToken = Arc<Mutex<Token>>;

struct Worker {
    plan: LoadPlan,
    purpose: Purpose,
    number: usize,
    delay: Duration,
    token: SharedToken,
    stop: Arc<AtomicBool>,
    seen: Arc<LoadCounts>,
}

impl Load {
    /// Starts load in these directions, and short connections every `small`.
    pub(crate) fn start(plan: &LoadPlan, ways: &[Purpose], small: Span, token: &SharedToken) -> io::Result<Self> {
        let mut load = Self { stop: Arc::default(), threads: Vec::new(), seen: Arc::default() };
        for purpose in ways {
            for number in 0..plan.streams {
                let delay = Duration::from_nanos(plan.ramp.times(number as u64).as_nanos());
                load.worker(plan, *purpose, number + 100 * *purpose as usize, delay, token, |worker, ended| {
                    worker.load(ended);
                })?;
            }
        }
        for number in 0..SMALL_WORKERS {
            // Several threads take turns, so that the interval stays regular even if a reply takes long.
            let delay = Duration::from_nanos(small.times(number as u64).as_nanos());
            let every = Duration::from_nanos(small.times(SMALL_WORKERS as u64).as_nanos());
            load.worker(plan, Purpose::Small, number, delay, token, move |worker, ended| worker.small(ended, every))?;
        }
        Ok(load)
    }

    fn worker(
        &mut self,
        plan: &LoadPlan,
        purpose: Purpose,
        number: usize,
        delay: Duration,
        token: &SharedToken,
        work: impl FnOnce(&Worker, &Ended) + Send + 'static,
    ) -> io::Result<()> {
        let (end, ended) = channel();
        let (stop, seen) = (Arc::clone(&self.stop), Arc::clone(&self.seen));
        let worker = Worker { plan: plan.clone(), purpose, number, delay, token: Arc::clone(token), stop, seen };
        let thread = std::thread::Builder::new().name("probe-load".into()).spawn(move || {
            if !ended_within(&ended, worker.delay) {
                work(&worker, &ended);
            }
        })?;
        self.threads.push((thread, end));
        Ok(())
    }

    /// Ends all connections in order and waits for that.
    pub(crate) fn finish(mut self) -> Arc<LoadCounts> {
        self.stop.store(true, Ordering::Relaxed);
        for (thread, end) in self.threads.drain(..) {
            drop(end);
            // A worker that panicked has already reported it on stderr.
            let _ = thread.join();
        }
        Arc::clone(&self.seen)
    }
    /// Asks all connections to close, without waiting.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The time at which [`PATIENCE`] expires.
fn by_patience() -> Instant {
    since_boot() + Span::from_nanos(PATIENCE.as_nanos() as u64)
}

/// Number of threads for short connections.
pub(crate) const SMALL_WORKERS: usize = 4;

type Ended = std::sync::mpsc::Receiver<()>;

/// Waits; true if the owner was dropped meanwhile.
fn ended_within(ended: &Ended, patience: Duration) -> bool {
    ended.recv_timeout(patience) != Err(RecvTimeoutError::Timeout)
}

impl Worker {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn open(&self) -> io::Result<(TcpStream, Span, String)> {
        let start = since_boot();
        let mut stream = sockets::connect(self.plan.target, &self.plan.congestion, PATIENCE)?;
        let connected = since_boot().since(start);
        stream.set_write_timeout(Some(PATIENCE))?;
        let token = *self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let opening = Opening { purpose: self.purpose, token, congestion: self.plan.congestion.clone() };
        stream.write_all(&opening.to_bytes())?;
        let mut answer = [0; ANSWER_LEN];
        read_by(&stream, &mut answer, by_patience())?;
        let theirs = stream::parse_answer(&answer).map_err(io::Error::other)?;
        Ok((stream, connected, theirs))
    }

    /// Carries load; a broken connection is re-established.
    fn load(&self, ended: &Ended) {
        while !self.stopped() {
            let result = self.open().and_then(|(stream, _, theirs)| {
                let own = sockets::congestion(&stream)?;
                self.seen.congestion(if self.purpose == Purpose::Up { own } else { theirs });
                self.seen.streams.fetch_add(1, Ordering::Relaxed);
                let result = self.carry(&stream);
                self.seen.streams.fetch_sub(1, Ordering::Relaxed);
                close(&stream);
                result
            });
            if let (Err(why), false) = (result, self.stopped()) {
                self.seen.fail(&why);
            }
            if self.stopped() || ended_within(ended, AGAIN_AFTER) {
                return;
            }
        }
    }

    fn carry(&self, stream: &TcpStream) -> io::Result<()> {
        let mut end = End::new(self.purpose == Purpose::Up);
        let mut next = since_boot();
        let mut leave: Option<Instant> = None;
        pump(stream, &mut end, |end, moved: Moved| {
            self.seen.received.fetch_add(moved.received, Ordering::Relaxed);
            self.seen.sent.fetch_add(moved.sent, Ordering::Relaxed);
            let now = since_boot();
            while let Some(pong) = end.pong() {
                let flying = if self.purpose == Purpose::Up { sockets::in_flight(stream) } else { pong.in_flight };
                let sample =
                    SelfSample { asked: Instant::from_nanos(pong.asked), back: now, in_flight: (self.number, flying) };
                self.seen.answered(sample);
            }
            if self.stopped() {
                end.finish();
                return now < *leave.get_or_insert(now + Span::from_millis(500)) && !end.ended();
            }
            if now >= next {
                end.ping(now.as_nanos());
                next = now + PING_EVERY;
            }
            true
        })
    }

    /// Repeatedly opens a connection, sends a request and reads the reply.
    fn small(&self, ended: &Ended, every: Duration) {
        loop {
            let begun = since_boot();
            let result = self.open_small();
            match result {
                Ok((connect, request)) => {
                    self.seen.small(SmallSample { begun, connect, tls: None, request });
                }
                Err(why) if !self.stopped() => self.seen.fail(&why),
                Err(_) => {}
            }
            let took = Duration::from_nanos(since_boot().since(begun).as_nanos());
            if self.stopped() || ended_within(ended, every.saturating_sub(took)) {
                return;
            }
        }
    }

    fn open_small(&self) -> io::Result<(Span, Span)> {
        let begun = since_boot();
        let (stream, connect, _) = self.open()?;
        let mut reply = vec![0; SMALL_REPLY];
        read_by(&stream, &mut reply, by_patience())?;
        let request = since_boot().since(begun).saturating_sub(connect);
        Ok((connect, request))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop();
    }
}
