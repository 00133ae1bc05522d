//! Which stacks the simulator runs, and the TCP of those that are plain TCP.

use crate::door::ProxyConfig;
use crate::moves;
use crate::wiring::Shape;
use std::net::Ipv4Addr;
use wavelane_base::{Instant, IpPrefix};
use wavelane_run::Treatment;
use wavelane_scenario::{Direction, Family, GatewaySettings, Scenario, Stack, StackOption, TcpKind};
use wavelane_settings::{TcpKnobs, TcpProfile};
use wavelane_tcp::{Config, CongestionControl};

/// What becomes of a stack.
pub(crate) fn treatment(scenario: &Scenario, stack: Stack) -> Treatment {
    let has_datagrams = scenario.flows.iter().any(|f| f.app.is_datagrams());
    let shape = Shape::new(scenario);
    let only_datagrams = scenario.flows.iter().all(|f| f.app.is_datagrams());
    if let Some(why) = moves::refusal(scenario, stack) {
        return Treatment::Omitted(why);
    }
    let why = match (stack.family, stack.option) {
        _ if stack.runs_nowhere() => "it runs nowhere yet: take it out of `stacks`",
        (Family::Wavelane | Family::Hop2009, StackOption::None) if has_datagrams => {
            "the simulated gateways carry streams only: use a tcp-* stack or udp"
        }
        (Family::Wavelane | Family::Hop2009, _) if scenario.flows.iter().all(|flow| shape.is_plain(flow)) => {
            let why = "no flow crosses a gateway, so it changes nothing and every flow is plain TCP: make nodes on the way gateways";
            let alone = scenario.stacks.len() == 1;
            return if alone { Treatment::Approximated(why.into()) } else { Treatment::Omitted(why.into()) };
        }
        (Family::Wavelane, StackOption::Unsplit) => match shape.why_split() {
            Some(why) => return Treatment::Omitted(why),
            None => return Treatment::Imposed,
        },
        (Family::Wavelane | Family::Hop2009, _) => return Treatment::Imposed,
        (Family::Tcp, StackOption::Rts) if !scenario.has_rts() => {
            "RTS/CTS needs a channel of kind wifi other than WaveLAN: add one or drop '+rts'"
        }
        (Family::Tcp, _) if scenario.tcp.profile == Some(TcpProfile::Ns3) && stack.control != Some(TcpKind::Reno) => {
            "[tcp] profile = \"ns3-3.44\" is NewReno: use the stack tcp-reno, or another profile"
        }
        (Family::Tcp, StackOption::Mirror) => {
            "a mirror costs processor time alone, and the simulator's nodes take none: run it with --on lab"
        }
        (Family::Tcp, _) if !stack.has_proxies() => return Treatment::Imposed,
        (Family::Tcp, _) => match shape.unsplittable() {
            Some(why) => return Treatment::Omitted(why),
            None => return Treatment::Imposed,
        },
        (Family::Udp, _) if only_datagrams => return Treatment::Imposed,
        (Family::Udp, _) => "without a transport only the apps cbr, saturate, window and ping run: use a tcp-* stack",
        (Family::Mptcp, _) => "Multipath TCP is the kernel's alone: run it with --on lab",
        _ => "it is an external program, which cannot run in virtual time: run it with --on lab",
    };
    Treatment::Omitted(why.to_owned())
}

/// The TCP of a `tcp-*` stack with the scenario's knobs turned. Buffers that no knob sets are the defaults, or `needed` if
/// that is more; without scaling there is no more.
pub(crate) fn tcp(kind: TcpKind, knobs: &TcpKnobs, needed: usize) -> Config {
    let config = match (kind, knobs.profile) {
        (_, Some(TcpProfile::Ns3)) => Config::ns3_3_44(),
        (TcpKind::Reno, _) => Config::linux(CongestionControl::NewReno),
        (TcpKind::Cubic, _) => Config::linux(CongestionControl::Cubic),
        (TcpKind::Bbr, _) => Config::linux(CongestionControl::Bbr),
        (TcpKind::Bbr3, _) => Config::linux(CongestionControl::Bbr3),
        (TcpKind::Y2001, _) => Config::tcp_2001(),
    };
    let needed = if config.window_scale { needed } else { 0 };
    Config {
        // As the laboratory's programs do (TCP_NODELAY): Nagle would hold each echo until the one before is answered.
        nagle: false,
        receive_buffer: config.receive_buffer.max(needed),
        send_buffer: config.send_buffer.max(needed),
        // A program that always has more to write fills any buffer; the larger one is for data in flight.
        unsent_low_water: (knobs.send_buffer.is_none() && needed > config.send_buffer).then_some(config.send_buffer),
        ..config
    }
    .turned(knobs)
}

/// The outages of a node's channels, as the file has them from the start.
fn gaps(scenario: &Scenario, node: &str) -> Vec<(Instant, Instant)> {
    let own = scenario.channels.iter().filter(|channel| channel.between.iter().any(|end| end == node));
    let ways = own.flat_map(|channel| [Direction::Forward, Direction::Reverse].map(|way| channel.direction(way)));
    let mut all: Vec<(Instant, Instant)> = ways.flatten().flat_map(|way| way.outages.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// To whom a proxy that snoops sends again what is lost: the nodes of a gateway's sides, without any all.
pub(crate) fn snooped(shape: &Shape<'_>, settings: Option<&GatewaySettings>) -> Vec<IpPrefix> {
    let sides = settings.map_or(&[][..], |settings| &settings.sides);
    let nodes = sides.iter().flat_map(|side| &side.nodes).filter_map(|name| shape.node(name));
    match sides.is_empty() {
        true => vec![IpPrefix { address: Ipv4Addr::UNSPECIFIED.into(), bits: 0 }],
        false => nodes.map(|node| shape.prefix(node)).collect(),
    }
}

/// The proxy on a gateway with these knobs, if it has any, under a stack that splits TCP with `kind`.
pub(crate) fn proxy(
    shape: &Shape<'_>,
    kind: TcpKind,
    settings: Option<&GatewaySettings>,
    needed: usize,
) -> ProxyConfig {
    let of_endpoints = &shape.scenario.tcp;
    let mut config = ProxyConfig::new(tcp(kind, of_endpoints, needed));
    let Some(settings) = settings else { return config };
    if let Some(buffer) = settings.knobs.buffer {
        config.pair.room = usize::try_from(buffer.get()).unwrap_or(usize::MAX);
    }
    for side in &settings.sides {
        let of_side = tcp(side.congestion.unwrap_or(kind), side.tcp.as_ref().unwrap_or(of_endpoints), needed);
        let of_side = Config { freeze: side.freeze, ..of_side };
        let nodes = side.nodes.iter().filter_map(|name| shape.node(name));
        config.towards.extend(nodes.map(|node| (shape.prefix(node), of_side.clone())));
    }
    if settings.sides.iter().any(|side| side.freeze.is_some()) {
        config.gaps = gaps(shape.scenario, &settings.node);
    }
    config
}
