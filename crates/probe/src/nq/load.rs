//! Load on a server's URLs, and short connections beside it: two threads, each with a runtime of its own, so that a busy
//! download does not delay what is timed.

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

/// Between looks at the flag that ends it, and at what was acknowledged.
const TURN: Duration = Duration::from_millis(20);
/// A small answer is a few octets; one that is longer is something else.
const SMALL_MAX: usize = 64 << 10;
/// A large download that ends before so many octets is none.
const LARGE_MIN: u64 = 1 << 20;
/// Connections whose acknowledgements are looked at: more are opened only after some have failed.
const ROADS_MAX: usize = 1_024;

/// What a stage does.
pub(super) struct Work {
    pub(super) endpoint: Endpoint,
    pub(super) config: Config,
    /// Whether to download, and to upload.
    pub(super) ways: (bool, bool),
    pub(super) streams: usize,
    pub(super) ramp: Span,
    pub(super) small: Span,
}

/// Threads at work until they are told to stop.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    pub(super) seen: Arc<LoadCounts>,
}

/// An upload's socket, and what of it was counted.
struct Road {
    socket: TcpStream,
    counted: AtomicU64,
}

/// What tasks share.
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
                // What is under way ends with its runtime; a name that is still being connected to is not waited for.
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
            // One that panicked has said so on stderr already.
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

    /// One connection of load, from its opening to its failure.
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
        // It never ends by itself; a server that answers before has had enough.
        sender.post(&self.work.config.upload).await?;
        Err(io::Error::other("it ended the upload early"))
    }

    /// Small requests inside a connection of load. One that fails is counted, and the next one is asked.
    async fn ask(&self, mut sender: Sender, road: Option<Arc<Road>>, name: usize) {
        loop {
            let asked = since_boot();
            let answer = async { whole(sender.get(&self.work.config.small).await?, SMALL_MAX).await }.await;
            if sender.is_closed() {
                // With its connection, whose own task learns why.
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

    /// Counts what uploads have had acknowledged.
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
