//! Starts the shipped gateways in their namespaces, as an operator would: `wavelane init`, then `wavelaned`.

use crate::LabError;
use crate::folder::Folder;
use crate::lanes;
use crate::media;
use crate::mesh::Known;
use crate::program::{self, Ending, GLANCE, Program};
use crate::review::needs_udp;
use crate::sockets::rest_until;
use crate::tools::{self, find_own, output};
use crate::topology::{Link, Plan, Wire};
use crate::world::World;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use wavelane_base::Span;
use wavelane_host::netns::Netns;
use wavelane_host::realtime;
use wavelane_run::PacketsRaw;
use wavelane_scenario::{Family, NodeKind, Scenario, Stack, StackOption};

/// Time limit for the gateways' session to be established.
const READY_WITHIN: Span = Span::from_secs(20);
/// Seconds that the second gateway's clock is ahead, by a time namespace: nothing may assume that two nodes' clocks agree.
const AHEAD_S: &str = "37";
const REMEDY: &str = "build it (cargo build) or name it with WAVELANE and WAVELANED";

/// The program with `init`, `keygen` and `status`.
pub(crate) fn tool() -> Option<PathBuf> {
    find_own("wavelane", "WAVELANE")
}

/// The gateway itself.
pub(crate) fn daemon() -> Option<PathBuf> {
    find_own("wavelaned", "WAVELANED")
}

/// The two gateways of a scenario and the wire between them, or why this version cannot run them.
pub(crate) fn pair(scenario: &Scenario) -> Result<([usize; 2], Wire), String> {
    let gateways: Vec<usize> =
        (0..scenario.nodes.len()).filter(|n| scenario.nodes[*n].kind == NodeKind::Gateway).collect();
    let [a, b] = gateways[..] else {
        return Err(format!("{} gateways: this version's daemon has one hop, so exactly two", gateways.len()));
    };
    let name = |n: usize| &scenario.nodes[n].name;
    let wires = Plan::of(scenario).map_err(|error| error.to_string())?.wires;
    let mut between = wires.into_iter().filter(|wire| wire.end_of(a).is_some() && wire.end_of(b).is_some());
    match (between.next(), between.next()) {
        (Some(wire), None) => Ok(([a, b], wire)),
        (None, _) => Err(format!("gateways {} and {} share no channel", name(a), name(b))),
        _ => Err(format!("gateways {} and {} share several channels: one lane in this version", name(a), name(b))),
    }
}

/// Every link between gateways of a scenario, or why this version cannot run them.
pub(crate) fn links(scenario: &Scenario, services: Services) -> Result<Vec<Link>, String> {
    let links = Plan::of(scenario).map_err(|error| error.to_string())?.links;
    if links.is_empty() {
        return Err("no two gateways are joined, and no flow crosses two: add a channel or a flow".into());
    }
    let busy = |n: usize| links.iter().filter(|l| l.ends.contains(&n)).count();
    let relay = links.iter().flat_map(|l| l.ends).find(|n| busy(*n) > 1);
    match relay.map(|n| &scenario.nodes[n].name) {
        Some(name) if services.tun => {
            Err(format!("gateway {name} has several neighbours: the lab's relays carry TCP only, no packets"))
        }
        Some(name) if links.iter().any(|link| !link.beside.is_empty()) => {
            Err(format!("gateway {name} has several neighbours: the lab gives several lanes to pairs of gateways only"))
        }
        _ => Ok(links),
    }
}

/// What the gateways do with a stack's flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Services {
    /// Whether they carry packets, through one TUN device each.
    pub(crate) tun: bool,
    /// Whether they split TCP.
    split: bool,
    /// Whether they have the preset `hop-2009`.
    is_2009: bool,
}

impl Services {
    /// The services that `stack` needs. The TUN device exists only if something needs it, so that all other runs use what `wavelane init`
    /// writes by default.
    pub(crate) fn of(scenario: &Scenario, stack: Stack) -> Self {
        let split = stack.option != StackOption::Unsplit;
        Self {
            tun: !split || scenario.flows.iter().any(|f| needs_udp(&f.app)),
            split,
            is_2009: stack.family == Family::Hop2009,
        }
    }
}

/// Output locations of a run's other files.
pub(crate) struct Companions<'a> {
    /// The Record's directory; logs go to `logs/LABEL-NODE.log` in it.
    pub(crate) out: &'a Path,
    /// The run's name in the names of its files.
    pub(crate) label: &'a str,
    /// Where the gateways log their keys, if enabled.
    pub(crate) key_log: Option<&'a Path>,
}

struct Gateway {
    name: String,
    ns: Arc<Netns>,
    dir: PathBuf,
    program: Program,
    /// Number of its peers.
    peers: usize,
    /// Whether its clock is deliberately wrong.
    skewed: bool,
}

/// The running gateways. Dropping them stops them.
pub(crate) struct Gateways {
    gateways: Vec<Gateway>,
    services: Services,
    // Dropped after the daemons have ended.
    _folder: Folder,
}

/// Counters of both gateways.
#[derive(Default)]
pub(crate) struct Counted {
    /// Bytes of repairs: FEC, repeats, ARQ.
    pub(crate) repair_octets: Option<u64>,
    /// Bytes of first transmissions.
    pub(crate) first_octets: Option<u64>,
    /// Statistics of the packet service, if it is in use.
    pub(crate) packets: Option<PacketsRaw>,
    /// For the log.
    pub(crate) notes: Vec<String>,
}

impl Counted {
    fn count(&mut self, name: &str, value: u64) {
        let packets = self.packets.as_mut();
        match (name, packets) {
            ("repair_octets", _) => *self.repair_octets.get_or_insert(0) += value,
            ("first_octets", _) => *self.first_octets.get_or_insert(0) += value,
            ("packets_sent", Some(packets)) => packets.sent += value,
            ("packets_repeated", Some(packets)) => packets.repeated += value,
            ("packets_spurious", Some(packets)) => packets.spurious += value,
            ("packets_compressed", Some(packets)) => packets.compressed += value,
            _ => {}
        }
    }
}

impl Gateways {
    /// Starts the gateways of every link and waits until their sessions are established. `stop` is polled every 100 ms and ends the wait.
    pub(crate) fn start(
        scenario: &Scenario,
        world: &World,
        companions: &Companions<'_>,
        services: Services,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Self, LabError> {
        let links = links(scenario, services).map_err(LabError::Topology)?;
        let mut started = Self { gateways: Vec::new(), services, _folder: Folder::new()? };
        let logs = program::logs(companions.out)?;
        let mut keys = vec![None; scenario.nodes.len()];
        for n in links.iter().flat_map(|link| link.ends) {
            if keys[n].is_none() {
                keys[n] = Some(started.keygen(scenario, world, n)?);
            }
        }
        let known = Known { scenario, plan: &world.plan, links: &links, keys: &keys };
        let mut skewed = vec![false; scenario.nodes.len()];
        let apart = clocks_can_differ();
        for link in &links {
            // Neighbours' clocks differ.
            if !started.has(&scenario.nodes[link.ends[1]].name) {
                skewed[link.ends[1]] = apart && !skewed[link.ends[0]];
            }
            for n in link.ends {
                if !started.has(&scenario.nodes[n].name) {
                    started.start_gateway(&known, world, n, skewed[n], &logs, companions)?;
                }
            }
        }
        started.wait_until_up(stop)?;
        Ok(started)
    }

    fn has(&self, name: &str) -> bool {
        self.gateways.iter().any(|gateway| gateway.name == name)
    }

    /// Creates a gateway's folder and key; returns the public key.
    fn keygen(&self, scenario: &Scenario, world: &World, n: usize) -> Result<String, LabError> {
        let name = &scenario.nodes[n].name;
        let dir = self._folder.path().join(name);
        std::fs::create_dir(&dir).map_err(LabError::io(format!("cannot make {}", dir.display())))?;
        let mut keygen = Command::new(tool().ok_or_else(|| missing("wavelane"))?);
        keygen.arg("keygen").arg("--out").arg(dir.join(format!("{name}.key")));
        let printed = output(&world.nodes[n], keygen, REMEDY)?.stdout;
        let key = String::from_utf8_lossy(&printed).trim().to_owned();
        if key.is_empty() {
            let said = "it printed no key: is it of this version?".to_owned();
            return Err(LabError::Failed { program: "wavelane keygen".into(), said });
        }
        Ok(key)
    }

    fn start_gateway(
        &mut self,
        known: &Known<'_>,
        world: &World,
        n: usize,
        skewed: bool,
        logs: &Path,
        companions: &Companions<'_>,
    ) -> Result<(), LabError> {
        let name = known.scenario.nodes[n].name.clone();
        let dir = self._folder.path().join(&name);
        init(known, world, n, &dir, self.services.tun)?;
        let config = dir.join("wavelaned.toml");
        let mut additions = known.additions(n);
        if self.services.is_2009 {
            additions[0] += "preset = \"hop-2009\"\n";
        }
        adjust(&config, self.services.split, &additions)?;
        let log = logs.join(format!("{}-{name}.log", companions.label));
        let program = launch(&world.nodes[n], (&name, skewed), &config, companions.key_log, log)?;
        let peers = known.links_of(n).count();
        self.gateways.push(Gateway { name, ns: Arc::clone(&world.nodes[n]), dir, program, peers, skewed });
        Ok(())
    }

    /// Polls all gateways' status until each reports its peers as up.
    fn wait_until_up(&mut self, stop: &mut dyn FnMut() -> bool) -> Result<(), LabError> {
        let deadline = realtime::now() + READY_WITHIN;
        loop {
            let mut up = 0;
            for gateway in &mut self.gateways {
                gateway.program.check()?;
                let peers = gateway.status().map(|s| s["peers"].clone()).unwrap_or_default();
                up += usize::from((0..gateway.peers).all(|peer| peers[peer]["up"] == true));
            }
            if up == self.gateways.len() {
                return Ok(());
            }
            if stop() {
                return Err(LabError::Cancelled);
            }
            let now = realtime::now();
            if now > deadline {
                let tails: Vec<String> =
                    self.gateways.iter().map(|g| format!("{}: {}", g.name, g.program.last_line())).collect();
                return Err(LabError::Late(format!(
                    "the gateways' session did not stand within {READY_WITHIN} ({})",
                    tails.join("; ")
                )));
            }
            rest_until(now + GLANCE, || false);
        }
    }

    /// Fails if a gateway has exited, with its last output line.
    pub(crate) fn check(&mut self) -> Result<(), LabError> {
        self.gateways.iter_mut().try_for_each(|gateway| gateway.program.check())
    }

    /// Reads the counters of both gateways.
    pub(crate) fn counted(&self) -> Counted {
        let mut all = Counted { packets: self.services.tun.then(PacketsRaw::default), ..Counted::default() };
        for gateway in &self.gateways {
            let Ok(status) = gateway.status() else {
                all.notes.push(format!("gateway {}: no status at the end", gateway.name));
                continue;
            };
            let empty = Vec::new();
            let counters = status["counters"].as_array().unwrap_or(&empty);
            let mut words = Vec::new();
            for counter in counters {
                let (Some(name), Some(value)) = (counter["name"].as_str(), counter["value"].as_u64()) else { continue };
                all.count(name, value);
                if value > 0 {
                    words.push(format!("{name}={value}"));
                }
            }
            all.notes.push(format!("gateway {}: {}", gateway.name, words.join(" ")));
            if let Some(cpu) = gateway.program.cpu_seconds() {
                all.notes.push(format!("gateway {}: {cpu:.2} s of processor time", gateway.name));
            }
        }
        for other in self.gateways.iter().filter(|gateway| gateway.skewed) {
            all.notes.push(format!("gateway {}: clock {AHEAD_S} s ahead", other.name));
        }
        all
    }

    /// User and system time of both gateways so far, in seconds.
    pub(crate) fn cpu_seconds(&self) -> Option<f64> {
        self.gateways.iter().map(|gateway| gateway.program.cpu_seconds()).sum()
    }

    /// How long both gateways have waited for a processor so far, in seconds.
    pub(crate) fn waited_seconds(&self) -> Option<f64> {
        self.gateways.iter().map(|gateway| gateway.program.waited_seconds()).sum()
    }

    /// Stops both gateways in order and verifies that they exit by themselves.
    pub(crate) fn stop(mut self) -> Vec<String> {
        self.end()
    }

    fn end(&mut self) -> Vec<String> {
        program::end(self.gateways.drain(..).map(|gateway| gateway.program).collect())
    }
}

impl Drop for Gateways {
    fn drop(&mut self) {
        self.end();
    }
}

impl Gateway {
    fn status(&self) -> Result<Value, LabError> {
        let mut command = Command::new(tool().ok_or_else(|| missing("wavelane"))?);
        command.args(["status", "--json", "--control"]).arg(self.dir.join("control.sock"));
        let printed = output(&self.ns, command, REMEDY)?.stdout;
        let strange =
            |e: serde_json::Error| LabError::Failed { program: "wavelane status".into(), said: e.to_string() };
        serde_json::from_slice(&printed).map_err(strange)
    }
}

/// Adds settings that `wavelane init` has no option for: `additions` to `[gateway]`, to the peer's table and at the end.
fn adjust(config: &Path, split: bool, additions: &[String; 3]) -> Result<(), LabError> {
    const GATEWAY: &str = "[gateway]\n";
    const PEER: &str = "[[peer]]\n";
    let cannot = || LabError::io(format!("cannot change {}", config.display()));
    let mut text = std::fs::read_to_string(config).map_err(cannot())?;
    if !split {
        text = text.replace(PEER, &format!("{PEER}split = false\n"));
    }
    let [gateway, peer, end] = additions;
    text = text.replacen(GATEWAY, &format!("{GATEWAY}{gateway}"), 1).replacen(PEER, &format!("{PEER}{peer}"), 1);
    text.push_str(end);
    std::fs::write(config, text).map_err(cannot())
}

/// Writes the configuration of gateway `n` with the operator's own command, for its first neighbour; the link is not described.
fn init(known: &Known<'_>, world: &World, n: usize, dir: &Path, tun: bool) -> Result<(), LabError> {
    let (scenario, plan) = (known.scenario, &world.plan);
    let link = known.links_of(n).next().expect("a gateway that is started has a link");
    let (peer, theirs) = known.neighbour(n, link);
    let peer_key = known.keys[peer].as_deref().unwrap_or_default();
    let mut init = Command::new(tool().ok_or_else(|| missing("wavelane"))?);
    init.arg("init").arg("--dir").arg(dir);
    init.args(["--name", &scenario.nodes[n].name, "--peer-name", &scenario.nodes[peer].name]);
    init.args(["--peer-key", peer_key]);
    let nearest = if link.ends[0] == n { link.wires.last() } else { link.wires.first() };
    let named = nearest.is_some_and(|place| !media::of(&plan.wires[*place]).is_default());
    if !named {
        init.args(["--peer-address", &theirs]);
    }
    for route in plan.beyond(n, peer) {
        init.args(["--route", &route.prefix]);
    }
    // Networks that the other gateway routes here; with several neighbours `allow_targets` lists them.
    let relays = known.links_of(n).count() > 1;
    let serves: Vec<&str> =
        if relays { Vec::new() } else { plan.beyond(peer, n).map(|route| route.prefix.as_str()).collect() };
    for prefix in if serves.is_empty() { &["none"][..] } else { &serves } {
        init.args(["--serves", prefix]);
    }
    for lan in plan.wires.iter().filter(|w| w.end_of(n).is_some() && !w.counted) {
        init.args(["--interface", &lan.interface]);
    }
    if tun {
        init.arg("--tun");
    }
    init.arg("--control").arg(dir.join("control.sock"));
    output(&world.nodes[n], init, REMEDY)?;
    let places: Vec<usize> = nearest.into_iter().chain(&link.beside).copied().collect();
    if let [place] = places[..]
        && !plan.wires[place].one_way
        && !named
        && !plan.radios.contains_key(&n)
        && !plan.radios.contains_key(&peer)
        && !scenario
            .links
            .iter()
            .any(|link| link.lane(&scenario.channels[plan.wires[place].channel].name).start_rate.is_some())
    {
        return Ok(());
    }
    put_lanes(&dir.join("wavelaned.toml"), &lanes::tables(scenario, plan, places, [n, peer]))
}

/// Replaces the peer's single address by lanes.
fn put_lanes(config: &Path, lanes: &str) -> Result<(), LabError> {
    let cannot = || LabError::io(format!("cannot change {}", config.display()));
    let text = std::fs::read_to_string(config).map_err(cannot())?;
    let mut kept: String =
        text.lines().filter(|line| !line.starts_with("address = ")).map(|l| format!("{l}\n")).collect();
    let end = kept
        .find("[[peer]]")
        .map_or(kept.len(), |at| kept[at + 1..].find("\n[").map_or(kept.len(), |next| at + 1 + next + 1));
    kept.insert_str(end, lanes);
    std::fs::write(config, kept).map_err(cannot())
}

/// Begins a command line that runs what follows with its clock ahead.
fn ahead() -> Command {
    let mut command = tools::command("unshare");
    command.args(["--time", "--boottime", AHEAD_S, "--"]);
    command
}

/// Whether there are time namespaces here, and we may make one.
fn clocks_can_differ() -> bool {
    ahead()
        .arg("true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

fn launch(
    ns: &Netns,
    (name, skewed): (&str, bool),
    config: &Path,
    key_log: Option<&Path>,
    log: PathBuf,
) -> Result<Program, LabError> {
    let daemon = daemon().ok_or_else(|| missing("wavelaned"))?;
    let mut command = if skewed { ahead() } else { tools::command(&daemon) };
    if skewed {
        command.arg(daemon);
    }
    command.arg("--config").arg(config);
    if let Some(path) = key_log {
        command.arg("--key-log").arg(path);
    }
    Program::start(ns, format!("gateway {name}"), command, log, Ending::Exits, REMEDY)
}

fn missing(program: &str) -> LabError {
    let error = std::io::ErrorKind::NotFound.into();
    LabError::Program { program: program.into(), error, remedy: REMEDY }
}
