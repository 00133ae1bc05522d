//! Running a plan, and what must hold of it.

use super::{AFTERMATH, HEALING, Plan};
use crate::faults::NodeFaults;
use crate::mesh::Mesh;
use crate::traffic::{FlowEnd, FlowIndex, FlowSpec, Work};
use wavelane_base::{Instant, Octets, Rate, Ratio, Seed, Span};
use wavelane_channel::cable::Direction;
use wavelane_channel::{LossConfig, Parameter, QueueLimit, Reorder};
use wavelane_gateway::{GatewayEvent, Reason};

/// How often bounds are checked.
const LOOK: Span = Span::from_millis(500);
/// How long echoes ask.
const ECHO_FOR: Span = Span::from_secs(8);
/// How long after the healing a last flow begins: a path that led nowhere before is tried again by then.
const REUNION: Span = Span::from_secs(5);
/// Bytes of that flow.
const REUNION_SIZE: u64 = 50_000;
/// What a gateway may hold of a flow beyond its pool: the floors of both directions and of what an edge keeps.
const FLOOR: u64 = (4 + 4 + 16) << 10;

/// What became of a plan's flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Flows that ended with everything they asked for.
    pub complete: u64,
    /// Flows that were not opened.
    pub refused: u64,
    /// Flows reset after a gateway at an end forgot them.
    pub reset: u64,
    /// Flows that were reset or refused, or crawled on, because only the liar connects their ends.
    pub deceived: u64,
    /// Times that an edge detected a lie.
    pub caught: u64,
    /// Times that an edge took a flow up again.
    pub resumed: u64,
    /// Times that a flow left a path for another.
    pub moved: u64,
    /// From the later of the healing and the last reader's pause to the last flow's end.
    pub longest: Span,
    /// Simulated time.
    pub simulated: Span,
}

/// One flow of the run.
struct Running {
    index: FlowIndex,
    from: usize,
    to: usize,
    size: Option<u64>,
    start: Instant,
}

impl Running {
    /// Whether a path joins its ends that does not lead over a liar.
    fn is_honest(&self, plan: &Plan) -> bool {
        plan.liar.is_none() || plan.relays(self.from, self.to, true).is_some()
    }
}

/// Runs it; the first thing that is wrong.
pub(super) fn judge(plan: &Plan) -> Result<Outcome, String> {
    let run = std::panic::AssertUnwindSafe(|| run(plan));
    std::panic::catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

fn run(plan: &Plan) -> Result<Outcome, String> {
    let mut mesh = Mesh::new(Seed(plan.seed), &plan.mesh);
    if let Some((node, lie)) = plan.liar {
        mesh.engine.set_faults(mesh.nodes[node], NodeFaults { lie: Some(lie), ..NodeFaults::default() });
    }
    let mut flows = Vec::new();
    for flow in &plan.flows {
        let Some(spec) = mesh.flow(flow.from, flow.to, flow.work, flow.start) else { continue };
        let echo = matches!(flow.work, Work::Echo { .. });
        let stop = echo.then(|| flow.start + ECHO_FOR);
        let index = mesh.engine.add_flow(FlowSpec { stop, reader_pause: flow.pause, ..spec });
        let size = match flow.work {
            Work::Download(size) | Work::Upload(size) => size,
            Work::Echo { .. } | Work::Datagrams(_) | Work::Web(_) => None,
        };
        flows.push(Running { index, from: flow.from, to: flow.to, size, start: flow.start });
    }
    let mut crashes = plan.crashes.iter().peekable();
    while mesh.engine.now() < plan.healed {
        let look = (mesh.engine.now() + LOOK).min(plan.healed);
        while let Some(crash) = crashes.next_if(|crash| crash.at <= look) {
            mesh.engine.run_until(crash.at.max(mesh.engine.now()));
            mesh.engine.restart(mesh.nodes[crash.node]);
        }
        mesh.engine.run_until(look);
        check_bounds(plan, &mesh, &flows)?;
    }
    heal(&mut mesh);
    let late = last_flow(plan, &mut mesh);
    flows.extend(late);
    let freed = plan.last_pause().map_or(plan.healed, |pause| pause.max(plan.healed));
    let open = |mesh: &Mesh| flows.iter().any(|flow| mesh.engine.log(flow.index).end.is_none());
    while open(&mesh) {
        if mesh.engine.now() >= freed + HEALING {
            // What only the liar connects may get through it, octet by octet.
            let crawls = |flow: &&Running| {
                !flow.is_honest(plan) && mesh.engine.log(flow.index).last_byte.is_some_and(|at| at > freed)
            };
            let names: Vec<String> = flows.iter().filter(|f| !crawls(f)).filter_map(|f| stuck(&mesh, f)).collect();
            if names.is_empty() {
                break;
            }
            return Err(format!("{HEALING} after the healing not over: {}", names.join("; ")));
        }
        mesh.engine.run_until(mesh.engine.now() + LOOK);
        check_bounds(plan, &mesh, &flows)?;
    }
    check_ends(plan, &mesh, &flows, freed)
}

fn stuck(mesh: &Mesh, flow: &Running) -> Option<String> {
    let log = mesh.engine.log(flow.index);
    let Running { index, from, to, size, .. } = flow;
    log.end.is_none().then(|| {
        format!(
            "flow {} from {from} to {to}, {} of {size:?} bytes, accepted {:?}, last byte {:?}",
            index.0, log.octets, log.accepted, log.last_byte
        )
    })
}

/// After the healing, between the ends of the first flow.
fn last_flow(plan: &Plan, mesh: &mut Mesh) -> Option<Running> {
    let (first, start) = (plan.flows.first()?, plan.healed + REUNION);
    let spec = mesh.flow(first.from, first.to, Work::Download(Some(REUNION_SIZE)), start)?;
    let index = mesh.engine.add_flow(spec);
    Some(Running { index, from: first.from, to: first.to, size: Some(REUNION_SIZE), start })
}

/// What holds at any moment: what was read is what was written, in order and once, and memory is bounded.
fn check_bounds(plan: &Plan, mesh: &Mesh, flows: &[Running]) -> Result<(), String> {
    for flow in flows {
        let log = mesh.engine.log(flow.index);
        let wrong = |what: &str| Err(format!("flow {}: {what}; {} bytes, end {:?}", flow.index.0, log.octets, log.end));
        if let Some(damage) = log.damage {
            return wrong(&format!("a wrong byte: {damage:?}"));
        }
        if flow.size.is_some_and(|size| log.octets > size) {
            return wrong("more bytes than were sent");
        }
        if matches!(log.end, Some((_, FlowEnd::Truncated))) {
            return wrong("ended as if complete");
        }
        if matches!(log.end, Some((_, FlowEnd::Complete))) && flow.size.is_some_and(|size| log.octets != size) {
            return wrong("complete without all its bytes");
        }
    }
    let pool = plan.mesh.pool.get();
    let most = pool + pool / 2 + FLOOR * (flows.len() as u64 + 1);
    for (number, node) in mesh.nodes.iter().enumerate() {
        let status = mesh.engine.status(*node);
        if status.buffered > most {
            return Err(format!("gateway {number} holds {} bytes, its bound is {most}", status.buffered));
        }
        if status.flows > plan.mesh.flows_max {
            return Err(format!("gateway {number} has {} flows, its limit is {}", status.flows, plan.mesh.flows_max));
        }
    }
    Ok(())
}

fn check_ends(plan: &Plan, mesh: &Mesh, flows: &[Running], freed: Instant) -> Result<Outcome, String> {
    let mut outcome = Outcome { simulated: mesh.engine.now().since(Instant::ZERO), ..Outcome::default() };
    for flow in flows {
        let log = mesh.engine.log(flow.index);
        let Some((at, how)) = log.end else {
            outcome.deceived += 1;
            continue;
        };
        let honest = flow.is_honest(plan);
        outcome.longest = outcome.longest.max(at.since(freed));
        // A gateway at either end that lost its memory lost the flow.
        let forgotten = plan.crashes.iter().any(|crash| {
            [flow.from, flow.to].contains(&crash.node) && crash.at <= at && crash.at + Span::from_secs(1) >= flow.start
        });
        let full = plan.mesh.flows_max < 64;
        match how {
            FlowEnd::Complete => outcome.complete += 1,
            FlowEnd::Reset(_) if forgotten => outcome.reset += 1,
            FlowEnd::Reset(_) | FlowEnd::Refused(Some(_)) if !honest => outcome.deceived += 1,
            FlowEnd::Refused(_) if forgotten => outcome.refused += 1,
            FlowEnd::Refused(Some(Reason::NoRoom)) if full => outcome.refused += 1,
            FlowEnd::Refused(Some(_)) if log.accepted.is_none() && is_disturbed(plan, mesh, flow.start, at) => {
                outcome.refused += 1;
            }
            _ => {
                return Err(format!(
                    "flow {} from {} to {} ended at {at:?} as {how:?} although its ends remember it; {} of {:?} bytes",
                    flow.index.0, flow.from, flow.to, log.octets, flow.size
                ));
            }
        }
    }
    for node in 0..mesh.nodes.len() {
        outcome.resumed += mesh.count(node, "flows_resumed");
        outcome.moved += mesh.count(node, "flows_moved");
        let found = ["dropped_parcels_foreign", "dropped_words_forged", "flows_withheld"];
        outcome.caught += found.iter().map(|name| mesh.count(node, name)).sum::<u64>();
    }
    Ok(outcome)
}

/// Whether there may have been no path for a flow that began at `start` and was told so at `at`: something was cut or
/// forgotten, or neighbours heard nothing of each other over a bad link for so long that it counted as down.
fn is_disturbed(plan: &Plan, mesh: &Mesh, start: Instant, at: Instant) -> bool {
    let recent = |when: &Instant| *when <= at && *when + AFTERMATH >= start;
    let events = mesh.nodes.iter().flat_map(|node| mesh.engine.peer_events(*node));
    let down = |(when, event): &(Instant, GatewayEvent)| matches!(event, GatewayEvent::PeerDown(_)) && recent(when);
    plan.is_disturbed(start, at) || events.into_iter().any(down)
}

/// Every cable becomes an ordinary one.
fn heal(mesh: &mut Mesh) {
    let parameters = [
        Parameter::Rate(Some(Rate::from_bps(20_000_000))),
        Parameter::Delay(Span::from_millis(10)),
        Parameter::Jitter(Span::ZERO),
        Parameter::Queue(QueueLimit::Octets(Octets::new(250_000))),
        Parameter::Loss(LossConfig::None),
        Parameter::Duplicate(Ratio::ZERO),
        Parameter::Corrupt(Ratio::ZERO),
        Parameter::Reorder(Reorder::default()),
        Parameter::Outages(Vec::new()),
    ];
    for &link in &mesh.links {
        for parameter in &parameters {
            for way in Direction::BOTH {
                if let Err(why) = mesh.engine.set(link, way, parameter.clone()) {
                    panic!("a cable cannot be healed: {why}");
                }
            }
        }
    }
}
