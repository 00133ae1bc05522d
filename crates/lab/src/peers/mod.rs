//! Third-party programs in the gateways' place, under the same channel, seed and traffic.
//!
//! A peer runs on the two gateways of a scenario. It is started and ready before time zero, monitored during the run, and ended with it.
//! Nothing of it outlives the run.

mod forward;
mod kcptun;
mod singbox;
mod wireguard;

use crate::LabError;
use crate::gateways;
use crate::program::{self, Program};
use crate::review::needs_udp;
use crate::tools;
use crate::topology::Wire;
use crate::world::World;
use kcptun::Kcptun;
use singbox::{Singbox, Tunnel};
use std::net::SocketAddr;
use std::path::Path;
use wavelane_scenario::{Family, Flow, Scenario, Stack, StackOption};
use wireguard::Wireguard;

/// A peer program, running. Dropping it stops it.
pub(crate) struct Peers {
    kind: Kind,
    programs: Vec<Program>,
}

enum Kind {
    Kcptun(Kcptun),
    Singbox(Singbox),
    // Holds what must be removed at the end.
    Wireguard(#[expect(dead_code, reason = "removes the tunnels' sockets and keys when dropped")] Wireguard),
}

/// Environment in which a peer's programs are started.
pub(crate) struct Site<'a> {
    scenario: &'a Scenario,
    world: &'a World,
    /// Places of the two gateways.
    pair: [usize; 2],
    /// What is between them.
    wire: Wire,
    /// Folder of their logs.
    logs: std::path::PathBuf,
    /// Prefix of their logs' names.
    label: &'a str,
    /// Congestion control of each node's routes.
    controls: &'a [&'static str],
}

impl Site<'_> {
    /// The gateway's address on the channel between the two.
    fn outside(&self, gateway: usize) -> std::net::Ipv4Addr {
        let wire = &self.wire;
        wire.addresses[wire.end_of(gateway).expect("the channel joins both gateways")]
    }
    /// An address of the gateway that its own side can reach.
    fn inside(&self, gateway: usize) -> std::net::Ipv4Addr {
        self.world.plan.address_of(gateway).expect("a gateway has a channel")
    }
    /// The other gateway.
    fn other(&self, gateway: usize) -> usize {
        if self.pair[0] == gateway { self.pair[1] } else { self.pair[0] }
    }
    fn name(&self, node: usize) -> &str {
        &self.scenario.nodes[node].name
    }
    /// Starts `command` on a gateway.
    fn start(
        &self,
        gateway: usize,
        what: &str,
        command: std::process::Command,
        remedy: &'static str,
    ) -> Result<Program, LabError> {
        let node = self.name(gateway);
        let log = self.logs.join(format!("{}-{node}-{what}.log", self.label));
        let name = format!("{what} on {node}");
        Program::start(&self.world.nodes[gateway], name, command, log, program::Ending::BySignal, remedy)
    }
}

/// Whether `stack` is a peer the lab can run in the gateways' place.
pub(crate) fn is_peer(stack: Stack) -> bool {
    matches!(stack.family, Family::Boringtun | Family::WireguardGo | Family::Kcptun) || tunnel_of(stack).is_some()
}

/// The protocol of a stack that sing-box runs.
fn tunnel_of(stack: Stack) -> Option<Tunnel> {
    match (stack.family, stack.option) {
        (Family::Hysteria2, StackOption::Brutal) => Some(Tunnel::Hysteria2Brutal),
        (Family::Hysteria2, _) => Some(Tunnel::Hysteria2Bbr),
        (Family::Tuic, _) => Some(Tunnel::TuicBbr),
        _ => None,
    }
}

/// Whether the peer `stack` carries only what connects to the ports that it forwards, one per flow.
pub(crate) fn forwards(stack: Stack) -> bool {
    stack.family == Family::Kcptun || tunnel_of(stack).is_some()
}

/// Whether the peer `stack` can run here; if not, why.
pub(crate) fn review(scenario: &Scenario, stack: Stack) -> Result<(), String> {
    let (pair, wire) = gateways::pair(scenario)?;
    let needs_udp = scenario.flows.iter().find(|f| needs_udp(&f.app));
    if let (Some(flow), Family::Kcptun) = (needs_udp, stack.family) {
        return Err(format!(
            "kcptun carries TCP only, and flow {} is {}: take one of the two out",
            flow.name,
            flow.app.word()
        ));
    }
    if tunnel_of(stack) == Some(Tunnel::Hysteria2Brutal) {
        singbox::review_rates(scenario, pair, &scenario.channels[wire.channel])?;
    }
    match stack.family {
        Family::Kcptun => installed(kcptun::PROGRAMS),
        _ if tunnel_of(stack).is_some() => installed(singbox::PROGRAMS),
        _ => wireguard::Program::of(stack).installed(),
    }
}

fn installed(needed: &[(&str, &str)]) -> Result<(), String> {
    match needed.iter().find(|(program, _)| tools::find(program).is_none()) {
        Some((program, remedy)) => Err(format!("the program {program} is missing: {remedy}")),
        None => Ok(()),
    }
}

/// Start parameters of a peer, besides the scenario.
pub(crate) struct Order<'a> {
    /// Which peer.
    pub(crate) stack: Stack,
    /// Per flow of the scenario, where its server listens.
    pub(crate) servers: &'a [SocketAddr],
    /// Congestion control of each node.
    pub(crate) controls: &'a [&'static str],
    /// The Record's folder.
    pub(crate) out: &'a Path,
    /// Prefix of the logs' names.
    pub(crate) label: &'a str,
}

impl Peers {
    /// Starts the peer and waits until it carries traffic. `stop` is polled about every 100 ms and ends the wait.
    pub(crate) fn start(
        scenario: &Scenario,
        world: &World,
        order: &Order<'_>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Self, LabError> {
        let (pair, wire) = gateways::pair(scenario).map_err(LabError::Topology)?;
        let (logs, label, controls) = (program::logs(order.out)?, order.label, order.controls);
        let site = Site { scenario, world, pair, wire, logs, label, controls };
        let mut programs = Vec::new();
        // If a later step fails, programs already started are ended like the rest.
        let kind = match (order.stack.family, tunnel_of(order.stack)) {
            (Family::Kcptun, _) => {
                let profile = if order.stack.option == StackOption::Fast3 { kcptun::FAST3 } else { kcptun::DEFAULT };
                Kcptun::start(&site, profile, order.servers, &mut programs, stop).map(Kind::Kcptun)
            }
            (_, Some(tunnel)) => Singbox::start(&site, tunnel, order.servers, &mut programs, stop).map(Kind::Singbox),
            _ => {
                let program = wireguard::Program::of(order.stack);
                Wireguard::start(&site, program, &mut programs, stop).map(Kind::Wireguard)
            }
        };
        match kind {
            Ok(kind) => Ok(Self { kind, programs }),
            Err(error) => {
                program::end(programs);
                Err(error)
            }
        }
    }

    /// Where the client of a flow connects to reach `server`.
    pub(crate) fn way_to(&self, scenario: &Scenario, flow: &Flow, server: SocketAddr) -> SocketAddr {
        let forwards = match &self.kind {
            Kind::Kcptun(kcptun) => kcptun.forwards(),
            Kind::Singbox(singbox) => singbox.forwards(),
            Kind::Wireguard(_) => return server,
        };
        forwards.way_to(scenario, flow, server)
    }

    /// Fails if one of its programs has exited, with its last output line.
    pub(crate) fn check(&mut self) -> Result<(), LabError> {
        self.programs.iter_mut().try_for_each(Program::check)
    }

    /// Resource use of its programs, for the log.
    pub(crate) fn notes(&self) -> Vec<String> {
        let cost = |p: &Program| p.cpu_seconds().map(|s| format!("{}: {s:.2} s of processor time", p.name()));
        self.programs.iter().filter_map(cost).collect()
    }

    /// User and system time of its programs so far, in seconds.
    pub(crate) fn cpu_seconds(&self) -> Option<f64> {
        self.programs.iter().map(Program::cpu_seconds).sum()
    }

    /// How long its programs have waited for a processor so far, in seconds.
    pub(crate) fn waited_seconds(&self) -> Option<f64> {
        self.programs.iter().map(Program::waited_seconds).sum()
    }

    /// Ends its programs; returns what went wrong.
    pub(crate) fn stop(mut self) -> Vec<String> {
        program::end(std::mem::take(&mut self.programs))
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        program::end(std::mem::take(&mut self.programs));
    }
}

/// The gateway that `flow` passes first, and the next one; `None` if its path does not include both.
fn order_of(scenario: &Scenario, pair: [usize; 2], flow: &Flow) -> Option<[usize; 2]> {
    let mut met = Vec::new();
    let mut here = flow.from.clone();
    let mut meet = |name: &str| {
        let place = scenario.nodes.iter().position(|n| n.name == name);
        met.extend(place.filter(|p| pair.contains(p)));
    };
    meet(&here);
    for (channel, _) in scenario.path(&flow.from, &flow.to)? {
        let [a, b] = channel.between.as_slice() else { continue };
        here = if *a == here { b.clone() } else { a.clone() };
        meet(&here);
    }
    <[usize; 2]>::try_from(met).ok()
}

/// Waits until `ready` returns true; fails when `within` has passed or a program has exited.
fn wait_for(
    what: &str,
    within: wavelane_base::Span,
    programs: &mut [Program],
    stop: &mut dyn FnMut() -> bool,
    ready: &mut dyn FnMut() -> Result<bool, LabError>,
) -> Result<(), LabError> {
    let deadline = wavelane_host::realtime::now() + within;
    loop {
        programs.iter_mut().try_for_each(Program::check)?;
        if ready()? {
            return Ok(());
        }
        if stop() {
            return Err(LabError::Cancelled);
        }
        let now = wavelane_host::realtime::now();
        if now > deadline {
            let said: Vec<String> = programs.iter().map(|p| format!("{}: {}", p.name(), p.last_line())).collect();
            return Err(LabError::Late(format!("{what} within {within} ({})", said.join("; "))));
        }
        crate::sockets::rest_until(now + program::GLANCE, || false);
    }
}

#[cfg(test)]
mod tests;
