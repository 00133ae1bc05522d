//! The simulator as a place that runs scenarios.

use crate::captures::Captures;
use crate::door::OnPath;
use crate::engine::{Engine, NodeId};
use crate::moves;
use crate::stacks::{self, treatment};
use crate::traffic::{Datagrams, ECHO_GRACE, Exchange, FlowEnd, FlowIndex, FlowLog, FlowSpec, Work};
use crate::wiring::{Shape, World};
use wavelane_base::{Instant, Seed, Span};
use wavelane_channel::wifi::Handling;
use wavelane_channel::{Coding, cable};
use wavelane_gateway::PeerId;
use wavelane_run::{
    Backend, BackendError, Fetch, FlowRaw, LineRaw, PacketsRaw, Probe, Progress, RadioRaw, Review, RunContext, Spent,
    StackRaw, Treatment, WayRaw,
};
use wavelane_scenario::{
    App, Change, ChannelKind, Direction, Family, Flow, Move, Scenario, Spurts, Stack, StackOption, TcpKind,
};
use wavelane_tcp::Config;

/// How often, in virtual time, a run checks whether it is over, was cancelled, or should report its progress.
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
            review.stack(stack, treatment(scenario, stack));
        }
        let shape = Shape::new(scenario);
        let imposed = |stack: &Stack| treatment(scenario, *stack) == Treatment::Imposed;
        let wavelane = scenario.stacks.iter().any(|stack| stack.has_gateways() && imposed(stack));
        for flow in &scenario.flows {
            let clause = || format!("flows.{}", flow.name);
            if let Some(why) = beyond(flow) {
                review.clause(clause(), Treatment::Refused(why.to_owned()));
            } else if wavelane && flow.control.is_some() && shape.at_seam(flow) {
                let why = "under wavelane a client on a gateway opens its flow at the stream seam, without a TCP: control has no effect on what it sends";
                review.clause(clause(), Treatment::Approximated(why.to_owned()));
            }
        }
        moves::review(scenario, &mut review);
        for channel in &scenario.channels {
            if let ChannelKind::Serial(serial) = &channel.kind
                && [&serial.line.forward, &serial.line.reverse]
                    .iter()
                    .any(|way| matches!(way.coding, Coding::V42bis(_)))
            {
                let why = "V.42bis is one gain for every octet, where a codec's follows what it compresses";
                review.clause(format!("channels.{}", channel.name), Treatment::Approximated(why.to_owned()));
            }
        }
        if !wavelane {
            return review;
        }
        for flow in scenario.flows.iter().filter(|flow| !shape.is_plain(flow)) {
            if let Err(why) = shape.route(&flow.from, &flow.to) {
                review.clause(format!("flows.{}", flow.name), Treatment::Refused(why));
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
        if let Treatment::Omitted(why) = treatment(scenario, stack) {
            return Err(BackendError::Unable(why));
        }
        let moving = (!scenario.moves.is_empty()).then(|| scenario.clone().with_moves());
        let scenario = moving.as_ref().unwrap_or(scenario);
        let mut shape = Shape::new(scenario);
        shape.is_2009 = stack.family == Family::Hop2009;
        shape.unsplit = stack.option == StackOption::Unsplit;
        let needed = wavelane_run::buffers::needed(scenario);
        let tcp = |kind| stacks::tcp(kind, &scenario.tcp, needed);
        let kind = stack.control.unwrap_or(TcpKind::Cubic);
        let proxy = |node| match stack.option {
            StackOption::Snoop => OnPath::Snoop(stacks::snooped(&shape, shape.settings(node))),
            _ => OnPath::Split(Box::new(stacks::proxy(&shape, kind, shape.settings(node), needed))),
        };
        let proxy: Option<&dyn Fn(_) -> _> = if stack.has_proxies() { Some(&proxy) } else { None };
        let built = match stack.family {
            Family::Tcp => shape.build_plain(seed, &tcp(kind), stack.option == StackOption::Rts, proxy),
            Family::Udp => shape.build_plain(seed, &Config::default(), false, None),
            // Traffic that crosses no gateway uses Linux's default.
            _ => shape.build(seed, &tcp(TcpKind::Cubic)),
        };
        let mut world = built.map_err(|why| BackendError::Failed(why.to_string()))?;
        let flows = add_flows(&shape, scenario, stack, &tcp, &mut world)?;
        let captures = Captures::open(scenario, &mut world, context)?;
        let mut steps: Vec<(Span, Step<'_>)> = scenario.moves.iter().map(|of| (of.back(), Step::Move(of))).collect();
        let changes = scenario.timeline.iter().filter(|change| world.channels.contains_key(&change.channel));
        steps.extend(changes.map(|change| (change.at, Step::Change(change))));
        steps.sort_by_key(|(at, _)| *at);
        let mut steps = steps.into_iter().peekable();
        let end = Instant::ZERO + scenario.duration;
        while world.engine.now() < end && !all_over(&world.engine, &flows) {
            if context.is_cancelled() {
                return Err(BackendError::Cancelled);
            }
            let look = (world.engine.now() + LOOK).min(end);
            while let Some((at, step)) = steps.next_if(|(at, _)| Instant::ZERO + *at <= look) {
                world.engine.run_until((Instant::ZERO + at).max(world.engine.now()));
                match step {
                    Step::Change(change) => apply(&mut world, change)?,
                    Step::Move(of) => shape.arrive(of, stack, &mut world),
                }
            }
            world.engine.run_until(look);
            let at = world.engine.now().since(Instant::ZERO);
            let note = note(scenario, &world.engine, &flows);
            (context.progress)(Progress { stack, seed, at, of: scenario.duration, note });
        }
        let mut raw = collect(&shape, scenario, stack, &world, &flows);
        await_answers(scenario, &mut world, &flows, &mut raw, context)?;
        raw.notes.extend(captures.close()?);
        Captures::log_keys(&mut world, context)?;
        Ok(raw)
    }
}

/// What happens to the world at a time of the run.
enum Step<'a> {
    Change(&'a Change),
    Move(&'a Move),
}

const NO_FETCH: &str = "the simulator has no fetches: run it with --on lab";
const NO_QUIC: &str = "the simulator has no QUIC: run it with --on lab, or use app = \"download\"";

/// What the simulator cannot do for a flow.
fn beyond(flow: &Flow) -> Option<&'static str> {
    match flow {
        Flow { app: App::Fetch { .. }, .. } => Some(NO_FETCH),
        Flow { app: App::Quic { .. }, .. } => Some(NO_QUIC),
        _ => None,
    }
}

fn add_flows(
    shape: &Shape<'_>,
    scenario: &Scenario,
    stack: Stack,
    tcp: &dyn Fn(TcpKind) -> Config,
    world: &mut World,
) -> Result<Vec<FlowIndex>, BackendError> {
    let mut flows = Vec::new();
    for (number, flow) in scenario.flows.iter().enumerate() {
        let refused = |why| BackendError::Unable(format!("flow '{}': {why}", flow.name));
        let at_seam = stack.has_gateways() && shape.at_seam(flow);
        let route = if at_seam { shape.route(&flow.from, &flow.to) } else { shape.plain_route(&flow.from, &flow.to) };
        let route = route.map_err(refused)?;
        let target = if flow.app.is_datagrams() {
            shape.datagram_address(route)
        } else {
            let (node, target) = (world.nodes[&route.server], shape.server_address(route, flow.control));
            match flow.control.filter(|_| !world.engine.is_gateway(node)) {
                Some(kind) => world.engine.listen_with(node, target, tcp(kind)),
                None => world.engine.listen(node, target.into()),
            }
            target.into()
        };
        let spec = FlowSpec {
            node: world.nodes[&route.ingress],
            peer: world.peers.get(&(route.ingress, route.next)).copied().unwrap_or(PeerId(0)),
            source: shape.client_address(route, number),
            target,
            work: work(scenario, flow).map_err(|why| refused(why.to_owned()))?,
            start: Instant::ZERO + flow.start,
            stop: flow.stop.map(|stop| Instant::ZERO + stop),
            source_rate: None,
            reader_pause: None,
        };
        let index = world.engine.add_flow(spec);
        if let Some(kind) = flow.control.filter(|_| !at_seam) {
            world.engine.open_with(index, tcp(kind));
        }
        if flow.category.is_some() || flow.no_ack {
            let category = flow.category.unwrap_or_default();
            world.engine.send_as(index, Handling { category, no_ack: flow.no_ack, ..Handling::default() });
        }
        flows.push(index);
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
            Work::Echo { every: *every, random: false, size: size.get(), during: during.map(FlowIndex) }
        }
        App::Cbr { every, size } => Work::Datagrams(Datagrams::Cbr { every: *every, size: size.get() }),
        App::Saturate { size } => Work::Datagrams(Datagrams::Saturate { size: size.get() }),
        App::Window { size, packets } => Work::Datagrams(Datagrams::Window { size: size.get(), packets: *packets }),
        App::Ping { every, size } => Work::Datagrams(Datagrams::Ping { every: *every, size: size.get() }),
        App::Web(web) => Work::Web((&**web).into()),
        App::Voice(voice) => Work::Datagrams(spurts(&voice.spurts, true)),
        App::OnOff(of) => Work::Datagrams(spurts(of, false)),
        App::Telnet { every, size } => Work::Echo { every: *every, random: true, size: size.get(), during: None },
        App::Fetch { .. } => return Err(NO_FETCH),
        App::Quic { .. } => return Err(NO_QUIC),
    })
}

fn spurts(of: &Spurts, timed: bool) -> Datagrams {
    let Spurts { size, on, off, .. } = *of;
    Datagrams::Spurts { every: of.every(), size: size.get(), on, off, timed }
}

/// The run is over: no question is asked and no body moves any more, but open questions may still be answered.
fn await_answers(
    scenario: &Scenario,
    world: &mut World,
    flows: &[FlowIndex],
    raw: &mut StackRaw,
    context: &RunContext<'_>,
) -> Result<(), BackendError> {
    let end = world.engine.now();
    let waits = |engine: &Engine, flow: &FlowIndex| {
        // A call's datagrams that arrive after its end are not waited for.
        if matches!(scenario.flows[flow.0].app, App::Voice(_)) {
            return false;
        }
        let log = engine.log(*flow);
        let over = match log.end {
            // A ping's answers come without a connection.
            Some((at, FlowEnd::Stopped)) => engine.now() >= at + ECHO_GRACE,
            Some(_) => true,
            None => false,
        };
        !over && log.questions.iter().any(|question| question.answered.is_none())
    };
    if !flows.iter().any(|flow| waits(&world.engine, flow)) {
        return Ok(());
    }
    for flow in flows.iter().filter(|flow| world.engine.log(**flow).end.is_none()).copied().collect::<Vec<_>>() {
        world.engine.stop(flow);
    }
    while world.engine.now() < end + ECHO_GRACE && flows.iter().any(|flow| waits(&world.engine, flow)) {
        if context.is_cancelled() {
            return Err(BackendError::Cancelled);
        }
        world.engine.run_until((world.engine.now() + LOOK).min(end + ECHO_GRACE));
    }
    for ((flow, index), seen) in scenario.flows.iter().zip(flows).zip(&mut raw.flows) {
        seen.probes = self::raw(scenario, flow, world.engine.log(*index), end).probes;
    }
    Ok(())
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
    let offered = scenario.channels.iter().enumerate().filter_map(|(number, channel)| {
        let sides = shape.sends_for_gateways(number);
        let id = *world.channels.get(&channel.name).filter(|_| !sides.is_empty())?;
        let octets = move |way| match world.engine.line(id, way) {
            Some(line) => line.packet_octets,
            None => world.engine.cable(id).counters(way).offered.octets,
        };
        Some(sides.into_iter().map(move |side| WayRaw {
            channel: channel.name.clone(),
            way: ["forward", "reverse"][side],
            octets: octets(cable::Direction::BOTH[side]),
        }))
    });
    let ways: Vec<WayRaw> = offered.flatten().collect();
    let (first, repair) = transmissions(world);
    let of = |node: &NodeId| world.engine.connections(*node).iter().map(|tcp| tcp.counters.timeouts).sum::<u64>();
    let timeouts = world.nodes.values().map(of).sum();
    StackRaw {
        stack,
        flows: scenario.flows.iter().zip(flows).map(|(f, i)| raw(scenario, f, world.engine.log(*i), end)).collect(),
        wire_octets: ways.iter().map(|way| way.octets).sum(),
        ways,
        repair_octets: repair,
        first_octets: first,
        inconclusive: None,
        notes: notes(scenario, world),
        radios: radios(scenario, world),
        lines: lines(scenario, world),
        spent: Spent::default(),
        kernels: Vec::new(),
        packets: packets(world),
        timeouts: Some(timeouts),
    }
}

/// What the packet service of all gateways sent, where it is in use.
fn packets(world: &World) -> Option<PacketsRaw> {
    let gateways = world.nodes.values().filter(|node| world.engine.is_gateway(**node));
    let counters: Vec<_> = gateways.flat_map(|node| world.engine.status(*node).counters).collect();
    let sum = |name: &str| counters.iter().filter(|(found, _)| *found == name).map(|(_, value)| value).sum();
    counters.iter().any(|(name, _)| *name == "packets_sent").then(|| PacketsRaw {
        sent: sum("packets_sent"),
        repeated: sum("packets_repeated"),
        spurious: sum("packets_spurious"),
        compressed: sum("packets_compressed"),
    })
}

/// What the directions of each serial line did.
fn lines(scenario: &Scenario, world: &World) -> Vec<LineRaw> {
    let ids = scenario.channels.iter().filter_map(|channel| Some((channel, *world.channels.get(&channel.name)?)));
    let ways = ids.flat_map(|(channel, id)| {
        cable::Direction::BOTH.into_iter().filter_map(move |way| {
            let tally = world.engine.line(id, way)?;
            Some(LineRaw { channel: channel.name.clone(), way: way.name(), tally })
        })
    });
    ways.collect()
}

/// What the stations of each cell did.
fn radios(scenario: &Scenario, world: &World) -> Vec<RadioRaw> {
    let cells = scenario.channels.iter().filter_map(|channel| {
        let cell = world.engine.cell(*world.channels.get(&channel.name)?)?;
        Some(RadioRaw::of(channel, cell, world.engine.now().since(Instant::ZERO)))
    });
    cells.collect()
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
                "first_octets" => 0,
                "repair_octets" => 1,
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
    let fixed_time = flow.app.is_fixed_time();
    let completed = match how {
        Some(FlowEnd::Complete) => true,
        Some(FlowEnd::Stopped) => fixed_time || flow.app.is_datagrams() || matches!(flow.app, App::Web(_)),
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
    let fetch = |e: &Exchange| Fetch {
        page: e.page,
        connect_ns: nanos(e.connected),
        first_byte_ns: e.first_byte.map(|at| at.since(e.connected).as_nanos()),
        total_ns: e.last_byte.map(|at| at.since(e.connected).as_nanos()),
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
        fetches: log.exchanges.iter().map(fetch).collect(),
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
