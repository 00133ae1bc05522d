//! Load on a server's URLs, and short connections beside it: two threads, each with its own runtime, so that a busy download does not delay
//! the timed requests.

use super::config::Config;
use super::wire::{Endpoint, Opened, Sender, next, whole};
use crate::load::{AGAIN_AFTER, LoadCounts, PING_EVERY, SMALL_WORKERS, SelfSample, SmallSample};
use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use wavelane_base::Span;
use wavelane_host::clock::since_boot;
use wavelane_host::load as sockets;

/// Polling interval of the stop flag and of acknowledged bytes.
const TURN: Duration = Duration::from_millis(20);
/// A small answer is a few octets; a longer one is invalid.
const SMALL_MAX: usize = 64 << 10;
/// A large download that ends before this many octets is invalid.
const LARGE_MIN: u64 = 1 << 20;
/// Maximum number of connections whose acknowledgements are tracked: more are opened only after some have failed.
const ROADS_MAX: usize = 1_024;

/// The work of a stage.
pub(super) struct Work {
    pub(super) endpoint: Endpoint,
    pub(super) config: Config,
    /// Whether to download, and to upload.
    pub(super) ways: (bool, bool),
    pub(super) streams: usize,
    pub(super) ramp: Span,
    pub(super) small: Span,
}

/// Threads that run until they are stopped.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    pub(super) seen: Arc<LoadCounts>,
}

/// An upload's socket, and its bytes counted so far.
struct Road {
    socket: TcpStream,
    counted: AtomicU64,
}

/// State shared by tasks.
struct Shared {
    work: Work,
    seen: Arc<LoadCounts>,
    roads: Mutex<Vec<Arc<Road>>>,
}

fn long(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

impl Load {
    pub(super) fn start(work: Work) -> io::Result<Self> {
        let (stop, seen) = (Arc::<AtomicBool>::default(), Arc::<LoadCounts>::default());
        let shared = Arc::new(Shared { work, seen: Arc::clone(&seen), roads: Mutex::default() });
        let mut threads = Vec::new();
        for loads in [true, false] {
            let (shared, stop) = (Arc::clone(&shared), Arc::clone(&stop));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let run = move || {
                runtime.block_on(async {
                    if loads {
                        shared.spawn_load()
                    } else {
                        shared.spawn_smalls()
                    }
                    while !stop.load(Ordering::Relaxed) {
                        tokio::time::sleep(TURN).await;
                        if loads {
                            shared.settle();
                        }
                    }
                });
                // Running tasks end with their runtime; a name that is still being resolved or connected to is not waited for.
                runtime.shutdown_background();
            };
            threads.push(std::thread::Builder::new().name("probe-http".into()).spawn(run)?);
        }
        Ok(Self { stop, threads, seen })
    }

    /// Ends everything.
    pub(super) fn finish(mut self) -> Arc<LoadCounts> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has already reported it on stderr.
            let _ = thread.join();
        }
        Arc::clone(&self.seen)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn spawn_load(self: &Arc<Self>) {
        let (down, up) = self.work.ways;
        for (is, uploads) in [(down, false), (up, true)] {
            for number in 0..if is { self.work.streams } else { 0 } {
                let shared = Arc::clone(self);
                let name = number + if uploads { 100 } else { 0 };
                tokio::spawn(async move {
                    tokio::time::sleep(long(shared.work.ramp.times(number as u64))).await;
                    loop {
                        if let Err(why) = shared.load(uploads, name).await {
                            shared.seen.fail(&why);
                        }
                        tokio::time::sleep(AGAIN_AFTER).await;
                    }
                });
            }
        }
    }

    /// One connection of load, from opening to failure.
    async fn load(self: &Arc<Self>, uploads: bool, name: usize) -> io::Result<()> {
        let Opened { mut sender, socket, .. } = self.work.endpoint.open().await?;
        let road = Arc::new(Road { socket, counted: AtomicU64::new(0) });
        let pings = sender.twin().map(|twin| {
            let (shared, road) = (Arc::clone(self), uploads.then(|| Arc::clone(&road)));
            tokio::spawn(async move { shared.ask(twin, road, name).await })
        });
        if uploads {
            self.seen.congestion(sockets::congestion(&road.socket)?);
            let mut roads = self.roads.lock().unwrap_or_else(PoisonError::into_inner);
            if roads.len() < ROADS_MAX {
                roads.push(Arc::clone(&road));
            }
        }
        self.seen.streams.fetch_add(1, Ordering::Relaxed);
        let result = if uploads { self.upload(&mut sender).await } else { self.download(&mut sender).await };
        self.seen.streams.fetch_sub(1, Ordering::Relaxed);
        if let Some(pings) = pings {
            pings.abort();
        }
        self.settle();
        self.roads.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| !Arc::ptr_eq(other, &road));
        result
    }

    async fn download(&self, sender: &mut Sender) -> io::Result<()> {
        loop {
            let mut body = sender.get(&self.work.config.large).await?.into_body();
            let mut got = 0;
            while let Some(octets) = next(&mut body).await? {
                self.seen.received.fetch_add(octets as u64, Ordering::Relaxed);
                got += octets as u64;
            }
            if got < LARGE_MIN {
                return Err(io::Error::other(format!("its large download ended after {got} octets")));
            }
        }
    }

    async fn upload(&self, sender: &mut Sender) -> io::Result<()> {
        // It never ends by itself; an early answer means that the server stopped it.
        sender.post(&self.work.config.upload).await?;
        Err(io::Error::other("it ended the upload early"))
    }

    /// Small requests inside a connection of load. A failed one is counted, and the next one is sent.
    async fn ask(&self, mut sender: Sender, road: Option<Arc<Road>>, name: usize) {
        loop {
            let asked = since_boot();
            let answer = async { whole(sender.get(&self.work.config.small).await?, SMALL_MAX).await }.await;
            if sender.is_closed() {
                // The connection itself has failed; its own task gets the reason.
                return;
            }
            if let Err(why) = answer {
                self.seen.unanswered(&why);
                tokio::time::sleep(AGAIN_AFTER).await;
                continue;
            }
            let flying = road.as_ref().map_or(0, |road| sockets::in_flight(&road.socket));
            let back = since_boot();
            self.seen.answered(SelfSample { asked, back, in_flight: (name, flying) });
            tokio::time::sleep(long(PING_EVERY.saturating_sub(back.since(asked)))).await;
        }
    }

    /// Counts the acknowledged bytes of uploads.
    fn settle(&self) {
        for road in self.roads.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let now = sockets::acknowledged(&road.socket);
            let before = road.counted.fetch_max(now, Ordering::Relaxed);
            self.seen.sent.fetch_add(now.saturating_sub(before), Ordering::Relaxed);
        }
    }

    fn spawn_smalls(self: &Arc<Self>) {
        for number in 0..SMALL_WORKERS {
            let shared = Arc::clone(self);
            tokio::spawn(async move {
                tokio::time::sleep(long(shared.work.small.times(number as u64))).await;
                let every = shared.work.small.times(SMALL_WORKERS as u64);
                loop {
                    let begun = since_boot();
                    match shared.small().await {
                        Ok(sample) => shared.seen.small(sample),
                        Err(why) => shared.seen.fail(&why),
                    }
                    tokio::time::sleep(long(every.saturating_sub(since_boot().since(begun)))).await;
                }
            });
        }
    }

    /// A short connection: both handshakes and one request.
    async fn small(&self) -> io::Result<SmallSample> {
        let begun = since_boot();
        let Opened { mut sender, connect, tls, socket: _socket } = self.work.endpoint.open().await?;
        let asked = since_boot();
        whole(sender.get(&self.work.config.small).await?, SMALL_MAX).await?;
        Ok(SmallSample { begun, connect, tls, request: since_boot().since(asked) })
    }
}
