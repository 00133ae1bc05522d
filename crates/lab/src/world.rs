//! A scenario's nodes and channels, built: namespaces, devices, addresses, routes, and the threads between them.

use crate::LabError;
use crate::cell;
use crate::driver::{ChangeFn, End, Job, MTU, Outcome, Port, Running, two};
use crate::folder::Folder;
use crate::kernel;
use crate::lines::Lines;
use crate::pcapng::CaptureFile;
use crate::tools;
use crate::topology::{Plan, Wire};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wavelane_base::{Instant, Machine, PortId, Ratio, Seed, Span};
use wavelane_channel::bluetooth::Bluetooth;
use wavelane_channel::cable::RING_BOUND;
use wavelane_channel::cellular::Cellular;
use wavelane_channel::{Cable, CableConfig, Discipline, Parameter, QueueLimit, Queueing, Serial};
use wavelane_host::netns::{Netns, NetnsError};
use wavelane_host::packet::{Offload, set_offload};
use wavelane_host::port::PacketPort;
use wavelane_host::realtime;
use wavelane_host::tap::{self, Tap};
use wavelane_host::tty::Pty;
use wavelane_host::tun::{self, Tun};
use wavelane_run::{RadioRaw, WayRaw};
use wavelane_scenario::{Channel, ChannelKind, Direction, NodeKind, Scenario};

/// Packets a TUN device holds until the channel's thread reads them. The thread drains it at once, so queueing happens in the channel; the
/// ring absorbs a burst within one scheduling delay. A drop here makes the run inconclusive.
const TUN_RING: u32 = 1000;

/// Minimum length of a queue's first stage that can be a TUN's ring. The kernel cuts up to 64 KiB of a TCP's bytes into packets at once
/// (GSO), 45 of them, and a TUN's full ring drops packets where a card's driver would have stopped the queue.
const FIRST_STAGE_MIN: u32 = 64;

/// Address of a node's end of a veth pair that stands in a TUN device's place: each pair is a network of its own.
const NODE_END: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Kind of packets on the veth pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Veth {
    /// Packets: every offload is off.
    Packets,
    /// Super-packets with incomplete checksums, for the kernel's best performance.
    Offloaded,
}

/// Namespaces, devices and channel threads of one run. Dropping it removes all of them.
pub(crate) struct World {
    /// In the scenario's order of nodes.
    pub(crate) nodes: Vec<Arc<Netns>>,
    /// Addresses and routes.
    pub(crate) plan: Plan,
    /// Per channel of the scenario; `None` for a plain veth pair.
    channels: Vec<Option<Running>>,
    /// Per wire and end: the length of the device's ring if it is the first stage of a queue.
    stages: Vec<[Option<u32>; 2]>,
    /// The daemons at the ends of serial lines.
    pub(crate) lines: Lines,
    /// Where this process may not open TUN devices, and of radios that keep what they send: the namespace of the far ends of the veth pairs
    /// in their place.
    far: Option<Netns>,
    /// Whether every TUN device is such a pair.
    no_tun: bool,
}

/// Combined results of the channels' threads.
#[derive(Default)]
pub(crate) struct Findings {
    /// Merged over all channels.
    pub(crate) outcome: Outcome,
    /// Packets that a full ring dropped before the channel saw them.
    pub(crate) ring_drops: u64,
    /// Packets that a full first stage dropped, as the scenario specifies.
    pub(crate) stage_drops: u64,
    /// What went wrong at the ends of lines.
    pub(crate) notes: Vec<String>,
    /// What the stations of each cell did.
    pub(crate) radios: Vec<RadioRaw>,
}

/// The length of the ring that is the first stage of the queue for packets from `end` of `channel`, if its two stages are real here. A
/// queue that changes during the run, counts bytes or is shorter than a burst is emulated as a whole.
pub(crate) fn first_stage(scenario: &Scenario, channel: &Channel, end: usize) -> Option<u32> {
    let way = [Direction::Forward, Direction::Reverse][end];
    let config = channel.direction(way)?;
    let changes = |change: &wavelane_scenario::Change| {
        let of_queue = matches!(change.parameter, Parameter::Queue(_) | Parameter::Queueing(..));
        change.channel == channel.name && change.direction == way && of_queue
    };
    let staged = config.queueing.discipline == Discipline::Fifo && config.queueing.ring > 0;
    match config.queue {
        QueueLimit::Packets(packets) if staged && !scenario.timeline.iter().any(changes) => {
            let length = u32::try_from(packets).ok()?;
            (length >= FIRST_STAGE_MIN && packets <= RING_BOUND).then_some(length)
        }
        _ => None,
    }
}

/// Whether the lab implements `channel` as a veth pair: the preset `ethernet`, never changed during the run.
pub(crate) fn is_veth(scenario: &Scenario, channel: &Channel) -> bool {
    let ChannelKind::Cable(config) = &channel.kind else { return false };
    let stays = scenario.move_over(&channel.name).is_none();
    stays
        && **config == CableConfig::ethernet()
        && scenario.timeline.iter().all(|change| change.channel != channel.name)
}

/// Capture settings for channels between gateways.
pub(crate) struct Recording<'a> {
    /// File path for a node's port on a channel.
    pub(crate) file: &'a dyn Fn(&str, &str) -> PathBuf,
    /// Whole packets, not only their headers.
    pub(crate) whole: bool,
    /// Where the ends of serial lines log, if that is to stay: a folder and a run's name.
    pub(crate) logs: Option<(&'a Path, &'a str)>,
}

impl World {
    /// Builds everything according to `plan`. `controls` holds per node the congestion control that its routes pin; `recording` says what
    /// is captured between gateways. Of many nodes and wires it takes seconds, and ends early if it is `cancelled`.
    pub(crate) fn build(
        scenario: &Scenario,
        plan: Plan,
        seed: Seed,
        controls: &[&str],
        veth: Veth,
        recording: &Recording<'_>,
        cancelled: &AtomicBool,
    ) -> Result<Self, LabError> {
        let go_on = || if cancelled.load(Ordering::Relaxed) { Err(LabError::Cancelled) } else { Ok(()) };
        let mut nodes = Vec::new();
        for node in &scenario.nodes {
            go_on()?;
            let ns = Netns::new(&format!("{}-{}", std::process::id(), node.name))?;
            settle(&ns, node.kind)?;
            if node.kind == NodeKind::Endpoint {
                kernel::settle(&ns, &scenario.tcp)?;
            }
            nodes.push(Arc::new(ns));
        }
        let no_tun = !tun::may_open();
        let far = no_tun || !plan.radios.is_empty() || plan.wires.iter().any(|wire| wire.mobile.is_some());
        let far = far.then(|| Netns::new(&format!("{}-far", std::process::id()))).transpose()?;
        if let Some(far) = &far {
            settle(far, NodeKind::Endpoint)?;
        }
        // A veth pair has no ring that could be a queue's first stage.
        let stage = |c, end| first_stage(scenario, &scenario.channels[c], end).filter(|_| !no_tun);
        let stages = |wire: &Wire| match wire.mobile {
            None => [0, 1].map(|end| stage(wire.channel, end)),
            Some(_) => [None; 2],
        };
        let stages = plan.wires.iter().map(stages).collect();
        let mut world = Self { nodes, plan, channels: Vec::new(), stages, lines: Lines::default(), far, no_tun };
        for (i, channel) in scenario.channels.iter().enumerate() {
            let wires: Vec<usize> = world.plan.wires_of(i).map(|(wire, _)| wire).collect();
            let running = match (&wires[..], &channel.kind) {
                ([wire], _) if is_veth(scenario, channel) => {
                    world.veth(*wire, veth)?;
                    None
                }
                ([wire], ChannelKind::Serial(_)) => Some(world.line(channel, *wire, seed, recording)?),
                (wires, _) => Some(world.emulate(scenario, (i, wires), seed, recording, &go_on)?),
            };
            world.channels.push(running);
        }
        for (node, control) in controls.iter().enumerate() {
            go_on()?;
            let of_tcp = match scenario.nodes[node].kind {
                NodeKind::Endpoint => kernel::of_routes(&scenario.tcp),
                _ => String::new(),
            };
            world.address(node, &format!("{control}{of_tcp}"))?;
        }
        Ok(world)
    }

    fn veth(&self, i: usize, kind: Veth) -> Result<(), LabError> {
        let wire = &self.plan.wires[i];
        let [a, b] = wire.ends.map(|n| &self.nodes[n]);
        let name = &wire.interface;
        tools::ip(a, &[format!("link add {name} type veth peer name {name} netns {}", b.path().display())])?;
        if kind == Veth::Offloaded {
            return Ok(());
        }
        [a, b].into_iter().try_for_each(|ns| without_offloads(ns, name))
    }

    /// The device of the node at `end` of wire `i`.
    fn port(&self, scenario: &Scenario, i: usize, end: usize) -> Result<Port, LabError> {
        let wire = &self.plan.wires[i];
        let (node, name) = (&self.nodes[wire.ends[end]], wire.interface.clone());
        let keeps = self.plan.radio_at(scenario, wire, end).is_some();
        // Leases are asked for in Ethernet frames, which a TUN device has not.
        let framed = self.no_tun || keeps || wire.mobile.is_some();
        let Some(far) = self.far.as_ref().filter(|_| framed) else {
            return Ok(Port::Tun(node.run(move || Tun::open(&name))??));
        };
        let (other, address) = (format!("far{i}-{end}"), NODE_END.map(|octet| format!("{octet:02x}")).join(":"));
        let path = node.path().display();
        tools::ip(
            far,
            &[
                format!("link add {other} type veth peer name {name} address {address} netns {path}"),
                format!("link set {other} address {address} mtu {MTU} up"),
            ],
        )?;
        // Without ARP every packet goes to the other end, whose address is then of no matter.
        tools::ip(node, &[format!("link set {name} arp off")])?;
        for (ns, interface) in [(&**node, name), (far, other.clone())] {
            without_offloads(ns, &interface)?;
        }
        if keeps {
            return Ok(Port::Ring(ring(far, &other)?));
        }
        let what = format!("cannot open a packet socket on {other}");
        Ok(Port::Pair(far.run(move || PacketPort::open(&other, NODE_END))?.map_err(LabError::io(what))?))
    }

    /// Two ports with the shipped daemon at each, and a thread between them.
    fn line(
        &mut self,
        channel: &Channel,
        i: usize,
        seed: Seed,
        recording: &Recording<'_>,
    ) -> Result<Running, LabError> {
        let ChannelKind::Serial(serial) = &channel.kind else { unreachable!("asked by the kind") };
        let open = || Pty::open().map_err(LabError::io("cannot open a pseudo-terminal; see kernel.pty.max"));
        let ptys = [open()?, open()?];
        let ports = ptys.each_ref().map(|pty| pty.port().to_owned());
        let mut config = serial.line.clone();
        // The queue is the daemon's, which hands out octets as fast as the line takes them.
        config.forward.cable.queue = QueueLimit::Bounded;
        config.reverse.cable.queue = QueueLimit::Bounded;
        let make = |name: &str| Serial::new(seed, name, &config).map_err(|why| why.to_string());
        let running = start_pair(channel, two(ptys.map(Port::Line), [None, None]), true, make)?;
        let wire = self.plan.wires[i].clone();
        let nodes = wire.ends.map(|node| &self.nodes[node]);
        self.lines.start((channel, &wire), nodes, &ports, recording.logs)?;
        Ok(running)
    }

    /// The devices of a channel's wires and a thread between them.
    fn emulate(
        &self,
        scenario: &Scenario,
        (i, wires): (usize, &[usize]),
        seed: Seed,
        recording: &Recording<'_>,
        go_on: &dyn Fn() -> Result<(), LabError>,
    ) -> Result<Running, LabError> {
        let channel = &scenario.channels[i];
        let mut ends = Vec::new();
        for (number, end) in wires.iter().flat_map(|wire| [(*wire, 0), (*wire, 1)]) {
            go_on()?;
            let wire = &self.plan.wires[number];
            let [node, other] = [end, 1 - end].map(|end| &scenario.nodes[wire.ends[end]].name);
            let capture = match (wire.counted, channel.cell()) {
                (false, _) => None,
                (true, None) => Some(record(recording, wire, node, &channel.name)?),
                (true, Some(_)) => Some(record(recording, wire, node, &format!("{}-{other}", channel.name))?),
            };
            let place = match channel.cell() {
                Some(_) => cell::place(wire, end),
                None => PortId(end as u16),
            };
            ends.push(End { port: self.port(scenario, number, end)?, place, capture });
        }
        match &channel.kind {
            ChannelKind::Wifi(config) => cell::start(scenario, &self.plan, (channel, config), seed, ends),
            _ => start_channel(scenario, channel, seed, ends, self.stages[wires[0]]),
        }
    }

    /// Addresses, routes and their attributes, of which the congestion control is the first.
    fn address(&self, node: usize, control: &str) -> Result<(), LabError> {
        let mut lines = vec!["link set lo up".to_owned()];
        for (i, wire) in self.plan.wires.iter().enumerate() {
            let Some(end) = wire.end_of(node).filter(|end| wire.mobile != Some(*end)) else { continue };
            let running = &self.channels[wire.channel];
            let (name, address) = (&wire.interface, wire.addresses[end]);
            let length = self.stages[i][end].unwrap_or(TUN_RING);
            let ring = if running.is_some() && !self.no_tun { format!(" txqueuelen {length}") } else { String::new() };
            lines.push(format!("addr replace {address}/30 dev {name}"));
            if self.lines.has(&wire.interface) {
                // The daemon has set its own device up.
                lines.pop();
            } else {
                lines.push(format!("link set {name} mtu {MTU}{ring} up"));
            }
            // The route created with the address names no congestion control; this one replaces it.
            lines.push(format!(
                "route replace {} dev {name} proto kernel scope link src {address} congctl {control}",
                wire.prefix()
            ));
        }
        // A mobile's own address and its way out are its lease's.
        let leased = |interface: &str| {
            let mut own =
                self.plan.wires.iter().filter(|wire| wire.mobile.is_some() && wire.mobile == wire.end_of(node));
            own.any(|wire| wire.interface == interface)
        };
        for route in self.plan.routes[node].iter().filter(|route| !leased(&route.interface)) {
            let (prefix, via, dev) = (&route.prefix, route.via, &route.interface);
            lines.push(format!("route add {prefix} via {via} dev {dev} congctl {control}"));
        }
        tools::ip(&self.nodes[node], &lines)
    }

    /// Starts the run's clock on every channel.
    pub(crate) fn begin(&self, start: Instant) {
        self.channels.iter().flatten().for_each(|c| c.begin(start));
    }

    /// Lets packets pass immediately from now on.
    pub(crate) fn bypass(&self) {
        self.channels.iter().flatten().for_each(Running::bypass);
    }

    /// Traffic offered so far to each direction of the channels between gateways.
    pub(crate) fn ways(&self, scenario: &Scenario) -> Vec<WayRaw> {
        // What stations offer is no measure of what a cell sends.
        let bad = self.plan.wires.iter().filter(|w| w.counted && scenario.channels[w.channel].cell().is_none());
        let of = |wire: &Wire| {
            let (channel, running) = (&scenario.channels[wire.channel], &self.channels[wire.channel]);
            let offered = running.as_ref()?.offered().into_iter().zip(["forward", "reverse"]);
            let way = |(octets, way)| WayRaw { channel: channel.name.clone(), way, octets };
            Some(offered.map(way).collect::<Vec<_>>())
        };
        bad.filter_map(of).flatten().collect()
    }

    /// Octets that each end has put on a line since the run's start.
    pub(crate) fn on_line(&self, scenario: &Scenario, name: &str) -> Option<[u64; 2]> {
        let place = scenario.channels.iter().position(|channel| channel.name == name)?;
        self.channels[place].as_ref().map(Running::offered)
    }

    /// The fault in a channel, if any.
    pub(crate) fn fault(&self) -> Option<String> {
        self.channels.iter().flatten().find_map(Running::fault)
    }

    /// Stops the channels and collects their results.
    pub(crate) fn finish(&mut self) -> Result<Findings, LabError> {
        let mut all = Findings { notes: self.lines.stop(), ..Findings::default() };
        all.outcome.preferred = true;
        for (i, wire) in self.plan.wires.iter().enumerate() {
            if self.channels[wire.channel].is_none() {
                continue;
            }
            for (end, node) in wire.ends.into_iter().enumerate() {
                let drops = tx_drops(&self.nodes[node], &wire.interface)?;
                match self.stages[i][end] {
                    Some(_) => all.stage_drops += drops,
                    None => all.ring_drops += drops,
                }
            }
        }
        for running in self.channels.iter_mut().filter_map(Option::take) {
            let one = running.finish().map_err(|said| LabError::Failed { program: "the lab".into(), said })?;
            all.ring_drops += one.unread;
            let sum = &mut all.outcome;
            sum.lateness.merge(&one.lateness);
            sum.refused += one.refused;
            sum.uncaptured += one.uncaptured;
            sum.capture_error = sum.capture_error.take().or(one.capture_error);
            sum.preferred &= one.preferred;
            all.radios.extend(one.radio);
        }
        Ok(all)
    }
}

/// Switches every offload of a device off.
fn without_offloads(ns: &Netns, interface: &str) -> Result<(), LabError> {
    let name = interface.to_owned();
    let off = move || Offload::ALL.iter().try_for_each(|kind| set_offload(&name, *kind, false));
    ns.run(off)?.map_err(LabError::io(format!("cannot switch offloads of {interface} off (ETHTOOL ioctl)")))
}

/// Whether this process may have radios that keep what they send.
pub(crate) fn may_queue() -> bool {
    Folder::new().is_ok_and(|folder| tap::may_open(folder.path()))
}

/// The ring beyond a pair's far end.
fn ring(far: &Netns, other: &str) -> Result<Tap, LabError> {
    let name = other.replace("far", "tap");
    let made = [format!("link add link {other} name {name} type macvtap mode passthru"), format!("link set {name} up")];
    tools::ip(far, &made)?;
    // Sysfs shows the devices of the namespace that it was mounted in.
    let mut asked = tools::command("unshare");
    let line = format!("mount -t sysfs none /sys && cat /sys/class/net/{name}/macvtap/tap*/dev");
    asked.args(["--mount", "sh", "-c", &line]);
    let said = tools::output(far, asked, "install util-linux")?.stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    let numbers =
        said.trim().split_once(':').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let strange = || LabError::Failed { program: format!("macvtap {name}"), said: said.clone() };
    let (numbers, folder) = (numbers.ok_or_else(strange)?, Folder::new()?);
    let node = folder.path().join(&name);
    Tap::open(&node, numbers, &name, NODE_END).map_err(LabError::io(format!("cannot open the macvtap device {name}")))
}

/// Network settings of a fresh namespace.
fn settle(ns: &Netns, kind: NodeKind) -> Result<(), NetnsError> {
    for scope in ["all", "default"] {
        ns.sysctl(&format!("net/ipv4/conf/{scope}/rp_filter"), "0")?;
        let no_ipv6 = format!("net/ipv6/conf/{scope}/disable_ipv6");
        if std::path::Path::new("/proc/sys").join(&no_ipv6).exists() {
            ns.sysctl(&no_ipv6, "1")?;
        }
    }
    if kind != NodeKind::Endpoint {
        ns.sysctl("net/ipv4/ip_forward", "1")?;
    }
    Ok(())
}

/// Whether a line of the scenario damages packets, of which SLIP finds none.
pub(crate) fn is_noisy(scenario: &Scenario) -> bool {
    scenario.channels.iter().any(|channel| match &channel.kind {
        ChannelKind::Serial(serial) => [&serial.line.forward, &serial.line.reverse]
            .iter()
            .any(|way| way.noise != Ratio::ZERO || way.uart.is_some()),
        _ => false,
    })
}

/// The capture of a wire at a node.
fn record(recording: &Recording<'_>, wire: &Wire, node: &str, port: &str) -> Result<CaptureFile, LabError> {
    let path = (recording.file)(node, port);
    let what = format!("cannot write {}; use --out with a writable folder that has free space", path.display());
    let create = if recording.whole { CaptureFile::create_whole } else { CaptureFile::create };
    create(&path, &wire.interface).map_err(LabError::io(what))
}

/// Starts the thread of a medium of packets. `stages` are the rings of its devices that are the first stage of a queue.
pub(crate) fn start_channel(
    scenario: &Scenario,
    channel: &Channel,
    seed: Seed,
    ends: Vec<End>,
    stages: [Option<u32>; 2],
) -> Result<Running, LabError> {
    let mut config = match &channel.kind {
        ChannelKind::Cable(config) => (**config).clone(),
        ChannelKind::Bluetooth(config) => {
            return start_pair(channel, ends, is_noisy(scenario), |name| {
                Bluetooth::new(seed, name, *config).map_err(|e| e.to_string())
            });
        }
        ChannelKind::Cellular(config) => {
            return start_pair(channel, ends, is_noisy(scenario), |name| {
                Cellular::new(seed, name, **config).map_err(|e| e.to_string())
            });
        }
        ChannelKind::Wifi(_) | ChannelKind::Serial(_) => {
            let why = "is a medium that the lab does not have";
            return Err(LabError::Topology(format!(
                "channel '{}' {why}: `wavelane run FILE --on sim` has it",
                channel.name
            )));
        }
    };
    let mut rings = [u64::MAX; 2];
    for (end, side) in [&mut config.forward, &mut config.reverse].into_iter().enumerate() {
        if stages[end].is_some() {
            rings[end] = side.queueing.ring;
            side.queue = QueueLimit::Packets(side.queueing.ring);
            side.queueing = Queueing::default();
        }
    }
    let ways = [wavelane_channel::Direction::Forward, wavelane_channel::Direction::Reverse];
    let refused = |error| LabError::Channel(channel.name.clone(), error);
    let mut calm = config.clone();
    for side in [&mut calm.forward, &mut calm.reverse] {
        side.outages.clear();
        // What is set up needs the mean of a recording, not its first stall.
        side.rate_trace = None;
        side.delay_trace = None;
    }
    let setup = Cable::new(seed, &format!("{} / set-up", channel.name), calm).map_err(refused)?;
    let run = Cable::new(seed, &channel.name, config).map_err(refused)?;
    start(Job {
        changes: changes_of(scenario, channel)?,
        room: Box::new(move |cable, end| cable.holding(ways[end]).waiting.frames < rings[end]),
        damaged: is_noisy(scenario),
        ..Job::new(&channel.name, ends, setup, run)
    })
}

/// Starts a channel's thread.
pub(crate) fn start<M: Machine + Send + 'static>(job: Job<M>) -> Result<Running, LabError> {
    Running::start(job).map_err(LabError::io("cannot start a thread for a channel; raise the process limit"))
}

/// Starts a medium between two ports that is no cable; its parameters stay, and it takes every packet.
fn start_pair<M: Machine + Send + 'static>(
    channel: &Channel,
    ends: Vec<End>,
    damaged: bool,
    make: impl Fn(&str) -> Result<M, String>,
) -> Result<Running, LabError> {
    let made = |name: &str| make(name).map_err(|why| LabError::Topology(format!("channel '{}': {why}", channel.name)));
    let (setup, run) = (made(&format!("{} / set-up", channel.name))?, made(&channel.name)?);
    start(Job { damaged, ..Job::new(&channel.name, ends, setup, run) })
}

/// The timeline's changes of one channel, each validated against the state before it.
fn changes_of(scenario: &Scenario, channel: &Channel) -> Result<Vec<(Span, ChangeFn<Cable>)>, LabError> {
    let ChannelKind::Cable(mut config) = channel.kind.clone() else { return Ok(Vec::new()) };
    let mut changes: Vec<_> = scenario.timeline.iter().filter(|c| c.channel == channel.name).cloned().collect();
    changes.sort_by_key(|c| c.at);
    let mut out: Vec<(Span, ChangeFn<Cable>)> = Vec::new();
    for change in changes {
        let (way, side) = match change.direction {
            Direction::Forward => (wavelane_channel::Direction::Forward, &mut config.forward),
            Direction::Reverse => (wavelane_channel::Direction::Reverse, &mut config.reverse),
        };
        side.set(change.parameter.clone()).map_err(|e| LabError::Channel(channel.name.clone(), e))?;
        let apply: ChangeFn<Cable> = Box::new(move |cable, now| {
            cable.set(now, way, change.parameter).expect("the same change of the same parameters was accepted above");
        });
        out.push((change.at, apply));
    }
    Ok(out)
}

/// Current offset of CLOCK_REALTIME from CLOCK_MONOTONIC.
pub(crate) fn unix_offset_ns() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "captures carry wall-clock times")]
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let unix = u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX);
    unix.saturating_sub(realtime::now().as_nanos())
}

/// Packets that `interface` dropped on the way out, from `/proc/net/dev` (proc(5)).
pub(crate) fn tx_drops(ns: &Netns, interface: &str) -> Result<u64, LabError> {
    /// Column of the transmit side's `drop` after the interface's name.
    const TX_DROP: usize = 11;
    let table = ns.run(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
    let table = table.map_err(LabError::io("cannot read /proc/net/dev"))?;
    let line = table.lines().find_map(|l| l.trim().strip_prefix(interface)?.strip_prefix(':'));
    Ok(line.and_then(|l| l.split_whitespace().nth(TX_DROP)).and_then(|n| n.parse().ok()).unwrap_or(0))
}
