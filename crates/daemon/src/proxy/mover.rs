//! The threads that move a proxy's bytes: one per processor, each with connections of its own.
//!
//! The door decides; once both halves of a connection are open, one of these threads has it to its end. Nothing of a connection is
//! shared between threads, so none waits for another.

use super::outages::Outages;
use super::status::{Connection, Half, longest};
use crate::connection::{KernelSocket, got, put};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use wavelane_base::Instant;
use wavelane_door::{Edges, Got, PairConfig, Pipes, Put, Receiving, Relay, Relays, Rooms, Socket, Tally};
use wavelane_host::clock::NodeClock;
use wavelane_host::pipe::Pipe;
use wavelane_host::poller::{Poller, Ready, Watch};
use wavelane_host::tcp;

/// Most threads.
const MOVERS_MAX: usize = 64;
/// Bytes that wait in each direction between the two halves of a connection.
pub(super) const ROOM: usize = 256 << 10;
/// Pipes of all threads, two descriptors each. A pipe has bytes only while a socket has no room for them; who finds none is copied.
const PIPES_MAX: usize = 256;
/// Empty pipes that a thread keeps.
const PIPES_SPARE: usize = 8;
/// Connections served before readiness is asked again.
const TURNS_PER_ROUND: usize = 64;
/// A thread that does not tell what it has within this time is left out of the status.
const TELLS_WITHIN: Duration = Duration::from_secs(1);
const TOKEN_BELL: u64 = u64::MAX;

/// A connection whose both halves are open.
pub(super) struct Joined {
    /// The application's half and the server's.
    pub(super) sockets: [KernelSocket; 2],
    pub(super) failed: [bool; 2],
    pub(super) born: Instant,
    /// The application's address and the server's.
    pub(super) ends: (SocketAddr, SocketAddr),
}

/// What a thread tells about itself.
#[derive(Default)]
pub(super) struct Account {
    pub(super) tally: Tally,
    /// Those that moved most, with what they moved.
    pub(super) busiest: Vec<(u64, Connection)>,
}

enum Order {
    Tell(Sender<Account>),
    Bound(PairConfig),
    /// A link came up.
    CallBack,
}

/// What both sides of a thread see.
#[derive(Default)]
struct Shared {
    /// Connections it has or is about to take.
    live: AtomicUsize,
    waiting: AtomicUsize,
    /// Connections it has not taken yet, at most `connections_max` of them. Whoever adds one holds the lock until its sockets are
    /// watched, so an event of an unknown connection is one of these.
    joining: Mutex<Vec<(u64, Joined)>>,
}

/// The owner's handle on one thread. Dropping it resets what the thread has.
struct Mover {
    shared: Arc<Shared>,
    watch: Poller,
    orders: Option<Sender<Order>>,
    bell: UnixStream,
    thread: Option<JoinHandle<()>>,
}

/// See the module's description.
pub(super) struct Movers {
    all: Vec<Mover>,
    next: u64,
}

/// What each thread may hold of what all may.
fn share(config: PairConfig, threads: usize) -> PairConfig {
    // Its least share of the pool stays what it is among all.
    let flows_max = config.flows_max.div_ceil(threads).max(1);
    PairConfig { pool: config.pool / threads, flows_max, ..config }
}

impl Movers {
    pub(super) fn start(config: PairConfig, clock: NodeClock) -> io::Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOVERS_MAX);
        let one = |number| Mover::start(number, share(config, threads), PIPES_MAX / threads, clock);
        Ok(Self { all: (0..threads).map(one).collect::<io::Result<_>>()?, next: 0 })
    }
    /// Connections of all.
    pub(super) fn live(&self) -> usize {
        self.all.iter().map(|mover| mover.shared.live.load(Ordering::Relaxed)).sum()
    }
    /// Bytes that wait between their halves.
    pub(super) fn waiting(&self) -> usize {
        self.all.iter().map(|mover| mover.shared.waiting.load(Ordering::Relaxed)).sum()
    }
    pub(super) fn set_config(&self, config: PairConfig) {
        let share = share(config, self.all.len());
        self.all.iter().for_each(|mover| mover.order(Order::Bound(share)));
    }
    /// A link came up.
    pub(super) fn call_back(&self) {
        self.all.iter().for_each(|mover| mover.order(Order::CallBack));
    }
    /// Resets all of them.
    pub(super) fn stop(&mut self) {
        self.all.clear();
    }
    /// Gives a connection to the thread that has fewest.
    pub(super) fn take(&mut self, joined: Joined) -> io::Result<()> {
        let id = self.next;
        self.next += 1;
        // Of equals the first after the one before.
        let from = usize::try_from(id).unwrap_or_default() % self.all.len();
        let order = (from..self.all.len()).chain(0..from);
        let live = |at: &usize| self.all[*at].shared.live.load(Ordering::Relaxed);
        let chosen = order.min_by_key(live).unwrap_or_default();
        self.all[chosen].take(id, joined)
    }
    /// What all have done and have.
    pub(super) fn accounts(&self) -> Vec<Account> {
        let asked: Vec<Receiver<Account>> = self
            .all
            .iter()
            .map(|mover| {
                let (tell, told) = channel();
                mover.order(Order::Tell(tell));
                told
            })
            .collect();
        asked.iter().filter_map(|told| told.recv_timeout(TELLS_WITHIN).ok()).collect()
    }
}

impl Mover {
    fn start(number: usize, config: PairConfig, pipes: usize, clock: NodeClock) -> io::Result<Self> {
        let poller = Poller::new()?;
        let (watch, rewatch) = (poller.share()?, poller.share()?);
        let (bell, rung) = UnixStream::pair()?;
        [&bell, &rung].into_iter().try_for_each(|end| end.set_nonblocking(true))?;
        poller.add(&rung, TOKEN_BELL, Watch::Readable)?;
        let shared = Arc::new(Shared::default());
        let (orders, incoming) = channel();
        let pipes = KernelPipes { spare: Vec::new(), made: 0, most: pipes };
        let seen = Arc::clone(&shared);
        let work = move || {
            let (_fatal, watch, now) = (Fatal, Rc::new(rewatch), clock.now());
            let outages = Outages::new(now);
            Thread {
                relays: Relays::new(config, pipes),
                outages,
                shared: seen,
                poller,
                watch,
                rung,
                incoming,
                clock,
                now,
            }
            .run();
        };
        let thread = std::thread::Builder::new().name(format!("mover {number}")).spawn(work)?;
        Ok(Self { shared, watch, orders: Some(orders), bell, thread: Some(thread) })
    }
    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            let _ = orders.send(order);
        }
        self.ring();
    }
    fn ring(&self) {
        // A bell that is full rings already.
        let _ = (&self.bell).write(&[1]);
    }
    fn take(&self, id: u64, joined: Joined) -> io::Result<()> {
        let mut joining = self.shared.joining.lock().unwrap_or_else(PoisonError::into_inner);
        for (half, socket) in (0..).zip(&joined.sockets) {
            self.watch.add(&socket.0, id << 1 | half, Watch::Arrivals)?;
        }
        self.shared.live.fetch_add(1, Ordering::Relaxed);
        let failed = joined.failed.contains(&true);
        joining.push((id, joined));
        drop(joining);
        if failed {
            // Of that no event tells any more.
            self.ring();
        }
        Ok(())
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.orders = None;
        self.ring();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A thread that panics ends the process: its connections would stand still, and what is new would still be taken.
struct Fatal;

impl Drop for Fatal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

struct Thread {
    relays: Relays<Watched, KernelPipes, (SocketAddr, SocketAddr)>,
    outages: Outages,
    shared: Arc<Shared>,
    poller: Poller,
    watch: Rc<Poller>,
    rung: UnixStream,
    incoming: Receiver<Order>,
    clock: NodeClock,
    now: Instant,
}

impl Thread {
    fn run(mut self) {
        loop {
            let timeout = match self.settle() {
                true => Some(Duration::ZERO),
                false => {
                    let look = (!self.relays.is_empty()).then(|| self.outages.deadline());
                    let next: Option<Instant> = [self.relays.deadline(), look].into_iter().flatten().min();
                    next.map(|at| self.clock.until(at))
                }
            };
            let ready = self.poller.wait(timeout).expect("the set of descriptors is ours and open");
            self.now = self.clock.now();
            for ready in ready {
                match ready.token {
                    TOKEN_BELL if !self.obey() => return,
                    TOKEN_BELL => {}
                    _ => self.ready(ready),
                }
            }
            if self.relays.deadline().is_some_and(|at| at <= self.now) {
                self.relays.look_after_last_bytes(self.now);
                self.count();
            }
            if self.outages.deadline() <= self.now {
                let Self { relays, outages, now, .. } = &mut self;
                let socket = |(id, half): (u64, usize)| Some(&relays.get(id)?.0.halves[half].socket.socket.0);
                outages.look(*now, |id| relays.from(id), socket);
            }
        }
    }
    /// Moves what can be moved. Returns whether more could be done at once.
    fn settle(&mut self) -> bool {
        let more = (0..TURNS_PER_ROUND).all(|_| self.relays.serve_next(self.now));
        self.count();
        more
    }
    fn count(&self) {
        let joining = self.shared.joining.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.live.store(self.relays.len() + joining.len(), Ordering::Relaxed);
        self.shared.waiting.store(self.relays.waiting(), Ordering::Relaxed);
    }
    fn ready(&mut self, ready: Ready) {
        let (id, half) = (ready.token >> 1, (ready.token & 1) as usize);
        if self.relays.get(id).is_none() {
            self.admit();
        }
        let edges =
            Edges { readable: ready.readable, writable: ready.writable, ends: ready.ends, urgent: ready.urgent };
        self.relays.ready(id, half, edges);
        let error = self.relays.get(id).filter(|_| ready.failed);
        if error.and_then(|(relay, _)| relay.halves[half].socket.socket.take_error()).is_some() {
            self.relays.fail(id, half);
        }
    }
    /// Takes what joined.
    fn admit(&mut self) {
        let joining = std::mem::take(&mut *self.shared.joining.lock().unwrap_or_else(PoisonError::into_inner));
        for (id, Joined { sockets: [near, far], failed, born, ends }) in joining {
            let watched = |socket, half| Watched {
                socket,
                watch: Rc::clone(&self.watch),
                token: id << 1 | half,
                for_room: false,
            };
            self.relays.insert(id, born, [watched(near, 0), watched(far, 1)], failed, ends);
        }
    }
    /// Does what was ordered; `false` at the end.
    fn obey(&mut self) -> bool {
        while matches!(self.rung.read(&mut [0; 64]), Ok(n) if n > 0) {}
        self.admit();
        loop {
            match self.incoming.try_recv() {
                Ok(Order::Bound(config)) => self.relays.set_config(config),
                Ok(Order::CallBack) => {
                    let relays = self.relays.iter().flat_map(|(_, relay, _)| &relay.halves);
                    self.outages.call_back(relays.map(|half| &half.socket.socket.0));
                }
                // Whoever asked may have given up.
                Ok(Order::Tell(to)) => drop(to.send(self.account())),
                Err(std::sync::mpsc::TryRecvError::Empty) => return true,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return false,
            }
        }
    }
    fn account(&self) -> Account {
        let moved = |relay: &Relay<Watched, Pipe>| -> u64 {
            relay.halves.iter().map(|half| half.moved.from_socket + half.moved.to_socket).sum()
        };
        let busiest = longest(self.relays.iter().map(|(id, relay, _)| (moved(relay), id)).collect());
        let shown = busiest.into_iter().filter_map(|(moved, id)| Some((moved, self.shown(id)?)));
        Account { tally: self.relays.tally, busiest: shown.collect() }
    }
    fn shown(&self, id: u64) -> Option<Connection> {
        let (relay, ends) = self.relays.get(id)?;
        let half = |at: usize| {
            let half: &wavelane_door::Half<Watched> = &relay.halves[at];
            Some(Half::new(half.state(), half.moved, tcp::health(&half.socket.socket.0)))
        };
        Some(Connection {
            source: ends.0.to_string(),
            target: ends.1.to_string(),
            age_s: self.now.since(relay.born).as_nanos() as f64 / 1e9,
            near: half(0),
            far: half(1),
        })
    }
}

/// A socket that is watched for room once it had too little: most never have, and each event wakes a thread.
struct Watched {
    socket: KernelSocket,
    watch: Rc<Poller>,
    token: u64,
    for_room: bool,
}

impl Watched {
    fn after(&mut self, put: Put, of: usize) -> Put {
        let is_full = matches!(put, Put::Blocked) || matches!(put, Put::Bytes(n) if n < of);
        if is_full && !std::mem::replace(&mut self.for_room, true) {
            // It is in the set, and changing that takes no memory.
            let _ = self.watch.change(&self.socket.0, self.token, Watch::Edges);
        }
        put
    }
}

impl Socket for Watched {
    fn read(&mut self, into: &mut [u8]) -> Got {
        self.socket.read(into)
    }
    fn write(&mut self, front: &[u8], back: &[u8]) -> Put {
        let put = self.socket.write(front, back);
        self.after(put, front.len() + back.len())
    }
    fn shutdown(&mut self) -> bool {
        self.socket.shutdown()
    }
    fn end_orderly(&mut self) {
        self.socket.end_orderly();
    }
    fn undelivered(&self) -> Option<u32> {
        self.socket.undelivered()
    }
    fn has_bytes(&self) -> bool {
        self.socket.has_bytes()
    }
    fn receiving(&self) -> Option<Receiving> {
        self.socket.receiving()
    }
    fn set_receive_room(&mut self, octets: usize) {
        self.socket.set_receive_room(octets);
    }
    fn receive_rooms(&self) -> Rooms {
        self.socket.receive_rooms()
    }
}

/// Pipes of the kernel's.
struct KernelPipes {
    spare: Vec<Pipe>,
    /// In use or spare.
    made: usize,
    most: usize,
}

impl Pipes<Watched> for KernelPipes {
    type Pipe = Pipe;

    fn take(&mut self) -> Option<Pipe> {
        if let Some(pipe) = self.spare.pop() {
            return Some(pipe);
        }
        if self.made >= self.most {
            return None;
        }
        let pipe = Pipe::new(ROOM).ok()?;
        self.made += 1;
        Some(pipe)
    }
    fn give_back(&mut self, pipe: Pipe, empty: bool) {
        match empty && self.spare.len() < PIPES_SPARE {
            true => self.spare.push(pipe),
            false => self.made -= 1,
        }
    }
    fn fill(&mut self, pipe: &Pipe, from: &mut Watched, most: usize) -> Got {
        got(pipe.fill(&from.socket.0, most))
    }
    fn drain(&mut self, pipe: &Pipe, to: &mut Watched, octets: usize) -> Put {
        to.after(put(pipe.drain(&to.socket.0, octets)), octets)
    }
}
