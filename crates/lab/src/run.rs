//! One run of one stack: servers, gateways and flows in the built world, watched to their end.

use crate::bulk::{self, ENDLESS};
use crate::content::{Content, Digested};
use crate::gateways::{Gateways, Services};
use crate::http::{Epoch, Http, Page, Upload};
use crate::judge::judge;
use crate::peers::{self, Peers};
use crate::review::controls;
use crate::tally::Tally;
use crate::tools::{self, INSTALL_IP};
use crate::world::{Veth, World};
use crate::{LabError, echo, fetch, quic, sockets};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use wavelane_base::{Instant, Octets, Seed, Span};
use wavelane_host::realtime;
use wavelane_scenario::{App, Flow, FlowRaw, Progress, RunContext, Scenario, Stack, StackRaw};

/// Between setting the run's start and the start itself, so that every channel's thread is ready.
const LEAD: Span = Span::from_millis(50);
/// Between two looks at the running flows.
const GLANCE: Span = Span::from_millis(100);
/// How long after the run's duration its flows may take to wind up: an echo waits 5 s, curl 2 s.
const WIND_UP: Span = Span::from_secs(8);
/// How long servers may take to notice that their clients are gone.
const CLOSE_WITHIN: Span = Span::from_secs(2);
/// How often the kernel is asked which congestion control the connections use, until it knows of some.
const LOOKS: u64 = 10;
/// Between two of these.
const LOOK_EVERY: Span = Span::from_millis(300);
/// Where the nodes' HTTP servers listen.
const HTTP_PORT: u16 = 8080;
/// Where the first echo flow's server listens; each further one on the next port.
const ECHO_PORT: u16 = 7000;

/// A flow on its way.
struct Task {
    flow: usize,
    progress: Arc<AtomicU64>,
    thread: JoinHandle<Result<(FlowRaw, Option<String>), LabError>>,
}

/// One stack's run, built and ready.
pub(crate) struct Run<'a> {
    scenario: &'a Scenario,
    stack: Stack,
    seed: Seed,
    /// Congestion control of each node's routes and sockets.
    controls: Vec<&'static str>,
    // Dropped in this order: servers, gateways, and last the namespaces they live in.
    http: Vec<Http>,
    _echoes: Vec<echo::Server>,
    _fetches: Vec<fetch::Server>,
    quics: BTreeMap<String, quic::Server>,
    gateways: Option<Gateways>,
    peers: Option<Peers>,
    world: World,
    epoch: Epoch,
    digests: BTreeMap<String, Digested>,
    uploads: BTreeMap<String, Arc<Upload>>,
    cancel: Arc<AtomicBool>,
    /// Per flow, set at its end.
    over: Vec<Arc<AtomicBool>>,
    notes: Vec<String>,
    /// The machine's processor time at the start, busy and all.
    processor: Option<(f64, f64)>,
}

impl<'a> Run<'a> {
    /// Builds everything: namespaces, channels, gateways whose session stands, servers.
    pub(crate) fn prepare(
        scenario: &'a Scenario,
        stack: Stack,
        seed: Seed,
        context: &mut RunContext<'_>,
    ) -> Result<Self, LabError> {
        let controls = controls(scenario, stack).map_err(LabError::Topology)?;
        let pcap = context.out.join("pcap");
        std::fs::create_dir_all(&pcap)
            .map_err(LabError::io(format!("cannot make {}; choose another --out", pcap.display())))?;
        let world = World::build(scenario, seed, &controls, Veth::Packets, &|node, port| context.pcap(node, port))?;
        let gateways = match stack.has_gateways() {
            true => {
                let (out, label) = (context.out, context.label.clone());
                let mut stop = || {
                    let (at, of) = (Span::ZERO, scenario.duration);
                    (context.progress)(Progress { stack, seed, at, of, note: "waiting for the gateways".into() });
                    context.cancelled.load(Ordering::Relaxed)
                };
                Some(Gateways::start(scenario, &world, out, &label, Services::of(scenario, stack), &mut stop)?)
            }
            false => None,
        };
        let mut run = Self {
            scenario,
            stack,
            seed,
            http: Vec::new(),
            _echoes: Vec::new(),
            _fetches: Vec::new(),
            quics: BTreeMap::new(),
            gateways,
            peers: None,
            world,
            epoch: Arc::new(OnceLock::new()),
            digests: BTreeMap::new(),
            uploads: BTreeMap::new(),
            cancel: Arc::new(AtomicBool::new(false)),
            over: scenario.flows.iter().map(|_| Arc::default()).collect(),
            processor: tools::processor_seconds(),
            notes: vec![pinned(scenario, &controls)],
            controls,
        };
        run.start_servers()?;
        if peers::is_peer(stack) {
            run.start_peers(context)?;
        }
        Ok(run)
    }

    fn start_peers(&mut self, context: &mut RunContext<'_>) -> Result<(), LabError> {
        let flows = 0..self.scenario.flows.len();
        let servers = flows.map(|flow| self.server_of(flow)).collect::<Result<Vec<_>, _>>()?;
        let (out, label) = (context.out, context.label.clone());
        let order = peers::Order { stack: self.stack, servers: &servers, controls: &self.controls, out, label: &label };
        let (stack, seed, of) = (self.stack, self.seed, self.scenario.duration);
        let mut stop = || {
            let note = "waiting for the peer's programs".into();
            (context.progress)(Progress { stack, seed, at: Span::ZERO, of, note });
            context.cancelled.load(Ordering::Relaxed)
        };
        self.peers = Some(Peers::start(self.scenario, &self.world, &order, &mut stop)?);
        Ok(())
    }

    /// Where a flow's client connects: its server, or a peer that leads there.
    fn entrance_of(&self, flow: usize) -> Result<SocketAddr, LabError> {
        let server = self.server_of(flow)?;
        let by_peer = |peers: &Peers| peers.way_to(self.scenario, &self.scenario.flows[flow], server);
        Ok(self.peers.as_ref().map_or(server, by_peer))
    }

    fn place(&self, name: &str) -> Result<usize, LabError> {
        let place = self.scenario.nodes.iter().position(|n| n.name == name);
        place
            .ok_or_else(|| LabError::Topology(format!("a flow names '{name}', which is no node: add it under [nodes]")))
    }

    /// Where a flow's server listens.
    fn server_of(&self, flow: usize) -> Result<SocketAddr, LabError> {
        let to = &self.scenario.flows[flow].to;
        let ip = self.world.plan.address_of(self.place(to)?);
        let ip =
            ip.ok_or_else(|| LabError::Topology(format!("node '{to}' is joined to nothing: give it a channel")))?;
        let port = match self.scenario.flows[flow].app {
            App::Echo { .. } | App::Fetch { .. } | App::Quic { .. } => {
                ECHO_PORT + u16::try_from(flow).expect("FLOWS_MAX is 256")
            }
            _ => HTTP_PORT,
        };
        Ok(sockets::at(ip, port))
    }

    fn start_servers(&mut self) -> Result<(), LabError> {
        let mut pages: BTreeMap<usize, (SocketAddr, BTreeMap<String, Page>)> = BTreeMap::new();
        for (i, flow) in self.scenario.flows.iter().enumerate() {
            let (node, address) = (self.place(&flow.to)?, self.server_of(i)?);
            let control = self.controls[node];
            let page = match &flow.app {
                App::Download { size } => {
                    let octets = size.map_or(ENDLESS, Octets::get);
                    let content = Content::new(self.seed, &flow.name, octets).stamped();
                    self.digests.insert(flow.name.clone(), content.digest());
                    Page::Download(std::sync::Mutex::new(Some(content)), octets)
                }
                App::Upload { .. } => {
                    let upload = Arc::new(Upload::default());
                    self.uploads.insert(flow.name.clone(), Arc::clone(&upload));
                    Page::Upload(upload)
                }
                App::Cbr { .. } | App::Saturate { .. } | App::Window { .. } | App::Ping { .. } => continue,
                App::Quic { size } => {
                    let content = Content::new(self.seed, &flow.name, size.map_or(ENDLESS, Octets::get)).stamped();
                    self.digests.insert(flow.name.clone(), content.digest());
                    let ns = &self.world.nodes[node];
                    let server = quic::Server::start(ns, address, control, &flow.name, content)?;
                    self.quics.insert(flow.name.clone(), server);
                    continue;
                }
                App::Echo { .. } => {
                    self._echoes.push(echo::Server::start(&self.world.nodes[node], address, control)?);
                    continue;
                }
                App::Fetch { .. } => {
                    self._fetches.push(fetch::Server::start(&self.world.nodes[node], address, control)?);
                    continue;
                }
            };
            pages.entry(node).or_insert_with(|| (address, BTreeMap::new())).1.insert(flow.name.clone(), page);
        }
        for (node, (address, pages)) in pages {
            let epoch = Arc::clone(&self.epoch);
            self.http.push(Http::start(&self.world.nodes[node], address, self.controls[node], pages, epoch)?);
        }
        Ok(())
    }

    /// Starts the thread of one flow.
    fn launch(&self, i: usize, epoch: Instant) -> Result<Task, LabError> {
        let flow = &self.scenario.flows[i];
        let progress = Arc::new(AtomicU64::new(0));
        let place = self.place(&flow.from)?;
        let (from, control) = (Arc::clone(&self.world.nodes[place]), self.controls[place].to_owned());
        let (start, stop) = (epoch + flow.start, epoch + self.scenario.stop_of(flow));
        let (name, server) = (flow.name.clone(), self.entrance_of(i)?);
        let (cancel, over) = (Arc::clone(&self.cancel), Arc::clone(&self.over[i]));
        type Work = Box<dyn FnOnce() -> Result<(FlowRaw, Option<String>), LabError> + Send>;
        let work: Work = match flow.app.clone() {
            App::Echo { every, size, during } => {
                let companion = during.and_then(|name| self.scenario.flows.iter().position(|f| f.name == name));
                let over = companion.map_or_else(Arc::default, |c| Arc::clone(&self.over[c]));
                let size = usize::try_from(size.get()).expect("reviewed: at most PROBE_MAX");
                let errand = echo::Errand { name, epoch, start, stop, every, size, server, control, over, cancel };
                Box::new(move || echo::run(&errand))
            }
            App::Cbr { .. } | App::Saturate { .. } | App::Window { .. } | App::Ping { .. } => {
                return Err(LabError::Topology(format!("flow '{name}': the lab has no program for it: use --on sim")));
            }
            App::Fetch { every, size } => {
                let size = size.get();
                let errand = fetch::Errand { name, epoch, start, stop, every, size, server, control, cancel };
                Box::new(move || fetch::run(errand))
            }
            App::Quic { size } => {
                let size = size.map(Octets::get);
                let digest = self.digests.get(&name).cloned().unwrap_or_default();
                let certificate = self.quics.get(&name).map(quic::Server::certificate);
                let certificate = certificate.expect("every QUIC flow's server was started");
                let (from, progress) = (Arc::clone(&from), Arc::clone(&progress));
                let errand = bulk::Errand { name, epoch, start, stop, size, from, server, cancel, progress };
                Box::new(move || quic::run(&errand, &control, certificate, &digest))
            }
            App::Download { size } | App::Upload { size } => {
                let size = size.map(Octets::get);
                let (digest, upload) = (self.digests.get(&name).cloned(), self.uploads.get(&name).cloned());
                let body = Content::new(self.seed, &name, size.unwrap_or(ENDLESS));
                let (from, progress) = (Arc::clone(&from), Arc::clone(&progress));
                let errand = bulk::Errand { name, epoch, start, stop, size, from, server, cancel, progress };
                Box::new(move || match (digest, upload) {
                    (_, Some(upload)) => bulk::upload(&errand, body, &upload),
                    (digest, None) => bulk::download(&errand, &digest.unwrap_or_default()),
                })
            }
        };
        let title = format!("flow-{}", flow.name);
        // Started inside the client's namespace, where its own sockets must be; it stays there.
        let thread = from.run(move || {
            std::thread::Builder::new().name(title).spawn(move || {
                let outcome = work();
                over.store(true, Ordering::Release);
                outcome
            })
        })?;
        let thread = thread.map_err(LabError::io("cannot start a thread for a flow; raise the process limit"))?;
        Ok(Task { flow: i, progress, thread })
    }

    /// Runs the flows and gathers what they saw.
    pub(crate) fn go(mut self, context: &mut RunContext<'_>) -> Result<StackRaw, LabError> {
        let before = self.tally()?;
        let epoch = realtime::now() + LEAD;
        self.world.begin(epoch);
        self.epoch.set(epoch).expect("a run goes once");
        let tasks = (0..self.scenario.flows.len()).map(|i| self.launch(i, epoch)).collect::<Result<Vec<_>, _>>();
        let watched = match &tasks {
            Ok(tasks) => self.watch(tasks, epoch, context),
            Err(_) => Ok(0),
        };
        self.cancel.store(watched.is_err() || tasks.is_err(), Ordering::Relaxed);
        let mut flows: Vec<Option<FlowRaw>> = vec![None; self.scenario.flows.len()];
        let mut broken = None;
        for task in tasks? {
            match task.thread.join() {
                Ok(Ok((raw, note))) => {
                    flows[task.flow] = Some(raw);
                    self.notes.extend(note);
                }
                Ok(Err(error)) => drop(broken.get_or_insert(error)),
                Err(_) => {
                    let name = self.scenario.flows[task.flow].name.clone();
                    let said = "its thread panicked; the message is above".to_owned();
                    broken.get_or_insert(LabError::Failed { program: format!("flow {name}"), said });
                }
            }
        }
        let wire_octets = watched?;
        if let Some(error) = broken {
            return Err(error);
        }
        let flows = flows.into_iter().map(|f| f.expect("every flow was joined above")).collect();
        self.conclude(flows, wire_octets, &before)
    }

    fn tally(&self) -> Result<Tally, LabError> {
        Tally::read(self.scenario, &self.world, self.gateways.as_ref(), self.peers.as_ref())
    }

    /// Looks after the running flows until all have ended. Returns the bytes offered to the bad channels until the
    /// last bulk flow ended.
    fn watch(&mut self, tasks: &[Task], epoch: Instant, context: &mut RunContext<'_>) -> Result<u64, LabError> {
        let deadline = epoch + self.scenario.duration + WIND_UP;
        let mut wire_octets = None;
        let mut looks = 0;
        loop {
            let now = realtime::now();
            if context.is_cancelled() {
                return Err(LabError::Cancelled);
            }
            if let Some(fault) = self.world.fault() {
                return Err(LabError::Failed { program: "the lab".into(), said: fault });
            }
            if let Some(gateways) = &mut self.gateways {
                gateways.check()?;
            }
            if let Some(peers) = &mut self.peers {
                peers.check()?;
            }
            if looks < LOOKS && now >= epoch + LOOK_EVERY.times(looks + 1) {
                looks = if self.look_at_sockets()? { LOOKS } else { looks + 1 };
            }
            let bulk = |t: &&Task| self.scenario.flows[t.flow].app.is_bulk();
            if wire_octets.is_none()
                && tasks.iter().any(|t| bulk(&t))
                && tasks.iter().filter(bulk).all(|t| t.thread.is_finished())
            {
                wire_octets = Some(self.world.wire_octets());
            }
            (context.progress)(Progress {
                stack: self.stack,
                seed: self.seed,
                at: now.since(epoch),
                of: self.scenario.duration,
                note: tasks
                    .iter()
                    .filter_map(|t| words(&self.scenario.flows[t.flow], t))
                    .collect::<Vec<_>>()
                    .join(", "),
            });
            if tasks.iter().all(|t| t.thread.is_finished()) {
                return Ok(wire_octets.unwrap_or_else(|| self.world.wire_octets()));
            }
            if now > deadline {
                return Err(LabError::Late(format!("the flows did not end within {WIND_UP} of the run's duration")));
            }
            sockets::rest_until(now + GLANCE, || false);
        }
    }

    /// Asks the kernel which congestion control the endpoints' connections really use; false if there are none yet.
    fn look_at_sockets(&mut self) -> Result<bool, LabError> {
        if tools::find("ss").is_none() {
            self.notes.push("ss is missing, so congestion control was verified on the echo sockets only".into());
            return Ok(true);
        }
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut other = None;
        for ((node, ns), wanted) in self.scenario.nodes.iter().zip(&self.world.nodes).zip(&self.controls) {
            if self.scenario.flows.iter().all(|f| f.from != node.name && f.to != node.name) {
                continue;
            }
            let mut ss = tools::command("ss");
            ss.args(["-H", "-t", "-i", "-n", "-O", "state", "established"]);
            let printed = tools::output(ns, ss, INSTALL_IP)?.stdout;
            for line in String::from_utf8_lossy(&printed).lines() {
                let known = ["reno", "cubic", "bbr"];
                if let Some(word) = line.split_whitespace().find(|w| known.contains(w)) {
                    *seen.entry(word.to_owned()).or_default() += 1;
                    if word != *wanted {
                        other = Some((word.to_owned(), *wanted));
                    }
                }
            }
        }
        if seen.is_empty() {
            return Ok(false);
        }
        let words: Vec<String> = seen.iter().map(|(name, n)| format!("{name} on {n}")).collect();
        self.notes.push(format!("endpoints' connections as the kernel shows them: {}", words.join(", ")));
        match other {
            None => Ok(true),
            Some((other, wanted)) => Err(LabError::Failed {
                program: "pinning the congestion control".into(),
                said: format!("a connection uses {other} where {wanted} was asked for"),
            }),
        }
    }

    fn conclude(mut self, flows: Vec<FlowRaw>, wire_octets: u64, before: &Tally) -> Result<StackRaw, LabError> {
        let (spent, kernels) = self.tally()?.since(before);
        if let (Some((busy, all)), Some((busy_before, all_before))) = (tools::processor_seconds(), self.processor) {
            let (busy, all) = (busy - busy_before, all - all_before);
            self.notes.push(format!("the whole machine: {busy:.2} s of {all:.2} s of processor time busy"));
        }
        let counted = self.gateways.as_ref().map(Gateways::counted).unwrap_or_default();
        self.notes.extend(counted.notes);
        self.notes.extend(self.peers.as_ref().map(Peers::notes).unwrap_or_default());
        self.notes.extend(self.quics.values().filter_map(quic::Server::note));
        let ended = self.close();
        self.notes.extend(ended);
        let findings = self.world.finish()?;
        let inconclusive = judge(&findings, &mut self.notes)?;
        Ok(StackRaw {
            stack: self.stack,
            flows,
            wire_octets,
            repair_octets: counted.repair_octets,
            first_octets: counted.first_octets,
            inconclusive,
            notes: std::mem::take(&mut self.notes),
            radios: Vec::new(),
            spent,
            kernels,
            packets: counted.packets,
        })
    }
}

impl Run<'_> {
    /// Ends the gateways and waits until the servers have noticed that their clients are gone. Packets pass at once
    /// meanwhile, so that no abandoned connection keeps its namespace alive. Doing it twice does no harm.
    fn close(&mut self) -> Vec<String> {
        self.world.bypass();
        let mut notes = self.gateways.take().map(Gateways::stop).unwrap_or_default();
        notes.extend(self.peers.take().map(Peers::stop).unwrap_or_default());
        let http = &self.http;
        sockets::rest_until(realtime::now() + CLOSE_WITHIN, || http.iter().all(Http::is_idle));
        notes
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Which congestion control is pinned where, for the log.
fn pinned(scenario: &Scenario, controls: &[&str]) -> String {
    let first = controls.first().copied().unwrap_or_default();
    if controls.iter().all(|control| *control == first) {
        return format!("congestion control {first} pinned on every route and socket");
    }
    let each = scenario.nodes.iter().zip(controls).map(|(node, control)| format!("{} {control}", node.name));
    format!("congestion control pinned per node: {}", each.collect::<Vec<_>>().join(", "))
}

/// What a running flow has done, for people.
fn words(flow: &Flow, task: &Task) -> Option<String> {
    let (App::Download { size } | App::Upload { size } | App::Quic { size }) = &flow.app else { return None };
    let so_far = task.progress.load(Ordering::Relaxed) as f64 / 1e6;
    let of = size.map(|s| format!(" of {:.1} MB", s.get() as f64 / 1e6)).unwrap_or_default();
    Some(format!("{} {so_far:.1} MB{of}", flow.name))
}
