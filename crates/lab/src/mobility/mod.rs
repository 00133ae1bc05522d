//! Nodes that change their access network during a run ([`Move`]): each network gives its mobile a lease, and where the address is kept, a
//! home agent at the router that the mobile left sends on what comes for it.

mod agent;
mod lease;
mod registration;
mod tunnel;

use crate::LabError;
use crate::folder::Folder;
use crate::kernel;
use crate::program::{self, GLANCE, Program};
use crate::sockets::rest_until;
use crate::tools;
use crate::topology::Wire;
use crate::worker::Worker;
use crate::world::{World, unix_offset_ns};
use agent::{HomeAgent, Mobile, Standing, TimeOfDay};
pub(crate) use lease::{CLIENT, SERVER};
use lease::{Client, Lease};
use registration::Security;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tunnel::FarEnd;
use wavelane_base::{Instant, Seed, Span};
use wavelane_channel::DirectionConfig;
use wavelane_host::netns::Netns;
use wavelane_host::realtime;
use wavelane_scenario::{Direction, Family, Move, NodeKind, Scenario, Stack};
use wavelane_settings::MovedAddress;

/// Time limit for the first lease.
const LEASE_WITHIN: Span = Span::from_secs(60);
/// What was in flight when a channel is lost arrives within its delay and this.
const SETTLES: Span = Span::from_millis(50);
/// Name of the devices of tunnels; the move's number follows.
const DEVICE: &str = "mip";
/// The index of what a mobile and its home agent share (RFC 5944, section 5.1: 0 to 255 are reserved).
const SPI: u32 = 256;

/// Why the lab cannot have a scenario's moves under a stack, if so.
pub(crate) fn review(scenario: &Scenario, stack: Stack) -> Result<(), String> {
    let Some(first) = scenario.moves.first() else { return Ok(()) };
    for (program, remedy) in [SERVER, CLIENT] {
        if tools::find(program).is_none() {
            return Err(format!("[mobility.{}] needs the program {program}: {remedy}", first.name));
        }
    }
    let kept = scenario.moves.iter().find(|of| of.address == MovedAddress::Kept);
    if let Some(of) = kept.filter(|_| !wavelane_host::tun::may_open()) {
        return Err(format!(
            "[mobility.{}] keeps its address, which wants /dev/net/tun: run as root, or write address = \"new\"",
            of.name
        ));
    }
    let asked = |of: &&Move| of.address == MovedAddress::New && scenario.flows.iter().any(|flow| flow.to == of.node);
    if let Some(of) = scenario.moves.iter().find(asked) {
        return Err(format!(
            "[mobility.{}] takes '{}' a new address, by which no flow to it asks: write address = \"kept\"",
            of.name, of.node
        ));
    }
    let is_gateway = |of: &&Move| scenario.node(&of.node).is_some_and(|node| node.kind == NodeKind::Gateway);
    match stack.family {
        Family::Tcp | Family::Udp => Ok(()),
        Family::Wavelane | Family::Hop2009 => match scenario.moves.iter().find(|of| !is_gateway(of)) {
            Some(of) => Err(format!(
                "under the gateways' own stacks gateways move, and [mobility.{}] moves the endpoint '{}': use tcp-* stacks, or name a gateway",
                of.name, of.node
            )),
            None => Ok(()),
        },
        _ => Err(format!("[mobility.{}] is for tcp-* and the gateways' own stacks: take the other out", first.name)),
    }
}

/// What threads tell.
#[derive(Default)]
struct Told {
    notes: Vec<String>,
    fault: Option<String>,
}

/// The scenario's mobiles with what serves them. Dropping it ends all.
#[derive(Default)]
pub(crate) struct Mobiles {
    waiting: Vec<Mover>,
    workers: Vec<Worker>,
    servers: Vec<Program>,
    told: Arc<Mutex<Told>>,
    // Dropped last.
    folder: Option<Arc<Folder>>,
}

/// One mobile, which waits for its time.
struct Mover {
    of: Move,
    ns: Arc<Netns>,
    interfaces: [String; 2],
    /// In both networks.
    leases: [Lease; 2],
    /// Attributes of routes.
    control: String,
    /// How long what is in flight on the first channel takes.
    settles: Span,
    client: Client,
    /// Where the address is kept.
    kept: Option<(FarEnd, Security)>,
    paths: (Arc<Folder>, PathBuf),
    told: Arc<Mutex<Told>>,
}

impl Mobiles {
    /// Has each mobile in its first network. `controls` holds per node the congestion control that its routes pin.
    pub(crate) fn start(
        scenario: &Scenario,
        world: &World,
        controls: &[&str],
        seed: Seed,
        out: &Path,
        cancelled: &AtomicBool,
    ) -> Result<Self, LabError> {
        if scenario.moves.is_empty() {
            return Ok(Self::default());
        }
        let folder = Arc::new(Folder::new()?);
        let mut all = Self::default();
        all.folder = Some(Arc::clone(&folder));
        for (number, of) in scenario.moves.iter().enumerate() {
            let paths = (Arc::clone(&folder), program::logs(out)?);
            let mover = all.attach(scenario, world, (number, of), controls, seed, paths, cancelled)?;
            all.waiting.push(mover);
        }
        Ok(all)
    }

    #[expect(clippy::too_many_arguments, reason = "what a world and a run have")]
    fn attach(
        &mut self,
        scenario: &Scenario,
        world: &World,
        (number, of): (usize, &Move),
        controls: &[&str],
        seed: Seed,
        paths: (Arc<Folder>, PathBuf),
        cancelled: &AtomicBool,
    ) -> Result<Mover, LabError> {
        let place =
            |name: &str| scenario.nodes.iter().position(|node| node.name == name).expect("the file was checked");
        let node = place(&of.node);
        let of_channel = |name: &String| -> &Wire {
            let wire = world.plan.wires.iter().find(|wire| scenario.channels[wire.channel].name == *name);
            wire.expect("each channel of two nodes has a wire")
        };
        let wires = of.channels.each_ref().map(of_channel);
        let leases = wires.map(|wire| {
            let end = wire.end_of(node).expect("it ends at the mobile");
            Lease { address: wire.addresses[end], router: wire.addresses[1 - end] }
        });
        let routers = of.networks.each_ref().map(|name| &world.nodes[place(name)]);
        let interfaces = wires.map(|wire| wire.interface.clone());
        let files = (paths.0.path(), paths.1.as_path());
        for ((ns, interface), lease) in routers.iter().zip(&interfaces).zip(leases) {
            self.servers.push(lease::serve(ns, interface, lease, files)?);
        }
        let ns = Arc::clone(&world.nodes[node]);
        let control = match scenario.nodes[node].kind {
            NodeKind::Endpoint => format!("{}{}", controls[node], kernel::of_routes(&scenario.tcp)),
            _ => controls[node].to_owned(),
        };
        tools::ip(&ns, &[format!("link set {} up", interfaces[0])])?;
        let mut client = Client::start(&ns, &interfaces[0], files)?;
        let deadline = realtime::now() + LEASE_WITHIN;
        while client.lease()? != Some(leases[0]) {
            self.check()?;
            if cancelled.load(Ordering::Relaxed) {
                return Err(LabError::Cancelled);
            }
            if realtime::now() > deadline {
                let channel = &of.channels[0];
                return Err(LabError::Late(format!("'{}' has no lease on '{channel}' within {LEASE_WITHIN}", of.node)));
            }
            rest_until(realtime::now() + GLANCE, || false);
        }
        tools::ip(&ns, &joined(&interfaces[0], leases[0], None, &control))?;
        let kept = match of.address {
            MovedAddress::New => None,
            MovedAddress::Kept => {
                let mut key = [0; 16];
                seed.entropy(&format!("mobility {} / key", of.name)).fill(&mut key);
                let (security, device) = (Security { spi: SPI, key }, format!("{DEVICE}{number}"));
                let Lease { address: home, router: at } = leases[0];
                let agent = HomeAgent::new(at, home, security, TimeOfDay(unix_offset_ns()));
                self.workers.push(tunnel::serve(routers[0], &device, [at, home], agent)?);
                Some((FarEnd::open(&ns, &device, at)?, security))
            }
        };
        let way = |way| scenario.channel(&of.channels[0]).and_then(|channel| channel.direction(way));
        let delay = |way: &DirectionConfig| way.delay;
        let delays = [Direction::Forward, Direction::Reverse].map(|w| way(w).map_or(Span::ZERO, delay));
        let settles = delays[0].max(delays[1]) + SETTLES;
        let told = Arc::clone(&self.told);
        Ok(Mover { of: of.clone(), ns, interfaces, leases, control, settles, client, kept, paths, told })
    }

    /// Lets each move at its time of the run that begins at `epoch`.
    pub(crate) fn go(&mut self, epoch: Instant) -> Result<(), LabError> {
        for mover in self.waiting.drain(..) {
            let work = move |stop: &Arc<AtomicBool>| {
                let (told, node) = (Arc::clone(&mover.told), mover.of.node.clone());
                if let Err(why) = mover.work(epoch, stop) {
                    told.lock().unwrap_or_else(PoisonError::into_inner).fault =
                        Some(format!("'{node}' cannot move: {why}"));
                }
            };
            let worker = Worker::start("mobile", work);
            self.workers.push(worker.map_err(LabError::io("cannot start a thread for a mobile"))?);
        }
        Ok(())
    }

    /// Fails if something has.
    pub(crate) fn check(&mut self) -> Result<(), LabError> {
        self.servers.iter_mut().try_for_each(Program::check)?;
        match self.told.lock().unwrap_or_else(PoisonError::into_inner).fault.clone() {
            Some(said) => Err(LabError::Failed { program: "the lab".into(), said }),
            None => Ok(()),
        }
    }

    /// Ends all. Returns what happened.
    pub(crate) fn stop(&mut self) -> Vec<String> {
        self.end();
        std::mem::take(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner).notes)
    }

    fn end(&mut self) {
        self.workers.clear();
        let mut ended: Vec<String> = self.waiting.drain(..).flat_map(|mover| mover.client.end()).collect();
        ended.extend(program::end(self.servers.drain(..).collect()));
        self.told.lock().unwrap_or_else(PoisonError::into_inner).notes.extend(ended);
    }
}

impl Drop for Mobiles {
    fn drop(&mut self) {
        self.end();
    }
}

/// What `ip` is told of a lease; `source` is the address from which connections begin, if that is another.
fn joined(interface: &str, lease: Lease, source: Option<Ipv4Addr>, control: &str) -> Vec<String> {
    let Lease { address, router } = lease;
    let network = Ipv4Addr::from(u32::from(address) & !3);
    let source = source.unwrap_or(address);
    vec![
        format!("addr add {address}/30 dev {interface}"),
        format!("route replace {network}/30 dev {interface} proto kernel scope link src {address} congctl {control}"),
        format!("route add default via {router} dev {interface} src {source} congctl {control}"),
    ]
}

impl Mover {
    /// Moves, and has the tunnel until it is told to stop.
    fn work(self, epoch: Instant, stop: &AtomicBool) -> Result<(), LabError> {
        let Self { of, ns, interfaces, leases, control, settles, client, kept, paths, told } = self;
        let stopped = || stop.load(Ordering::Acquire);
        let since = |now: Instant| now.since(epoch).as_secs_f64();
        let note = |text: String| {
            told.lock().unwrap_or_else(PoisonError::into_inner).notes.push(format!("{} {text}", of.node));
        };
        let [before, after] = interfaces.each_ref().map(String::as_str);
        // From `at` on the first channel takes nothing; what was in flight on it arrives, also where the next is there sooner.
        let (back, settled) = (epoch + of.back(), epoch + of.at + settles);
        // The address that is kept is the node's own, on no channel.
        let own = kept.as_ref().map(|_| format!("addr add {}/32 dev lo", leases[0].address));
        let lost = own.into_iter().chain([format!("link set {before} down"), format!("addr flush dev {before}")]);
        let lost: Vec<_> = lost.collect();
        rest_until(settled.min(back), stopped);
        if settled <= back {
            tools::ip(&ns, &lost)?;
            rest_until(back, stopped);
        }
        let ended = client.end();
        if stopped() {
            return Ok(());
        }
        told.lock().unwrap_or_else(PoisonError::into_inner).notes.extend(ended);
        tools::ip(&ns, &[format!("link set {after} up")])?;
        let mut client = Client::start(&ns, after, (paths.0.path(), &paths.1))?;
        let lease = loop {
            if let Some(lease) = client.lease()? {
                break lease;
            }
            if !rest_until(realtime::now() + Span::from_millis(5), stopped) {
                note(format!("has no lease on '{}' at the end", of.channels[1]));
                client.end();
                return Ok(());
            }
        };
        if settled > back {
            rest_until(settled, stopped);
            tools::ip(&ns, &lost)?;
        }
        tools::ip(&ns, &joined(after, lease, kept.as_ref().map(|_| leases[0].address), &control))?;
        note(format!("has the address {} on '{}' at {:.3} s", lease.address, of.channels[1], since(realtime::now())));
        if let Some((far, security)) = kept {
            let socket = tunnel::messages(&ns, SocketAddrV4::new(lease.address, 0))?;
            let ends = [leases[0].address, leases[0].router, lease.address];
            let mut mobile = Mobile::new(realtime::now(), ends, security, TimeOfDay(unix_offset_ns()));
            let mut standing = mobile.standing();
            far.work(&socket, &mut mobile, stop, |mobile, now| {
                if std::mem::replace(&mut standing, mobile.standing()) != standing {
                    note(match standing {
                        Standing::Registered => format!("is registered at {:.3} s", since(now)),
                        other => format!("is not registered at {:.3} s: {other:?}", since(now)),
                    });
                }
            });
        }
        rest_until(Instant::FAR_FUTURE, stopped);
        client.end();
        Ok(())
    }
}
