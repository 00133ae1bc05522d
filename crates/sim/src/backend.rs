//! The simulator as a place that runs scenarios.

use crate::engine::Engine;
use crate::traffic::{ECHO_GRACE, FlowEnd, FlowIndex, FlowLog, FlowSpec, Work};
use crate::wiring::{Shape, World};
use wavelane_base::{Instant, Seed, Span};
use wavelane_channel::cable;
use wavelane_protocol::gateway::PeerId;
use wavelane_protocol::tcp::{Config, CongestionControl};
use wavelane_scenario::{
    App, Backend, BackendError, Change, Direction, Flow, FlowRaw, Probe, Progress, Review, RunContext, Scenario, Stack,
    StackRaw, TcpKind, Treatment,
};

/// How often, in virtual time, a run looks whether it is over, was cancelled, or should say how far it is.
const LOOK: Span = Span::from_millis(100);

/// Runs scenarios in virtual time. Same scenario and seed: same bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimBackend;

impl Backend for SimBackend {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn review(&self, scenario: &Scenario) -> Review {
        let mut review = Review::default();
        for &stack in &scenario.stacks {
            review.stack(stack, treatment(stack));
        }
        let shape = Shape::new(scenario);
        for (number, channel) in scenario.channels.iter().enumerate().filter(|(c, _)| shape.is_local(*c)) {
            let why = "under wavelane, flows enter at the gateway's stream seam; this channel takes no time and loses nothing";
            review.clause(format!("channels.{}", channel.name), Treatment::Approximated(why.to_owned()));
            for (place, change) in scenario.timeline.iter().enumerate() {
                if change.channel == scenario.channels[number].name {
                    let why = "it changes a channel that flows do not cross under wavelane";
                    review.clause(format!("timeline[{place}]"), Treatment::Omitted(why.to_owned()));
                }
            }
        }
        for flow in &scenario.flows {
            if let Err(why) = shape.route(&flow.from, &flow.to) {
                review.clause(format!("flows.{}", flow.name), Treatment::Refused(why));
            } else if let Some(why) = beyond(flow) {
                review.clause(format!("flows.{}", flow.name), Treatment::Refused(why.to_owned()));
            }
        }
        review
    }

    fn run_stack(
        &mut self,
        scenario: &Scenario,
        stack: Stack,
        seed: Seed,
        context: &mut RunContext<'_>,
    ) -> Result<StackRaw, BackendError> {
        if let Treatment::Omitted(why) = treatment(stack) {
            return Err(BackendError::Unable(why));
        }
        let shape = Shape::new(scenario);
        let built = match tcp_config(stack) {
            Some(config) => shape.build_tcp(seed, &config),
            None => shape.build(seed),
        };
        let mut world = built.map_err(|why| BackendError::Failed(why.to_string()))?;
        let flows = add_flows(&shape, scenario, stack, &mut world)?;
        let mut changes: Vec<&Change> =
            scenario.timeline.iter().filter(|change| world.channels.contains_key(&change.channel)).collect();
        changes.sort_by_key(|change| change.at);
        let mut changes = changes.into_iter().peekable();
        let end = Instant::ZERO + scenario.duration;
        while world.engine.now() < end && !all_over(&world.engine, &flows) {
            if context.is_cancelled() {
                return Err(BackendError::Cancelled);
            }
            let look = (world.engine.now() + LOOK).min(end);
            while let Some(change) = changes.next_if(|change| Instant::ZERO + change.at <= look) {
                world.engine.run_until((Instant::ZERO + change.at).max(world.engine.now()));
                apply(&mut world, change)?;
            }
            world.engine.run_until(look);
            let at = world.engine.now().since(Instant::ZERO);
            let note = note(scenario, &world.engine, &flows);
            (context.progress)(Progress { stack, seed, at, of: scenario.duration, note });
        }
        Ok(collect(&shape, scenario, stack, &world, &flows))
    }
}

const NO_FETCH: &str = "the simulator has no fetches: run it with --on lab";

/// What the simulator cannot do for a flow.
fn beyond(flow: &Flow) -> Option<&'static str> {
    match flow {
        Flow { app: App::Fetch { .. }, .. } => Some(NO_FETCH),
        Flow { control: Some(_), .. } => {
            Some("in the simulator the stack chooses the congestion control: run it with --on lab")
        }
        _ => None,
    }
}

fn treatment(stack: Stack) -> Treatment {
    let why = match stack {
        Stack::Wavelane => return Treatment::Imposed,
        Stack::Tcp { rts: false, .. } => return Treatment::Imposed,
        Stack::Tcp { rts: true, .. } => "RTS/CTS needs a Wi-Fi channel, which scenarios cannot name yet: drop '+rts'",
        Stack::Udp | Stack::Hop2009 | Stack::TcpHopByHop => {
            "the simulator does not have this stack yet: take it out of `stacks`"
        }
        Stack::Mptcp => "it lives in the Linux kernel: run it with --on lab",
        Stack::Kcptun
        | Stack::KcptunFast3
        | Stack::BoringtunCubic
        | Stack::BoringtunBbr
        | Stack::Pepsal
        | Stack::Ns3Debian
        | Stack::Ns3Wheel => "it is an external program, which cannot run in virtual time",
    };
    Treatment::Omitted(why.to_owned())
}

/// The TCP of a `tcp-*` stack; `None` for the others.
fn tcp_config(stack: Stack) -> Option<Config> {
    let Stack::Tcp { kind, .. } = stack else { return None };
    let config = match kind {
        TcpKind::Reno => Config::linux(CongestionControl::NewReno),
        TcpKind::Cubic => Config::linux(CongestionControl::Cubic),
        TcpKind::Bbr => Config::linux(CongestionControl::Bbr),
        TcpKind::Y2001 => Config::tcp_2001(),
    };
    // As the laboratory's programs do (TCP_NODELAY): Nagle would hold each echo until the one before is answered.
    Some(Config { nagle: false, ..config })
}

fn add_flows(
    shape: &Shape<'_>,
    scenario: &Scenario,
    stack: Stack,
    world: &mut World,
) -> Result<Vec<FlowIndex>, BackendError> {
    let mut flows = Vec::new();
    for (number, flow) in scenario.flows.iter().enumerate() {
        let refused = |why| BackendError::Unable(format!("flow '{}': {why}", flow.name));
        let route = shape.route(&flow.from, &flow.to).map_err(refused)?;
        let target = shape.server_address(route);
        // Under a tcp stack programs sit on the endpoints themselves.
        let wavelane = stack == Stack::Wavelane;
        let (client, server) = if wavelane { (route.ingress, route.egress) } else { (route.client, route.server) };
        world.engine.listen(world.nodes[&server], target);
        let spec = FlowSpec {
            node: world.nodes[&client],
            peer: world.peers.get(&(route.ingress, route.next)).copied().unwrap_or(PeerId(0)),
            source: shape.client_address(route, number),
            target,
            work: work(scenario, flow).map_err(|why| refused(why.to_owned()))?,
            start: Instant::ZERO + flow.start,
            stop: flow.stop.map(|stop| Instant::ZERO + stop),
            source_rate: None,
            reader_pause: None,
        };
        flows.push(world.engine.add_flow(spec));
    }
    Ok(flows)
}

/// Exchanges are added in the scenario's order, so their numbers agree.
fn work(scenario: &Scenario, flow: &Flow) -> Result<Work, &'static str> {
    Ok(match &flow.app {
        App::Download { size } => Work::Download(size.map(|s| s.get())),
        App::Upload { size } => Work::Upload(size.map(|s| s.get())),
        App::Echo { every, size, during } => {
            let during = during.as_ref().and_then(|name| scenario.flows.iter().position(|f| f.name == *name));
            Work::Echo { every: *every, size: size.get(), during: during.map(FlowIndex) }
        }
        App::Fetch { .. } => return Err(NO_FETCH),
    })
}

fn apply(world: &mut World, change: &Change) -> Result<(), BackendError> {
    let direction = match change.direction {
        Direction::Forward => cable::Direction::Forward,
        Direction::Reverse => cable::Direction::Reverse,
    };
    let channel = world.channels[&change.channel];
    world
        .engine
        .set(channel, direction, change.parameter.clone())
        .map_err(|why| BackendError::Failed(format!("timeline at {}: channel '{}': {why}", change.at, change.channel)))
}

fn all_over(engine: &Engine, flows: &[FlowIndex]) -> bool {
    flows.iter().all(|flow| engine.log(*flow).end.is_some())
}

/// What the biggest exchange is doing, for people.
fn note(scenario: &Scenario, engine: &Engine, flows: &[FlowIndex]) -> String {
    let mb = |octets: u64| octets as f64 / 1e6;
    let running =
        scenario.flows.iter().zip(flows).find(|(flow, i)| flow.app.is_bulk() && engine.log(**i).end.is_none());
    let Some((flow, index)) = running else { return "waiting for the last answers".to_owned() };
    let read = mb(engine.log(*index).octets);
    match flow.app {
        App::Download { size: Some(size) } | App::Upload { size: Some(size) } => {
            format!("{} {read:.1} MB of {:.1} MB", flow.name, mb(size.get()))
        }
        _ => format!("{} {read:.1} MB", flow.name),
    }
}

fn collect(shape: &Shape<'_>, scenario: &Scenario, stack: Stack, world: &World, flows: &[FlowIndex]) -> StackRaw {
    let end = world.engine.now();
    let offered =
        scenario.channels.iter().enumerate().filter(|(c, _)| !shape.is_local(*c)).filter_map(|(number, channel)| {
            let cable = world.engine.cable(*world.channels.get(&channel.name)?);
            let sides = [0, 1].into_iter().filter(|side| shape.leaves_gateway(number, *side));
            Some(sides.map(|side| cable.counters(cable::Direction::BOTH[side]).offered.octets).sum::<u64>())
        });
    let (first, repair) = transmissions(world);
    StackRaw {
        stack,
        flows: scenario.flows.iter().zip(flows).map(|(f, i)| raw(scenario, f, world.engine.log(*i), end)).collect(),
        wire_octets: offered.sum(),
        repair_octets: repair,
        first_octets: first,
        inconclusive: None,
        notes: notes(scenario, world),
    }
}

/// Bytes of first transmissions and of repairs, over all gateways, as they count them.
fn transmissions(world: &World) -> (Option<u64>, Option<u64>) {
    let mut sums = [None, None];
    for &node in world.nodes.values() {
        if !world.engine.is_gateway(node) {
            continue;
        }
        for (name, value) in world.engine.status(node).counters {
            let place = match name {
                "hop_first_octets" => 0,
                "hop_repair_octets" | "hop_copy_octets" | "fec_symbol_octets" => 1,
                _ => continue,
            };
            sums[place] = Some(sums[place].unwrap_or(0) + value);
        }
    }
    (sums[0], sums[1])
}

fn raw(scenario: &Scenario, flow: &Flow, log: &FlowLog, end: Instant) -> FlowRaw {
    let nanos = |at: Instant| at.as_nanos();
    let how = log.end.map(|(_, how)| how);
    let fixed_time = matches!(flow.app, App::Download { size: None } | App::Upload { size: None });
    let completed = match how {
        Some(FlowEnd::Complete) => true,
        Some(FlowEnd::Stopped) => fixed_time,
        None => log.accepted.is_some() && (fixed_time || !flow.app.is_bulk()),
        Some(_) => false,
    };
    let stop = flow.stop.map_or(Instant::ZERO + scenario.duration, |stop| Instant::ZERO + stop);
    let connect = log.connected.unwrap_or(Instant::ZERO + flow.start);
    // The last moment at which an answer counts.
    let patience = last_question_end(log, end) + ECHO_GRACE;
    let probe = |q: &crate::traffic::Question| Probe {
        sent_ns: nanos(q.due),
        rtt_ns: q.answered.filter(|at| *at <= patience).map(|at| at.since(q.due).as_nanos()),
    };
    FlowRaw {
        flow: flow.name.clone(),
        app: flow.app.word(),
        connect_ns: nanos(connect),
        first_byte_ns: log.first_byte.map(nanos),
        last_byte_ns: log.last_byte.map(nanos),
        completed: completed && log.damage.is_none(),
        intact: (flow.app.is_bulk() && (completed || log.damage.is_some())).then_some(log.damage.is_none()),
        octets: log.octets,
        arrivals: log.arrivals.clone(),
        probes: log.questions.iter().map(probe).collect(),
        ages: Vec::new(),
        fetches: Vec::new(),
        given_ns: stop.since(connect).as_nanos(),
    }
}

fn last_question_end(log: &FlowLog, end: Instant) -> Instant {
    log.questions_end.unwrap_or(end)
}

fn notes(scenario: &Scenario, world: &World) -> Vec<String> {
    let mut notes = vec![format!("digest of all packets: {:016x}", world.engine.digest())];
    for (&number, &node) in &world.nodes {
        for (why, count) in world.engine.dropped(node) {
            notes.push(format!("node {}: {count} packets dropped: {why}", scenario.nodes[number].name));
        }
    }
    notes
}
