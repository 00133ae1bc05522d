//! The shipped daemon as a proxy in one box, on every gateway that a flow's TCP crosses under `tcp-*+split`, `+snoop` and `+mirror`.

use crate::LabError;
use crate::folder::Folder;
use crate::gateways::{daemon, tool};
use crate::program::{self, Ending, GLANCE, Program};
use crate::sockets::rest_until;
use crate::tools;
use crate::topology::Plan;
use crate::world::World;
use core::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use wavelane_base::Span;
use wavelane_host::netns::Netns;
use wavelane_host::realtime;
use wavelane_scenario::{GatewaySettings, NodeKind, ProxySide, Scenario, Stack, StackOption, TcpKind};
use wavelane_settings::{File, SIDE, SideKnobs, TCP, TcpKnobs};

/// Time limit for a proxy to begin.
const READY_WITHIN: Span = Span::from_secs(20);
/// What a proxy says when it takes connections, behind what it does.
const READY: &str = " TCP from ";
const REMEDY: &str = "build it (cargo build) or name it with WAVELANE and WAVELANED";

/// Whose TCP the halves of connections are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProxyEngine {
    Kernel,
    Userspace,
}

/// The running proxies. Dropping them stops them.
pub(crate) struct Proxies {
    programs: Vec<Program>,
    /// Of each its namespace and control socket.
    places: Vec<(Arc<Netns>, PathBuf)>,
    // Dropped after the daemons have ended.
    _folder: Folder,
}

/// The gateways between the ends of flows of TCP; where somebody's own programs run in the place of flows, between any two endpoints.
fn crossed(scenario: &Scenario) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    let flows = scenario.flows.iter().filter(|flow| !flow.app.is_datagrams());
    let mut ways: Vec<(&str, &str)> = flows.map(|flow| (flow.from.as_str(), flow.to.as_str())).collect();
    if scenario.flows.is_empty() {
        let ends = || scenario.nodes.iter().filter(|node| node.kind == NodeKind::Endpoint).map(|n| n.name.as_str());
        ways = ends().flat_map(|from| ends().map(move |to| (from, to))).collect();
    }
    for (from, to) in ways {
        let path = scenario.nodes_of_path(from, to).unwrap_or_default();
        let inner = path.iter().skip(1).take(path.len().saturating_sub(2));
        found.extend(inner.filter(|node| scenario.nodes[**node].kind == NodeKind::Gateway));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Why the lab does not run a stack that splits TCP in one box, if so.
pub(crate) fn review(scenario: &Scenario) -> Result<(), String> {
    let crossed = crossed(scenario);
    if crossed.is_empty() {
        return Err(
            "no TCP crosses a gateway between its ends, so nothing is split: make a node on the way a gateway".into()
        );
    }
    let name = |node: &&usize| scenario.nodes[**node].name.as_str();
    let of = |settings: &&GatewaySettings| crossed.iter().any(|node| name(&node) == settings.node);
    for settings in scenario.gateways.iter().filter(of) {
        let lacking = settings.sides.iter().filter_map(|side| side.tcp.as_ref().and_then(lacking));
        let frozen = settings.sides.iter().filter_map(|side| side.freeze).map(|_| "word of gaps".to_owned());
        if let Some(key) = frozen.chain(lacking).chain(settings.knobs.buffer.map(|_| "buffer".to_owned())).next() {
            let node = &settings.node;
            return Err(format!("the proxy on '{node}' is wavelaned, which has no {key}: run it with --on sim"));
        }
    }
    for (program, found) in [("wavelane", tool()), ("wavelaned", daemon())] {
        if found.is_none() {
            return Err(format!(
                "the program {program} is not beside this one: build it, or name it in {}",
                program.to_uppercase()
            ));
        }
    }
    match tools::find("nft") {
        Some(_) => Ok(()),
        None => Err(format!("the proxies need the program nft: {}", tools::INSTALL_NFT)),
    }
}

/// A knob that no engine of the daemon has.
fn lacking(knobs: &TcpKnobs) -> Option<String> {
    let TcpKnobs { ack_every, ack_delay, quick_acks, initial_window, rto_initial, probe, .. } = knobs.clone();
    let of_own = TcpKnobs { ack_every, ack_delay, quick_acks, initial_window, rto_initial, probe, ..of_kernel(knobs) };
    unknown(&of_own, knobs)
}

/// What of a side's knobs the kernel's TCP has.
fn of_kernel(knobs: &TcpKnobs) -> TcpKnobs {
    let TcpKnobs { segment, window, rto_min, rto_max, .. } = knobs.clone();
    TcpKnobs { segment, window, rto_min, rto_max, ..TcpKnobs::default() }
}

/// A knob of `all` that `has` has not.
fn unknown(has: &TcpKnobs, all: &TcpKnobs) -> Option<String> {
    let has = TCP.turned(File::Scenario, has);
    TCP.turned(File::Scenario, all).into_iter().find(|knob| !has.contains(knob)).map(|(key, _)| key.into_owned())
}

/// The engine of a gateway's proxy: `least` unless a side has knobs that only our own TCP has.
fn engine(settings: Option<&GatewaySettings>, least: ProxyEngine) -> ProxyEngine {
    let needs = |knobs: &TcpKnobs| unknown(&of_kernel(knobs), knobs).is_some();
    let sides = settings.map_or(&[][..], |settings| &settings.sides);
    match sides.iter().filter_map(|side| side.tcp.as_ref()).any(needs) {
        true => ProxyEngine::Userspace,
        false => least,
    }
}

impl Proxies {
    /// Starts them and waits until each takes connections. `stop` is polled every 100 ms and ends the wait.
    pub(crate) fn start(
        scenario: &Scenario,
        world: &World,
        (stack, engine): (Stack, ProxyEngine),
        (out, label): (&Path, &str),
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Self, LabError> {
        let mut started = Self { programs: Vec::new(), places: Vec::new(), _folder: Folder::new()? };
        let logs = program::logs(out)?;
        let missing = || LabError::Topology("the program wavelaned is not beside this one: build it".into());
        for node in crossed(scenario) {
            let name = &scenario.nodes[node].name;
            let file = started._folder.path().join(format!("{name}.toml"));
            let control = started._folder.path().join(format!("{name}.sock"));
            let text = config(scenario, &world.plan, node, (stack, engine), &control);
            std::fs::write(&file, text).map_err(LabError::io(format!("cannot write {}", file.display())))?;
            let log = logs.join(format!("{label}-{name}.log"));
            let mut command = tools::command(daemon().ok_or_else(missing)?);
            command.arg("--config").arg(&file);
            let name = format!("proxy {name}");
            let mut program = Program::start(&world.nodes[node], name, command, log, Ending::Exits, REMEDY)?;
            let deadline = realtime::now() + READY_WITHIN;
            while !program.has_said(READY) {
                program.check()?;
                if stop() {
                    return Err(LabError::Cancelled);
                }
                if realtime::now() > deadline {
                    let said = program.last_line();
                    return Err(LabError::Late(format!("a proxy did not begin within {READY_WITHIN} ({said})")));
                }
                rest_until(realtime::now() + GLANCE, || false);
            }
            started.programs.push(program);
            started.places.push((Arc::clone(&world.nodes[node]), control));
        }
        Ok(started)
    }
    /// Fails if one has exited, with its last output line.
    pub(crate) fn check(&mut self) -> Result<(), LabError> {
        self.programs.iter_mut().try_for_each(Program::check)
    }
    /// User and system time so far, in seconds.
    pub(crate) fn cpu_seconds(&self) -> Option<f64> {
        self.programs.iter().map(Program::cpu_seconds).sum()
    }
    /// Their resident memory, in bytes.
    pub(crate) fn resident(&self) -> Option<u64> {
        self.programs.iter().map(Program::resident).sum()
    }
    /// How long they have waited for a processor so far, in seconds.
    pub(crate) fn waited_seconds(&self) -> Option<f64> {
        self.programs.iter().map(Program::waited_seconds).sum()
    }
    /// What each counted, for the log.
    pub(crate) fn notes(&self) -> Vec<String> {
        let of = |(program, (ns, control)): (&Program, &(Arc<Netns>, PathBuf))| {
            let counted = counters(ns, control).unwrap_or_else(|| "no status at the end".into());
            format!("{}: {counted}", program.name())
        };
        self.programs.iter().zip(&self.places).map(of).collect()
    }
    /// Stops them in order and verifies that they exit by themselves.
    pub(crate) fn stop(mut self) -> Vec<String> {
        program::end(self.programs.drain(..).collect())
    }
}

impl Drop for Proxies {
    fn drop(&mut self) {
        program::end(self.programs.drain(..).collect());
    }
}

/// The counters of a proxy that are not 0.
fn counters(ns: &Netns, control: &Path) -> Option<String> {
    let mut command = Command::new(tool()?);
    command.args(["status", "--json", "--control"]).arg(control);
    let printed = tools::output(ns, command, REMEDY).ok()?.stdout;
    let status: serde_json::Value = serde_json::from_slice(&printed).ok()?;
    let counters = status["counters"].as_array()?.iter();
    let words = counters.filter(|counter| counter["value"].as_u64() > Some(0));
    Some(words.map(|c| format!("{}={}", c["name"].as_str().unwrap_or("?"), c["value"])).collect::<Vec<_>>().join(" "))
}

/// The file of the proxy on a gateway. Everything that crosses it is a target.
fn config(
    scenario: &Scenario,
    plan: &Plan,
    node: usize,
    (stack, least): (Stack, ProxyEngine),
    control: &Path,
) -> String {
    let wires = plan.wires.iter().filter(|wire| wire.end_of(node).is_some());
    let interfaces: Vec<String> = wires.map(|wire| format!("\"{}\"", wire.interface)).collect();
    let name = &scenario.nodes[node].name;
    let knobs = scenario.gateways.iter().find(|knobs| knobs.node == *name);
    let mode = match stack.option {
        StackOption::Mirror => "mirror",
        StackOption::Snoop => "snoop",
        _ => "split",
    };
    let on_kernel = mode == "split" && engine(knobs, least) == ProxyEngine::Kernel;
    let mut text = format!(
        "[proxy]\nname = \"{name}\"\nengine = \"{}\"\nmode = \"{mode}\"\ninterfaces = [{}]\ntargets = [\"0.0.0.0/0\"]\ncontrol = \"{}\"\n",
        if on_kernel { "kernel" } else { "userspace" },
        interfaces.join(", "),
        control.display()
    );
    let sides = knobs.map_or(&[][..], |knobs| &knobs.sides);
    match (stack.option, sides.is_empty()) {
        (StackOption::Mirror, _) => return text,
        (StackOption::Snoop, true) => {
            return text + "[[proxy.side]]\nname = \"all\"\nnetworks = [\"0.0.0.0/0\"]\n";
        }
        (StackOption::Snoop, false) => {
            let networks = sides.iter().flat_map(|side| networks(scenario, plan, side)).collect::<Vec<_>>().join(", ");
            let _ = write!(text, "[[proxy.side]]\nname = \"snooped\"\nnetworks = [{networks}]\n");
            return text;
        }
        _ => {}
    }
    let kind = stack.control.unwrap_or(TcpKind::Cubic);
    for (number, side) in sides.iter().enumerate() {
        text += &side_text(scenario, plan, (number, side), kind);
    }
    let usual = kind.word();
    let rest = if sides.is_empty() { "" } else { "networks = [\"0.0.0.0/0\"]\n" };
    let _ = write!(text, "[[proxy.side]]\nname = \"others\"\n{rest}congestion = \"{usual}\"\n");
    text
}

/// The networks of a side's nodes, as a file has them.
fn networks(scenario: &Scenario, plan: &Plan, side: &ProxySide) -> Vec<String> {
    let of = |name: &String| scenario.nodes.iter().position(|node| node.name == *name);
    let wires =
        side.nodes.iter().filter_map(of).flat_map(|node| plan.wires.iter().filter(move |w| w.end_of(node).is_some()));
    wires.map(|wire| format!("\"{}\"", wire.prefix())).collect()
}

fn side_text(scenario: &Scenario, plan: &Plan, (number, side): (usize, &ProxySide), kind: TcpKind) -> String {
    let networks = networks(scenario, plan, side);
    let tcp = side.tcp.clone().unwrap_or_default();
    let mss = tcp.segment.and_then(|size| u16::try_from(size.get()).ok());
    let congestion = Some(side.congestion.unwrap_or(kind).word().to_owned());
    format!(
        "[[proxy.side]]\nname = \"side{number}\"\nnetworks = [{}]\n{}",
        networks.join(", "),
        SIDE.write(File::Daemon, &SideKnobs { congestion, mss, tcp, ..SideKnobs::default() })
    )
}
