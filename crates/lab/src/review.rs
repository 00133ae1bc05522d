//! Which parts of a scenario the lab can run on this machine.

use crate::cell;
use crate::echo;
use crate::gateways::{self, Services};
use crate::kernel;
use crate::mesh;
use crate::mobility;
use crate::mptcp;
use crate::peers;
use crate::proxies;
use crate::tools::{self, INSTALL_CURL, INSTALL_IP, INSTALL_NFT};
use crate::topology::Plan;
use crate::world::{self, first_stage, is_veth};
use wavelane_channel::wifi::WifiConfig;
use wavelane_host::netns::may_administer_network;
use wavelane_host::tun;
use wavelane_run::{Review, Treatment};
use wavelane_scenario::{App, Channel, ChannelKind, Family, NodeKind, Scenario, Stack, StackOption, TcpKind};
use wavelane_settings::RadioLanes;

/// Requirements on the machine.
pub(crate) fn machine(scenario: &Scenario, review: &mut Review) {
    let mut need = |clause: &str, why: String| review.clause(clause, Treatment::Refused(why));
    if !may_administer_network() {
        need("lab", "network namespaces need CAP_NET_ADMIN and CAP_SYS_ADMIN: run as root or with sudo".into());
    }
    if tools::find("ip").is_none() {
        need("lab", format!("the program ip is missing: {INSTALL_IP}"));
    }
    let emulated = scenario.channels.iter().any(|c| !is_veth(scenario, c));
    if emulated && !std::path::Path::new(tun::TUN_CONTROL).exists() {
        need("lab", format!("{} is missing: load the tun module (modprobe tun)", tun::TUN_CONTROL));
    }
    let by_curl = |f: &wavelane_scenario::Flow| matches!(f.app, App::Download { .. } | App::Upload { .. });
    if scenario.flows.iter().any(by_curl) && tools::find("curl").is_none() {
        need("flows", format!("downloads and uploads need the program curl: {INSTALL_CURL}"));
    }
}

pub(crate) fn channels(scenario: &Scenario, review: &mut Review) {
    for channel in &scenario.channels {
        let clause = format!("channels.{}", channel.name);
        let treatment = if (0..2).any(|end| first_stage(scenario, channel, end).is_some()) {
            Treatment::Approximated(
                "the first stage of its queue is the ring of a TUN device, which drops when it is full, where a card's driver \
                 would stop the queue above it"
                    .into(),
            )
        } else if let ChannelKind::Serial(_) = channel.kind {
            Treatment::Approximated(
                "the shipped daemon at pseudo-terminals, whose queue is its own (FQ-CoDel) and whose octets come within a millisecond".into(),
            )
        } else if let Some(cell) = channel.cell() {
            of_cell(scenario, channel, cell)
        } else if is_veth(scenario, channel) {
            Treatment::Approximated(
                "a veth pair without offloads, to spare the processor: no limit of 1 Gbit/s and no 0.05 ms delay"
                    .into(),
            )
        } else {
            Treatment::Imposed
        };
        review.clause(clause, treatment);
    }
    let has_lines = scenario.channels.iter().any(|channel| matches!(channel.kind, ChannelKind::Serial(_)));
    if has_lines && (gateways::tool().is_none() || gateways::daemon().is_none()) {
        let why = "serial lines need the programs wavelane and wavelaned, which are not beside this one: build them, or name them in WAVELANE and WAVELANED";
        review.clause("channels", Treatment::Refused(why.into()));
    }
    if let Err(error) = Plan::of(scenario) {
        review.clause("channels", Treatment::Refused(error.to_string()));
    }
}

/// What lanes in cells do under a stack, where nothing is said.
pub(crate) fn radio_of(stack: Stack) -> RadioLanes {
    if stack.family == Family::Hop2009 { RadioLanes::Raw } else { RadioLanes::Paced }
}

/// What becomes of a radio cell.
fn of_cell(scenario: &Scenario, channel: &Channel, cell: &WifiConfig) -> Treatment {
    let mut parts = Vec::new();
    if !cell.captures.is_empty() {
        parts.push("captures are of packets at each station's devices, not of frames on the air");
    }
    let kind = |name: &String| scenario.nodes.iter().find(|node| node.name == *name).map(|node| node.kind);
    let gateways = channel.between.iter().filter(|name| kind(name) == Some(NodeKind::Gateway)).count();
    if gateways > 1 && scenario.stacks.iter().any(|stack| stack.has_gateways()) {
        parts.push(if world::may_queue() {
            "of bulk every frame is acknowledged, or with radio = \"raw\" none: which one begins a burst is known to the driver alone"
        } else {
            "without CAP_MKNOD there are no radio lanes, so lanes there are as on cables (radio = \"plain\")"
        });
    }
    if parts.is_empty() { Treatment::Imposed } else { Treatment::Approximated(parts.join("; ")) }
}

pub(crate) fn flows(scenario: &Scenario, review: &mut Review) {
    let plan = Plan::of(scenario);
    let in_cell = scenario.channels.iter().any(|channel| channel.cell().is_some());
    let place = |name: &str| scenario.nodes.iter().position(|n| n.name == name);
    for flow in &scenario.flows {
        let clause = format!("flows.{}", flow.name);
        let ends = (place(&flow.from), place(&flow.to), &plan);
        let conflict = scenario.stacks.iter().find_map(|stack| controls(scenario, *stack).err());
        let treatment = match (&flow.app, ends) {
            _ if flow.control.is_some() && conflict.is_some() => Treatment::Refused(conflict.unwrap_or_default()),
            (_, (Some(from), Some(to), Ok(plan))) if from == to || !plan.reaches(from, to) => {
                Treatment::Refused(format!("no channels lead from {} to {}: add one", flow.from, flow.to))
            }
            (App::Echo { size, .. }, _) if !(echo::PROBE_MIN..=echo::PROBE_MAX).contains(&size.get()) => {
                Treatment::Refused(format!("an echo of {} B: choose 8 to 65536", size.get()))
            }
            (App::Telnet { size, .. }, _) if size.get() > echo::PROBE_MAX => {
                Treatment::Refused(format!("keystrokes of {} B: choose 1 to 65536", size.get()))
            }
            _ if in_cell && let Some(why) = cell::confused(scenario, flow) => Treatment::Refused(why),
            (App::Saturate { .. }, _) => Treatment::Approximated(
                "it offers its radio's rate, so that datagrams always wait; those that its queue has no room for are dropped there"
                    .into(),
            ),
            _ => Treatment::Imposed,
        };
        review.clause(clause, treatment);
    }
    for settings in &scenario.gateways {
        let refused = mesh::refusal(&settings.knobs).map(Treatment::Refused);
        review.clause(format!("gateways.{}", settings.node), refused.unwrap_or(Treatment::Imposed));
    }
    if let Some(treatment) = kernel::treatment(&scenario.tcp) {
        review.clause("tcp", treatment);
    }
}

/// Whether the lab can run `stack` here; if not, why.
pub(crate) fn stack(scenario: &Scenario, stack: Stack) -> Result<(), String> {
    if stack.runs_nowhere() {
        return Err("it runs nowhere yet: take it out of `stacks`".into());
    }
    if let Some(what) = beyond_kernels(stack) {
        return Err(format!("the kernel has no {what}: run it with --on sim"));
    }
    mobility::review(scenario, stack)?;
    for control in controls(scenario, stack)? {
        kernel_has(control)?;
    }
    match stack.family {
        Family::Tcp if stack.option == StackOption::Rts && !scenario.has_rts() => {
            Err("RTS/CTS needs a channel of kind wifi other than WaveLAN: add one or drop '+rts'".into())
        }
        Family::Tcp if stack.has_proxies() => proxies::review(scenario),
        Family::Tcp => Ok(()),
        Family::Wavelane | Family::Hop2009 => {
            if Services::of(scenario, stack).tun && !std::path::Path::new(tun::TUN_CONTROL).exists() {
                return Err(format!("{} is missing: load the tun module (modprobe tun)", tun::TUN_CONTROL));
            }
            gateways::links(scenario, Services::of(scenario, stack))?;
            if tools::find("nft").is_none() {
                return Err(format!("the gateways need the program nft: {INSTALL_NFT}"));
            }
            match (gateways::tool(), gateways::daemon()) {
                (Some(_), Some(_)) => Ok(()),
                (None, _) => {
                    Err("the program wavelane is not beside this one: build it, or name it in WAVELANE".into())
                }
                (_, None) => {
                    Err("the program wavelaned is not beside this one: build it, or name it in WAVELANED".into())
                }
            }
        }
        Family::Mptcp => mptcp::review(scenario),
        _ if peers::is_peer(stack) => peers::review(scenario, stack),
        _ => Err("the lab does not run this stack: run it with --on sim".into()),
    }
}

/// What a stack needs that no kernel provides.
fn beyond_kernels(stack: Stack) -> Option<&'static str> {
    match stack.control {
        Some(TcpKind::Y2001) => Some("TCP with the timers of 2001"),
        Some(TcpKind::Bbr3) => Some("BBR version 3"),
        _ => None,
    }
}

/// Per node, the congestion control of its routes and sockets: that of the flows that begin or end there. A route pins one for all flows,
/// so flows that share a node cannot use different ones.
pub(crate) fn controls(scenario: &Scenario, stack: Stack) -> Result<Vec<&'static str>, String> {
    let usual = control_of_stack(stack);
    let of_node = |node: &wavelane_scenario::Node| {
        let touching = scenario.flows.iter().filter(|f| f.from == node.name || f.to == node.name);
        let mut wishes: Vec<&str> = touching.map(|f| f.control.map_or(usual, TcpKind::word)).collect();
        wishes.sort_unstable();
        wishes.dedup();
        match wishes[..] {
            [] => Ok(usual),
            [one] => Ok(one),
            _ => Err(format!(
                "flows at node {} ask for {}: give each congestion control endpoints of its own",
                node.name,
                wishes.join(" and ")
            )),
        }
    };
    scenario.nodes.iter().map(of_node).collect()
}

fn kernel_has(control: &str) -> Result<(), String> {
    if control == TcpKind::Bbr3.word() {
        return Err("the kernel has no BBR version 3: run it with --on sim".into());
    }
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let available = std::fs::read_to_string(path).unwrap_or_default();
    match available.split_whitespace().any(|word| word == control) {
        true => Ok(()),
        false => Err(format!("this kernel has no {control} loaded: modprobe tcp_{control}")),
    }
}

/// The kernel's name of the congestion control of every socket under `stack`. It is Linux's default where the endpoints' own matters little
/// because something in between carries the bytes.
pub(crate) fn control_of_stack(stack: Stack) -> &'static str {
    match (stack.family, stack.control) {
        (Family::Tcp | Family::Boringtun, Some(kind @ (TcpKind::Reno | TcpKind::Bbr))) => kind.word(),
        (Family::Mptcp, _) => "bbr",
        _ => "cubic",
    }
}

/// Whether an app sends UDP datagrams to its own server.
pub(crate) fn needs_udp(app: &App) -> bool {
    matches!(app, App::Quic { .. }) || app.is_datagrams() && !matches!(app, App::Ping { .. })
}
