//! One run of one stack: servers, gateways and flows in the built world, monitored to their end.

mod launch;
mod over;
mod servers;
mod watch;

use crate::content::Digested;
use crate::gateways::{Companions, Gateways, Services};
use crate::http::{Epoch, Http, Upload};
use crate::judge::judge;
use crate::mobility::Mobiles;
use crate::mptcp;
use crate::peers::{self, Peers};
use crate::proxies::{Proxies, ProxyEngine};
use crate::review::{self, controls};
use crate::spurts::Hearing;
use crate::tally::{Counts, Tally};
use crate::tools;
use crate::topology::Plan;
use crate::worker::Worker;
use crate::world::{self, Recording, Veth, World};
use crate::{LabError, quic, sockets};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use wavelane_base::{Seed, Span};
use wavelane_host::realtime;
use wavelane_run::{CaptureExtent, FlowRaw, Progress, RunContext, StackRaw, WayRaw};
use wavelane_scenario::{Scenario, Stack, StackOption};

/// Time between setting the run's start and the start itself, so that every channel's thread is ready.
const LEAD: Span = Span::from_millis(50);
/// Time limit for servers to notice that their clients have gone.
const CLOSE_WITHIN: Span = Span::from_secs(2);

/// One stack's run, built and ready.
pub(crate) struct Run<'a> {
    scenario: &'a Scenario,
    stack: Stack,
    seed: Seed,
    /// Congestion control of each node's routes and sockets.
    controls: Vec<&'static str>,
    // Dropped in this order: servers, gateways, and last their namespaces.
    http: Vec<Http>,
    answerers: Vec<Worker>,
    quics: BTreeMap<String, quic::Server>,
    gateways: Option<Gateways>,
    proxies: Option<Proxies>,
    peers: Option<Peers>,
    mobiles: Mobiles,
    world: World,
    epoch: Epoch,
    digests: BTreeMap<String, Digested>,
    hearings: BTreeMap<String, Hearing>,
    uploads: BTreeMap<String, Arc<Upload>>,
    cancel: Arc<AtomicBool>,
    /// Per flow, set at its end.
    over: Vec<Arc<AtomicBool>>,
    notes: Vec<String>,
    /// The machine's processor time at the start: busy and total.
    processor: Option<(f64, f64)>,
}

impl<'a> Run<'a> {
    /// Builds everything: namespaces, channels, gateways with an established session, servers.
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
        let whole = context.captures == CaptureExtent::Whole;
        let logs = (context.out, context.label.as_str());
        let recording = Recording { file: &|node, port| context.pcap(node, port), whole, logs: Some(logs) };
        let plan = Plan::of(scenario)?;
        // Gateways and Multipath TCP use every channel, each by its own address.
        let plan = match stack.has_gateways() {
            true if world::may_queue() => plan.with_radios(scenario, review::radio_of(stack)),
            true => plan,
            false if mptcp::is(stack) => plan,
            false => plan.routed(scenario),
        };
        let guarded = (stack.option == StackOption::Rts).then(|| scenario.clone().with_rts());
        let moving = (!scenario.moves.is_empty()).then(|| guarded.as_ref().unwrap_or(scenario).clone().with_moves());
        let built = moving.as_ref().or(guarded.as_ref()).unwrap_or(scenario);
        let world = World::build(built, plan, seed, &controls, Veth::Packets, &recording, context.cancelled)?;
        let mobiles = Mobiles::start(scenario, &world, &controls, seed, context.out, context.cancelled)?;
        let gateways = match stack.has_gateways() {
            true => {
                let (out, label, key_log) = (context.out, context.label.clone(), context.key_log());
                let mut stop = || {
                    let (at, of) = (Span::ZERO, scenario.duration);
                    (context.progress)(Progress { stack, seed, at, of, note: "waiting for the gateways".into() });
                    context.cancelled.load(Ordering::Relaxed)
                };
                let key_log = whole.then_some(key_log.as_path());
                let companions = Companions { out, label: &label, key_log };
                Some(Gateways::start(scenario, &world, &companions, Services::of(scenario, stack), &mut stop)?)
            }
            false => None,
        };
        let mut run = Self {
            scenario,
            stack,
            seed,
            http: Vec::new(),
            answerers: Vec::new(),
            quics: BTreeMap::new(),
            gateways,
            proxies: None,
            peers: None,
            mobiles,
            world,
            epoch: Arc::new(OnceLock::new()),
            digests: BTreeMap::new(),
            hearings: BTreeMap::new(),
            uploads: BTreeMap::new(),
            cancel: Arc::new(AtomicBool::new(false)),
            over: scenario.flows.iter().map(|_| Arc::default()).collect(),
            processor: tools::processor_seconds(),
            notes: vec![pinned(scenario, &controls)],
            controls,
        };
        if mptcp::is(stack) {
            mptcp::set_up(scenario, &run.world, &run.controls)?;
        }
        run.start_servers()?;
        if stack.has_proxies() {
            run.start_proxies(context)?;
        }
        if peers::is_peer(stack) {
            run.start_peers(context)?;
        }
        Ok(run)
    }

    fn start_proxies(&mut self, context: &mut RunContext<'_>) -> Result<(), LabError> {
        let (out, label) = (context.out, context.label.clone());
        let (stack, seed, of) = (self.stack, self.seed, self.scenario.duration);
        let mut stop = || {
            let note = "waiting for the proxies".into();
            (context.progress)(Progress { stack, seed, at: Span::ZERO, of, note });
            context.cancelled.load(Ordering::Relaxed)
        };
        self.proxies = Some(Proxies::start(
            self.scenario,
            &self.world,
            (stack, ProxyEngine::Kernel),
            (out, label.as_str()),
            &mut stop,
        )?);
        Ok(())
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

    /// Runs the flows and collects their results.
    pub(crate) fn go(mut self, context: &mut RunContext<'_>) -> Result<StackRaw, LabError> {
        let before = self.tally()?;
        let epoch = realtime::now() + LEAD;
        self.world.begin(epoch);
        self.epoch.set(epoch).expect("a run goes once");
        self.mobiles.go(epoch)?;
        let tasks = (0..self.scenario.flows.len()).map(|i| self.launch(i, epoch)).collect::<Result<Vec<_>, _>>();
        let watched = match &tasks {
            Ok(tasks) => self.watch(tasks, epoch, context),
            Err(_) => Ok(Vec::new()),
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
        let ways = watched?;
        if let Some(error) = broken {
            return Err(error);
        }
        let flows = flows.into_iter().map(|f| f.expect("every flow was joined above")).collect();
        self.conclude(flows, ways, &before)
    }

    /// The congestion control for a node's sockets.
    fn control_of(&self, node: usize) -> String {
        format!("{}{}", if mptcp::is(self.stack) { mptcp::WORD } else { "" }, self.controls[node])
    }

    fn tally(&self) -> Result<Tally, LabError> {
        Tally::read(self.scenario, &self.world, self.gateways.as_ref(), self.peers.as_ref(), self.proxies.as_ref())
    }

    fn conclude(mut self, flows: Vec<FlowRaw>, ways: Vec<WayRaw>, before: &Tally) -> Result<StackRaw, LabError> {
        let Counts { spent, waited_s, took_s, kernels, lines } =
            self.tally()?.since(before, |name| self.world.on_line(self.scenario, name));
        if let (Some((busy, all)), Some((busy_before, all_before))) = (tools::processor_seconds(), self.processor) {
            let (busy, all) = (busy - busy_before, all - all_before);
            self.notes.push(format!("the whole machine: {busy:.2} s of {all:.2} s of processor time busy"));
        }
        let counted = self.gateways.as_ref().map(Gateways::counted).unwrap_or_default();
        self.notes.extend(counted.notes);
        self.notes.extend(self.proxies.as_ref().map(Proxies::notes).unwrap_or_default());
        self.notes.extend(self.peers.as_ref().map(Peers::notes).unwrap_or_default());
        self.notes.extend(self.quics.values().filter_map(quic::Server::note));
        if mptcp::is(self.stack) {
            let joins = mptcp::joins(self.scenario, &self.world)?;
            self.notes.push(format!("connections of Multipath TCP took {joins} further paths"));
            if joins == 0 {
                let said = "no connection took a second path".to_owned();
                return Err(LabError::Failed { program: "Multipath TCP".into(), said });
            }
        }
        let ended = self.close();
        self.notes.extend(ended);
        let findings = self.world.finish()?;
        self.notes.extend(findings.notes.iter().cloned());
        let work = spent.programs_s.zip(waited_s);
        let inconclusive = judge(&findings, work, took_s, &mut self.notes)?;
        Ok(StackRaw {
            stack: self.stack,
            flows,
            wire_octets: ways.iter().map(|way| way.octets).sum(),
            ways,
            repair_octets: counted.repair_octets,
            first_octets: counted.first_octets,
            inconclusive,
            notes: std::mem::take(&mut self.notes),
            radios: findings.radios,
            lines,
            spent,
            kernels,
            packets: counted.packets,
            timeouts: None,
        })
    }
}

impl Run<'_> {
    /// Ends the gateways and waits until the servers have noticed that their clients have gone. Meanwhile packets pass immediately, so that
    /// no abandoned connection keeps its namespace alive. Calling it twice is harmless.
    fn close(&mut self) -> Vec<String> {
        self.world.bypass();
        let mut notes = self.gateways.take().map(Gateways::stop).unwrap_or_default();
        notes.extend(self.proxies.take().map(Proxies::stop).unwrap_or_default());
        notes.extend(self.peers.take().map(Peers::stop).unwrap_or_default());
        notes.extend(self.mobiles.stop());
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
