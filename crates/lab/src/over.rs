//! Somebody's own programs over a scenario's channels, in the place of its flows.

use crate::program::{self, Ending, GLANCE, Program};
use crate::run::Run;
use crate::sockets::rest_until;
use crate::topology::Plan;
use crate::world::World;
use crate::{LabError, peers, review};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, OnceLock};
use wavelane_base::{Seed, Span};
use wavelane_host::netns::{ChildEnd, Netns};
use wavelane_host::{is_root, own_user, realtime};
use wavelane_run::{Backend, BackendError, Review, RunContext, StackRaw, Treatment};
use wavelane_scenario::{Scenario, Stack};

/// Time for a program beside to listen; one that serves no port is then taken for ready.
const LISTENS_WITHIN: Span = Span::from_secs(5);
/// Time limit for the program to exit when the run is ended.
const END_WITHIN: Span = Span::from_secs(5);

/// What to run where.
#[derive(Clone, Debug)]
pub struct Order {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The node it runs on.
    pub node: String,
    /// Programs beside it, each for the shell of a node: `(node, command)`. They are started before and ended after.
    pub beside: Vec<(String, String)>,
    /// Tells the user a line.
    pub tell: fn(&str),
}

/// The lab with an [`Order`] in the place of the scenario's flows.
pub struct OverBackend {
    order: Order,
    status: Arc<OnceLock<ExitStatus>>,
}

impl OverBackend {
    /// `status` gets the program's end.
    pub fn new(order: Order, status: Arc<OnceLock<ExitStatus>>) -> Self {
        Self { order, status }
    }
}

/// The nodes' names and addresses, in the form of hosts(5).
fn hosts(scenario: &Scenario) -> Result<String, LabError> {
    let plan = Plan::of(scenario)?;
    let mut text = "127.0.0.1 localhost\n".to_owned();
    for (place, node) in scenario.nodes.iter().enumerate() {
        if let Some(address) = plan.address_of(place) {
            writeln!(text, "{address} {}", node.name).expect("writing to a string cannot fail");
        }
    }
    Ok(text)
}

/// Gives this process namespaces of its own, so that no root is needed and only what it starts sees the nodes' names. Call it before other
/// threads exist.
pub fn seclude(scenario: &Scenario) -> Result<(), LabError> {
    let hosts = hosts(scenario)?;
    if !is_root() {
        own_user::enter().map_err(LabError::io(
            "cannot make a user namespace; allow it (sysctl kernel.unprivileged_userns_clone=1; Ubuntu: sysctl \
             kernel.apparmor_restrict_unprivileged_userns=0; Docker: --security-opt seccomp=unconfined) or run this as root",
        ))?;
    }
    let draft = std::env::temp_dir().join(format!("wavelane-hosts-{}", std::process::id()));
    own_user::hosts(&hosts, &draft).map_err(LabError::io(
        "cannot show the nodes' names in /etc/hosts: is there such a file, and a writable TMPDIR?",
    ))
}

impl Backend for OverBackend {
    fn name(&self) -> &'static str {
        "lab"
    }

    fn review(&self, scenario: &Scenario) -> Review {
        let mut found = Review::default();
        review::machine(scenario, &mut found);
        review::channels(scenario, &mut found);
        let nodes = self.order.beside.iter().map(|(node, _)| node).chain([&self.order.node]);
        for node in nodes {
            if scenario.nodes.iter().all(|n| n.name != *node) {
                let names: Vec<&str> = scenario.nodes.iter().map(|n| n.name.as_str()).collect();
                let why = format!("the scenario has no node '{node}': it has {}", names.join(", "));
                found.clause("nodes", Treatment::Refused(why));
            }
        }
        for stack in &scenario.stacks {
            let reviewed = if peers::forwards(*stack) {
                // Its programs would run idle beside the endpoints' own TCP.
                Err("it carries only what connects to its own ports, and a program connects to a node's: use a tunnel, such as wireguard-go"
                    .to_owned())
            } else {
                review::stack(scenario, *stack)
            };
            found.stack(*stack, reviewed.map_or_else(Treatment::Refused, |()| Treatment::Imposed));
        }
        found
    }

    fn run_stack(
        &mut self,
        scenario: &Scenario,
        stack: Stack,
        seed: Seed,
        context: &mut RunContext<'_>,
    ) -> Result<StackRaw, BackendError> {
        let (raw, status) = Run::prepare(scenario, stack, seed, context)?.over(&self.order, context)?;
        // One run is one stack and one seed.
        let _ = self.status.set(status);
        Ok(raw)
    }
}

/// The namespace of the node called `name`.
pub(crate) fn node<'a>(scenario: &Scenario, world: &'a World, name: &str) -> Result<&'a Netns, LabError> {
    let place = scenario.nodes.iter().position(|n| n.name == name);
    place.map(|place| &*world.nodes[place]).ok_or_else(|| LabError::Topology(format!("there is no node '{name}'")))
}

/// Starts the programs beside, and waits until each serves a port.
pub(crate) fn start_beside(
    order: &Order,
    scenario: &Scenario,
    world: &World,
    out: &Path,
    stop: impl Fn() -> bool,
) -> Result<Vec<Program>, LabError> {
    let logs = program::logs(out)?;
    let mut programs = Vec::new();
    for (i, (name, line)) in order.beside.iter().enumerate() {
        let ns = node(scenario, world, name)?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]);
        let log = logs.join(format!("{name}-{i}.log"));
        let title = format!("'{line}' on {name}");
        let mut program = Program::start(ns, title, command, log, Ending::BySignal, "install a shell")?;
        let deadline = realtime::now() + LISTENS_WITHIN;
        while !listens(ns)? && !stop() {
            if realtime::now() >= deadline {
                (order.tell)(&format!("{name}: nothing listens after {LISTENS_WITHIN}, going on"));
                break;
            }
            program.check()?;
            rest_until(realtime::now() + GLANCE, &stop);
        }
        programs.push(program);
    }
    Ok(programs)
}

/// Whether a TCP socket listens or a UDP socket is bound in `ns` (proc_net_tcp: states 0A and 07).
fn listens(ns: &Netns) -> Result<bool, LabError> {
    let found = ns.run(|| {
        let has = |table: &str, state: &str| {
            let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
            text.lines().skip(1).any(|line| line.split_whitespace().nth(3) == Some(state))
        };
        has("tcp", "0A") || has("tcp6", "0A") || has("udp", "07")
    })?;
    Ok(found)
}

/// Starts the program itself, with this process's terminal and files.
pub(crate) fn start_in_front(order: &Order, ns: &Netns) -> Result<Child, LabError> {
    let [program, arguments @ ..] = &order.command[..] else {
        return Err(LabError::Topology("there is no program to run".into()));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let cannot = |error| LabError::Program {
        program: program.to_string_lossy().into_owned(),
        error,
        remedy: "name a program of this machine after `--`",
    };
    ns.spawn_in_front(command, ChildEnd::Terminate)?.map_err(cannot)
}

/// Ends the program, which may have had the same Ctrl-C.
pub(crate) fn end_in_front(mut child: Child) {
    let _ = wavelane_host::netns::terminate(&child);
    let deadline = realtime::now() + END_WITHIN;
    while matches!(child.try_wait(), Ok(None)) && realtime::now() < deadline {
        rest_until(realtime::now() + Span::from_millis(10), || false);
    }
    // It may have exited by itself.
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn stacks_that_would_carry_nothing_of_a_program_are_refused() {
        let text = r#"
title = "t"
duration = "1 s"
stacks = ["kcptun", "kcptun-fast3", "hysteria2-bbr", "hysteria2-brutal", "tuic-bbr", "wireguard-go", "boringtun-bbr", "tcp-cubic"]
nodes = { c = "endpoint", a = "gateway", b = "gateway", s = "endpoint" }
channels.air = { preset = "ethernet", between = ["a", "b"] }
channels.near = { preset = "ethernet", between = ["c", "a"] }
channels.far = { preset = "ethernet", between = ["b", "s"] }
flows.one = { app = "download", from = "c", to = "s" }
"#;
        let mut scenario = Scenario::parse(text, Path::new(".")).unwrap();
        scenario.flows.clear();
        let order = Order { command: vec!["true".into()], node: "c".into(), beside: Vec::new(), tell: |_| () };
        let found = OverBackend::new(order, Arc::default()).review(&scenario);
        let refused = |word: &str| {
            let of_stack = found.stacks.iter().find(|(stack, _)| stack.word() == word);
            matches!(of_stack, Some((_, Treatment::Refused(why))) if why.contains("only what connects to its own ports"))
        };
        let idle: Vec<&str> = scenario.stacks.iter().map(|stack| stack.word()).filter(|word| refused(word)).collect();
        assert_eq!(idle, ["kcptun", "kcptun-fast3", "hysteria2-bbr", "hysteria2-brutal", "tuic-bbr"]);
    }
}
