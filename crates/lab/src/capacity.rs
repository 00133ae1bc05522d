//! Maximum throughput of the gateways when only this machine limits them: bulk TCP over plain veth pairs with all offloads, no emulated
//! channel, both gateways and both ends on the same processors.

use crate::gateways::{Companions, Gateways, Services};
use crate::haproxy::{self, Haproxy};
use crate::peers::{self, Peers};
use crate::program::{self, Program};
use crate::proxies::{Proxies, ProxyEngine};
use crate::review;
use crate::topology::Plan;
use crate::world::{Recording, Veth, World};
use crate::{LabError, sockets, tools};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use wavelane_base::{Rate, Seed, Span};
use wavelane_host::realtime;
use wavelane_run::BackendError;
use wavelane_scenario::{Scenario, Stack, StackOption, TcpKind};

/// The topology; the flow exists for peers that must know which ports to forward.
const SCENARIO: &str = r#"
title = "capacity"
duration = "1 s"
stacks = ["wavelane"]
nodes = { client = "endpoint", near = "gateway", far = "gateway", server = "endpoint" }
channels.lan = { preset = "ethernet", between = ["client", "near"] }
channels.link = { preset = "ethernet", between = ["near", "far"] }
channels.wan = { preset = "ethernet", between = ["far", "server"] }
flows.bulk = { app = "download", from = "client", to = "server" }
"#;
/// Makes the two gateways additionally encrypt what they carry from edge to edge.
const SEALED: &str = r#"
gateways.near = { seal = "end-to-end" }
gateways.far = { seal = "end-to-end" }
"#;
const CLIENT: usize = 0;
const NEAR: usize = 1;
const SERVER: usize = 3;
/// Where the server listens.
const PORT: u16 = 5201;
/// Bytes per read from or write to a socket.
const CHUNK: usize = 128 << 10;
/// Time limit for establishing the connections.
const CONNECT_WITHIN: Span = Span::from_secs(10);

/// Direction of the transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferDirection {
    /// From the client, which opened the connection.
    Up,
    /// To the client.
    Down,
}

/// One measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapacityCase {
    /// Number of concurrent connections.
    pub flows: usize,
    /// Their direction.
    pub way: TransferDirection,
    /// Run time before the measurement starts.
    pub warm_up: Span,
    /// Duration of the measurement.
    pub time: Span,
}

/// What was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Capacity {
    /// Bytes the receiving applications read.
    pub octets: u64,
    /// Duration of the measurement.
    pub time: Span,
    /// Processor time used by the whole machine, in seconds.
    pub busy: Option<f64>,
    /// User and system time of the programs between the ends, in seconds; `None` where there are none.
    pub programs: Option<f64>,
}

impl Capacity {
    /// Application bytes per second.
    pub fn goodput(&self) -> Rate {
        Rate::of(wavelane_base::Octets::new(self.octets), self.time)
    }
    /// `seconds` per 10^9 delivered bytes; `None` if nothing was delivered.
    pub fn per_gb(&self, seconds: Option<f64>) -> Option<f64> {
        seconds.filter(|_| self.octets > 0).map(|s| s * 1e9 / self.octets as f64)
    }
}

enum Between {
    /// The kernel forwards.
    Nothing,
    Gateways(Gateways),
    Peers(Peers),
    Proxies(Proxies),
    Haproxy(Haproxy),
}

/// What stands on the first node between the ends, alone; the second forwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyKind {
    /// Nothing: the kernel forwards.
    Plain,
    /// `wavelaned` as a split proxy.
    Ours,
    /// The same on its own TCP.
    Userspace,
    /// HAProxy in transparent mode, by `splice(2)` or by copying.
    Haproxy {
        /// Whether it may splice.
        splice: bool,
    },
}

impl ProxyKind {
    fn stack(self) -> Stack {
        match self {
            Self::Ours | Self::Userspace => Stack { option: StackOption::Split, ..Stack::tcp(TcpKind::Cubic) },
            _ => Stack::tcp(TcpKind::Cubic),
        }
    }
}

/// Whether it can be measured here; if not, the remedy.
pub fn can_proxy(kind: ProxyKind) -> Result<(), String> {
    let scenario = boxed();
    let mut found = wavelane_run::Review::default();
    review::machine(&scenario, &mut found);
    if let Some((_, why)) = found.refusal() {
        return Err(why.to_owned());
    }
    review::stack(&scenario, kind.stack())?;
    match kind {
        ProxyKind::Haproxy { .. } if tools::find(haproxy::WORD).is_none() => Err(haproxy::INSTALL.into()),
        _ => Ok(()),
    }
}

/// The same path with one gateway.
fn boxed() -> Scenario {
    let text = SCENARIO.replace("far = \"gateway\"", "far = \"router\"");
    Scenario::parse(&text, Path::new(".")).expect("the text above is a scenario; a test reads it")
}

/// A built topology with one stack running on it.
pub struct Bench {
    listener: TcpListener,
    between: Between,
    entrance: SocketAddr,
    control: &'static str,
    // Dropped after the programs have ended.
    world: World,
}

/// Whether `stack` can be measured here; if not, the remedy.
pub fn can_measure(stack: Stack) -> Result<(), String> {
    let scenario = scenario(false);
    let mut found = wavelane_run::Review::default();
    review::machine(&scenario, &mut found);
    if let Some((_, why)) = found.refusal() {
        return Err(why.to_owned());
    }
    review::stack(&scenario, stack)
}

fn scenario(sealed: bool) -> Scenario {
    let text = format!("{SCENARIO}{}", if sealed { SEALED } else { "" });
    Scenario::parse(&text, Path::new(".")).expect("the text above is a scenario; a test reads it")
}

impl Bench {
    /// Builds the topology and waits until traffic may flow. Logs go below `out`, with names that begin with the stack's. With `sealed` the
    /// gateways encrypt flows from edge to edge in addition to the protection of their link.
    pub fn start(stack: Stack, sealed: bool, out: &Path, cancelled: &AtomicBool) -> Result<Self, BackendError> {
        Ok(Self::build(stack, sealed, out, cancelled)?)
    }

    /// The same with a proxy.
    pub fn start_proxy(kind: ProxyKind, out: &Path, cancelled: &AtomicBool) -> Result<Self, BackendError> {
        Ok(Self::build_proxy(kind, out, cancelled)?)
    }

    fn build_proxy(kind: ProxyKind, out: &Path, cancelled: &AtomicBool) -> Result<Self, LabError> {
        let (scenario, stack) = (boxed(), kind.stack());
        let controls = review::controls(&scenario, stack).map_err(LabError::Topology)?;
        let no_capture = Recording { file: &|_, _| PathBuf::new(), whole: false, logs: None };
        let plan = Plan::of(&scenario)?;
        let world = World::build(&scenario, plan, Seed(0), &controls, Veth::Offloaded, &no_capture, cancelled)?;
        let address = world.plan.address_of(SERVER).expect("the server has a channel");
        let entrance = sockets::at(address, PORT);
        let listener = sockets::listen(&world.nodes[SERVER], entrance, controls[CLIENT])?;
        let mut stop = || cancelled.load(Ordering::Relaxed);
        let between = match kind {
            ProxyKind::Plain => Between::Nothing,
            ProxyKind::Ours | ProxyKind::Userspace => {
                let engine = if kind == ProxyKind::Ours { ProxyEngine::Kernel } else { ProxyEngine::Userspace };
                let place = (out, "proxy");
                Between::Proxies(Proxies::start(&scenario, &world, (stack, engine), place, &mut stop)?)
            }
            ProxyKind::Haproxy { splice } => {
                Between::Haproxy(Haproxy::start(&world.nodes[NEAR], PORT, splice, out, &mut stop)?)
            }
        };
        Ok(Self { listener, between, entrance, control: controls[CLIENT], world })
    }

    /// Round trips of one byte over one connection, in ms, sorted.
    pub fn echoes(&mut self, count: usize, cancelled: &AtomicBool) -> Result<Vec<f64>, BackendError> {
        let (client, server) = self.pair(cancelled)?;
        let io = |what: &'static str| LabError::io(what);
        server.set_nodelay(true).map_err(io("cannot set a socket"))?;
        let answering = std::thread::spawn(move || {
            let mut octet = [0];
            while matches!((&server).read(&mut octet), Ok(1)) && (&server).write_all(&octet).is_ok() {}
        });
        let mut found = Vec::with_capacity(count);
        for _ in 0..count {
            let start = realtime::now();
            let asked = (&client).write_all(&[1]).and_then(|()| (&client).read_exact(&mut [0]));
            asked.map_err(io("an echo was not answered"))?;
            found.push(realtime::now().since(start).as_secs_f64() * 1e3);
        }
        let _ = client.shutdown(Shutdown::Both);
        let _ = answering.join();
        found.sort_by(f64::total_cmp);
        Ok(found)
    }

    /// Resident bytes of the program between the ends for each of so many connections that do nothing; `None` where there is none.
    pub fn idle(&mut self, connections: usize, cancelled: &AtomicBool) -> Result<Option<f64>, BackendError> {
        // What is allocated once is there before.
        let first = self.pair(cancelled)?;
        let before = self.resident();
        let held: Result<Vec<_>, LabError> = (0..connections).map(|_| self.pair(cancelled)).collect();
        let held = held?;
        let grown = before.zip(self.resident()).map(|(before, after)| after.saturating_sub(before));
        drop((held, first));
        Ok(grown.map(|bytes| bytes as f64 / connections.max(1) as f64))
    }

    fn resident(&self) -> Option<u64> {
        match &self.between {
            Between::Proxies(proxies) => proxies.resident(),
            Between::Haproxy(haproxy) => haproxy.resident(),
            _ => None,
        }
    }

    fn build(stack: Stack, sealed: bool, out: &Path, cancelled: &AtomicBool) -> Result<Self, LabError> {
        let scenario = scenario(sealed);
        let controls = review::controls(&scenario, stack).map_err(LabError::Topology)?;
        let control = controls[CLIENT];
        let no_capture = Recording { file: &|_, _| PathBuf::new(), whole: false, logs: None };
        let plan = Plan::of(&scenario)?;
        let world = World::build(&scenario, plan, Seed(0), &controls, Veth::Offloaded, &no_capture, cancelled)?;
        let address = world.plan.address_of(SERVER).expect("the server has a channel");
        let server = sockets::at(address, PORT);
        let listener = sockets::listen(&world.nodes[SERVER], server, control)?;
        let label = if sealed { "wavelane-sealed" } else { stack.word() };
        let mut stop = || cancelled.load(Ordering::Relaxed);
        let mut entrance = server;
        let between = if stack == Stack::WAVELANE {
            Between::Gateways(Gateways::start(
                &scenario,
                &world,
                &Companions { out, label, key_log: None },
                Services::of(&scenario, stack),
                &mut stop,
            )?)
        } else if peers::is_peer(stack) {
            let order = peers::Order { stack, servers: &[server], controls: &controls, out, label };
            let peers = Peers::start(&scenario, &world, &order, &mut stop)?;
            entrance = peers.way_to(&scenario, &scenario.flows[0], server);
            Between::Peers(peers)
        } else {
            program::logs(out)?;
            Between::Nothing
        };
        Ok(Self { listener, between, entrance, control, world })
    }

    /// Runs one case to its end.
    pub fn measure(&mut self, case: CapacityCase, cancelled: &AtomicBool) -> Result<Capacity, BackendError> {
        let flows = self.connect(case, cancelled)?;
        let measured = self.watch(case, &flows, cancelled);
        flows.end();
        match &mut self.between {
            Between::Nothing => {}
            Between::Gateways(gateways) => gateways.check()?,
            Between::Peers(peers) => peers.check()?,
            Between::Proxies(proxies) => proxies.check()?,
            Between::Haproxy(haproxy) => haproxy.programs().iter_mut().try_for_each(Program::check)?,
        }
        Ok(measured?)
    }

    /// Number of connections that `at_once` clients open and close in `time`, each client one after another.
    pub fn opens(&mut self, at_once: usize, time: Span, cancelled: &AtomicBool) -> Result<(u64, Span), BackendError> {
        Ok(self.count_opens(at_once, time, cancelled)?)
    }

    fn count_opens(&mut self, at_once: usize, time: Span, cancelled: &AtomicBool) -> Result<(u64, Span), LabError> {
        let (opened, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let start = realtime::now();
        let mut clients = Vec::new();
        for _ in 0..at_once {
            let (to, control) = (self.entrance, self.control);
            let (opened, over) = (Arc::clone(&opened), Arc::clone(&over));
            // A thread started there belongs to the client's namespace.
            clients.push(self.world.nodes[CLIENT].run(move || {
                std::thread::spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        let until = realtime::now() + CONNECT_WITHIN;
                        let Ok(stream) = sockets::connect(to, control, until, || over.load(Ordering::Relaxed)) else {
                            continue;
                        };
                        // The server closes it; only connections that were open at both ends count.
                        if matches!((&stream).read(&mut [0]), Ok(0)) {
                            opened.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
            })?);
        }
        let until = start + time;
        while realtime::now() < until && !cancelled.load(Ordering::Relaxed) {
            let glance = until.min(realtime::now() + program::GLANCE);
            let waiting = realtime::wait(&[self.listener.as_fd()], glance);
            if waiting.map_err(LabError::io("cannot wait for a connection"))? {
                // Dropping it closes it in order, because nothing was sent to it.
                let _ = self.listener.accept();
            }
        }
        let counted = (opened.load(Ordering::Relaxed), realtime::now().since(start));
        over.store(true, Ordering::Relaxed);
        // Releases the clients that still wait for the server.
        while clients.iter().any(|client| !client.is_finished()) {
            let glance = realtime::now() + Span::from_millis(20);
            if realtime::wait(&[self.listener.as_fd()], glance).map_err(LabError::io("cannot wait"))? {
                let _ = self.listener.accept();
            }
        }
        match cancelled.load(Ordering::Relaxed) {
            true => Err(LabError::Cancelled),
            false => Ok(counted),
        }
    }

    fn connect(&self, case: CapacityCase, cancelled: &AtomicBool) -> Result<Flows, LabError> {
        let mut flows = Flows::default();
        for _ in 0..case.flows {
            let (client, server) = self.pair(cancelled)?;
            let (from, to) = if case.way == TransferDirection::Up { (client, server) } else { (server, client) };
            flows.add(from, to)?;
        }
        Ok(flows)
    }

    /// A connection's two ends.
    fn pair(&self, cancelled: &AtomicBool) -> Result<(TcpStream, TcpStream), LabError> {
        let deadline = realtime::now() + CONNECT_WITHIN;
        let (to, control) = (self.entrance, self.control);
        let made = self.world.nodes[CLIENT].run(move || sockets::connect(to, control, deadline, || false))?;
        let client = made.map_err(LabError::io(format!("cannot connect to {to}")))?;
        while !realtime::wait(&[self.listener.as_fd()], deadline.min(realtime::now() + program::GLANCE))
            .map_err(LabError::io("cannot wait for a connection"))?
        {
            if cancelled.load(Ordering::Relaxed) {
                return Err(LabError::Cancelled);
            }
            if realtime::now() >= deadline {
                return Err(LabError::Late(format!("the server saw no connection within {CONNECT_WITHIN}")));
            }
            // A peer may open its far side only with the first byte.
            let _ = (&client).write(&[0]);
        }
        let (server, _) = self.listener.accept().map_err(LabError::io("cannot accept"))?;
        Ok((client, server))
    }

    fn watch(&self, case: CapacityCase, flows: &Flows, cancelled: &AtomicBool) -> Result<Capacity, LabError> {
        let stop = || cancelled.load(Ordering::Relaxed);
        let begin = realtime::now() + case.warm_up;
        let rested = sockets::rest_until(begin, stop);
        let (start, busy, programs) = (realtime::now(), busy(), self.programs());
        let octets = flows.octets();
        if !rested || !sockets::rest_until(start + case.time, stop) {
            return Err(LabError::Cancelled);
        }
        let octets = flows.octets() - octets;
        let time = realtime::now().since(start);
        let spent = |before: Option<f64>, after: Option<f64>| Some(after? - before?);
        Ok(Capacity { octets, time, busy: spent(busy, self::busy()), programs: spent(programs, self.programs()) })
    }

    fn programs(&self) -> Option<f64> {
        match &self.between {
            Between::Nothing => None,
            Between::Gateways(gateways) => gateways.cpu_seconds(),
            Between::Peers(peers) => peers.cpu_seconds(),
            Between::Proxies(proxies) => proxies.cpu_seconds(),
            Between::Haproxy(haproxy) => haproxy.cpu_seconds(),
        }
    }

    /// Ends the programs; returns what went wrong.
    pub fn stop(self) -> Vec<String> {
        match self.between {
            Between::Nothing => Vec::new(),
            Between::Gateways(gateways) => gateways.stop(),
            Between::Peers(peers) => peers.stop(),
            Between::Proxies(proxies) => proxies.stop(),
            Between::Haproxy(mut haproxy) => program::end(std::mem::take(haproxy.programs())),
        }
    }
}

fn busy() -> Option<f64> {
    tools::processor_seconds().map(|(busy, _)| busy)
}

/// Connections, each with one writing and one reading thread.
#[derive(Default)]
struct Flows {
    sockets: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
    received: Arc<AtomicU64>,
}

impl Flows {
    fn add(&mut self, mut from: TcpStream, mut to: TcpStream) -> Result<(), LabError> {
        let twin = |s: &TcpStream| s.try_clone().map_err(LabError::io("cannot copy a descriptor"));
        self.sockets.extend([twin(&from)?, twin(&to)?]);
        let received = Arc::clone(&self.received);
        let start = |work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name("capacity".into()).spawn(work);
            thread.map_err(LabError::io("cannot start a thread; raise the process limit"))
        };
        // Both end when the connection does.
        self.threads.push(start(Box::new(move || while from.write_all(&[0; CHUNK]).is_ok() {}))?);
        self.threads.push(start(Box::new(move || {
            let mut buffer = vec![0; CHUNK];
            while let Ok(n @ 1..) = to.read(&mut buffer) {
                received.fetch_add(n as u64, Ordering::Relaxed);
            }
        }))?);
        Ok(())
    }
    fn octets(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
    fn end(self) {
        for socket in &self.sockets {
            // The other end may have closed it already.
            let _ = socket.shutdown(Shutdown::Both);
        }
        for thread in self.threads {
            // A thread that panicked has already printed the reason.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_topology_is_a_scenario() {
        let scenario = scenario(false);
        assert_eq!(self::scenario(true).gateways.len(), 2);
        let gateways = boxed().nodes.iter().filter(|node| node.kind == wavelane_scenario::NodeKind::Gateway).count();
        assert_eq!(gateways, 1);
        assert_eq!(scenario.nodes[CLIENT].name, "client");
        assert_eq!(scenario.nodes[SERVER].name, "server");
        assert!(scenario.channels.iter().all(|c| crate::world::is_veth(&scenario, c)));
    }

    #[test]
    fn figures_are_per_second_and_per_billion_bytes() {
        let octets = 2_000_000_000;
        let capacity = Capacity { octets, time: Span::from_secs(4), busy: Some(6.0), programs: None };
        assert_eq!(capacity.goodput().as_bps(), 4_000_000_000);
        assert_eq!(capacity.per_gb(capacity.busy), Some(3.0));
        assert_eq!(capacity.per_gb(capacity.programs), None);
        assert_eq!(Capacity { octets: 0, ..capacity }.per_gb(Some(1.0)), None);
    }
}
