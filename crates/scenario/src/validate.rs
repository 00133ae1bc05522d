//! Rejects impossible scenarios, each with a remedy.

use crate::ScenarioError;
use crate::Value;
use crate::model::{
    App, Change, Channel, ChannelKind, DURATION_MAX, Direction, FLOWS_MAX, Flow, Metric, NODES_MAX, Node, NodeKind,
    Scenario, Stack,
};
use wavelane_base::Quantity;
use wavelane_base::{Octets, Span};
use wavelane_channel::wifi::WifiConfig;

/// Longest name of a node, channel or flow: the lab builds device names of at most 15 characters from node names.
const NAME_MAX: usize = 12;
/// Largest body.
const SIZE_MAX: Octets = Octets::new(1 << 40);
/// Largest echo probe; larger ones are transfers, not probes.
const ECHO_SIZE_MAX: u64 = 1400;
/// Smallest echo probe: it carries a sequence number.
const ECHO_SIZE_MIN: u64 = 8;
/// Smallest and largest datagram: it carries a number, and fits any channel's frames.
const DATAGRAM_MIN: u64 = 16;
const DATAGRAM_MAX: u64 = 2_200;
/// Shortest interval of a datagram stream.
const CBR_EVERY_MIN: Span = Span::from_micros(10);
/// Shortest interval of an echo.
const ECHO_EVERY_MIN: Span = Span::from_millis(1);

/// Largest body of a fetch; larger ones are downloads.
const FETCH_SIZE_MAX: Octets = Octets::new(10_000_000);
/// Maximum number of channels between two gateways: a link's lanes.
const LANES_MAX: usize = 8;
/// Shortest interval of fetches.
const FETCH_EVERY_MIN: Span = Span::from_millis(10);

type Checked = Result<(), ScenarioError>;

fn refuse(value: &Value<'_>, why: String) -> Checked {
    Err(value.impossible(why))
}

/// A name that is valid as a file name, a device name and a word in a command.
pub(crate) fn name(name: &str, value: &Value<'_>) -> Checked {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    let starts = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    // Checks are only words in a report, so their names may be longer.
    let most = if value.path.starts_with("checks.") { 40 } else { NAME_MAX };
    if starts && name.bytes().all(plain) && name.len() <= most {
        return Ok(());
    }
    let rule = format!("at most {most} of a-z, 0-9, '-' and '_', beginning with a letter");
    refuse(value, format!("'{name}' cannot be a name: use {rule}"))
}

pub(crate) fn duration(duration: Span, value: &Value<'_>) -> Checked {
    if duration == Span::ZERO || duration > DURATION_MAX {
        return refuse(value, format!("duration {duration} must lie above 0 and at most {}", DURATION_MAX.write()));
    }
    Ok(())
}

pub(crate) fn nodes(nodes: &[Node], value: &Value<'_>) -> Checked {
    match nodes.len() {
        0 | 1 => refuse(value, "a scenario needs at least two nodes: add them under [nodes]".into()),
        n if n > NODES_MAX => refuse(value, format!("{n} nodes are more than {NODES_MAX}: split the scenario")),
        _ => Ok(()),
    }
}

pub(crate) fn known_node(scenario: &Scenario, node: &str, value: &Value<'_>) -> Checked {
    if scenario.node(node).is_some() {
        return Ok(());
    }
    let hint = crate::hint(node, scenario.nodes.iter().map(|n| n.name.as_str()));
    refuse(value, format!("[{}]: there is no node '{node}'; {hint}", value.path))
}

pub(crate) fn channel(scenario: &Scenario, channel: &Channel, value: &Value<'_>) -> Checked {
    for node in &channel.between {
        known_node(scenario, node, value)?;
    }
    if channel.cell().is_some() {
        return Ok(());
    }
    let (a, b) = (&channel.between[0], &channel.between[1]);
    if a == b {
        return refuse(value, format!("[{}] joins '{a}' with itself: name two different nodes", value.path));
    }
    let is_cable = |c: &Channel| c.cell().is_none();
    let same = |c: &&Channel| is_cable(c) && c.between.contains(a) && c.between.contains(b);
    let gateways = [a, b].iter().all(|name| scenario.node(name).is_some_and(|node| node.kind == NodeKind::Gateway));
    let others = || scenario.channels.iter().filter(same);
    match others().next() {
        Some(other) if !gateways => {
            let why = format!("'{a}' and '{b}' are already joined by [channels.{}]", other.name);
            refuse(value, format!("{why}: only gateways use several channels side by side, so remove one"))
        }
        Some(_) if others().count() >= LANES_MAX => {
            refuse(value, format!("'{a}' and '{b}' are joined by {LANES_MAX} channels already: remove some"))
        }
        None if channel.one_way && !gateways => {
            let why = format!("[{}] carries nothing from '{b}' to '{a}'", value.path);
            refuse(value, format!("{why}, and only gateways can answer by another channel: give it a reverse"))
        }
        _ => Ok(()),
    }
}

/// Checks that traffic over a one-way channel can be answered. Active gateways have lanes in both directions on channels between them;
/// plain routers may answer by another path.
pub(crate) fn answers(scenario: &Scenario, sections: &[(String, Value<'_>)]) -> Checked {
    let linked = scenario.stacks.iter().any(|stack| stack.has_gateways());
    for (channel, (_, value)) in scenario.channels.iter().zip(sections).filter(|(channel, _)| channel.one_way) {
        let [a, b] = [&channel.between[0], &channel.between[1]];
        let back = |other: &Channel| other.places(b, a).is_some_and(|(at, far)| other.joins(at, far));
        let around = || !linked && scenario.path(b, a).is_some();
        if !scenario.channels.iter().any(back) && !around() {
            let why = format!("[{}] carries nothing from '{b}' to '{a}', and no other channel does", value.path);
            return refuse(
                value,
                format!("{why}, so that nothing can answer: give it or another between them a reverse"),
            );
        }
    }
    Ok(())
}

pub(crate) fn flow(scenario: &Scenario, flow: &Flow, value: &Value<'_>) -> Checked {
    let at = &value.path;
    if scenario.flows.len() >= FLOWS_MAX {
        return refuse(value, format!("more than {FLOWS_MAX} flows: split the scenario"));
    }
    for node in [&flow.from, &flow.to] {
        known_node(scenario, node, value)?;
        if scenario.node(node).is_some_and(|n| n.kind == NodeKind::Router) {
            return refuse(value, format!("[{at}]: router '{node}' runs no applications: use an endpoint"));
        }
    }
    if flow.from == flow.to {
        return refuse(value, format!("[{at}] leads from '{}' to itself: name another node in to", flow.from));
    }
    let Some(way) = scenario.path(&flow.from, &flow.to) else {
        let why = format!("[{at}]: no channels lead from '{}' to '{}'", flow.from, flow.to);
        return refuse(value, format!("{why}: add [channels.NAME] between = [...] (endpoints pass nothing on)"));
    };
    if let Some(stop) = flow.stop.filter(|stop| *stop <= flow.start) {
        return refuse(value, format!("[{at}] stops at {stop}, not after its start at {}: move stop", flow.start));
    }
    if flow.start >= scenario.duration {
        let why = format!("[{at}] starts at {}, when the run has ended", flow.start);
        return refuse(value, format!("{why}: start before duration = {}", scenario.duration));
    }
    handling(&way, flow, value)?;
    crate::parse_apps::deadline(scenario, flow, value)?;
    match flow.app {
        App::Download { size: Some(size) } | App::Upload { size: Some(size) } | App::Quic { size: Some(size) }
            if size == Octets::ZERO || size > SIZE_MAX =>
        {
            refuse(value, format!("[{at}]: size must lie above 0 and at most {}", SIZE_MAX.write()))
        }
        App::Echo { size, .. } if !(ECHO_SIZE_MIN..=ECHO_SIZE_MAX).contains(&size.get()) => {
            refuse(value, format!("[{at}]: an echo's size lies between {ECHO_SIZE_MIN} B and {ECHO_SIZE_MAX} B"))
        }
        App::Fetch { size, .. } if size == Octets::ZERO || size > FETCH_SIZE_MAX => {
            refuse(value, format!("[{at}]: a fetch's size lies above 0 and at most {}", FETCH_SIZE_MAX.write()))
        }
        App::Fetch { every, .. } if every < FETCH_EVERY_MIN || every > scenario.duration => {
            refuse(value, format!("[{at}]: every must lie between {FETCH_EVERY_MIN} and the run's duration"))
        }
        App::Echo { every, .. } | App::Ping { every, .. } | App::Cbr { every, .. }
            if every < least_interval(&flow.app) || every > scenario.duration =>
        {
            let least = least_interval(&flow.app);
            refuse(value, format!("[{at}]: every must lie between {least} and the run's duration"))
        }
        App::Cbr { size, .. } | App::Saturate { size } | App::Window { size, .. } | App::Ping { size, .. }
            if !(DATAGRAM_MIN..=DATAGRAM_MAX).contains(&size.get()) =>
        {
            refuse(value, format!("[{at}]: a datagram's size lies between {DATAGRAM_MIN} B and {DATAGRAM_MAX} B"))
        }
        App::Saturate { .. } if !starts_on_radio(scenario, flow) => {
            let why = format!("[{at}]: '{}' reaches '{}' by a cable", flow.from, flow.to);
            refuse(value, format!("{why}, and only a radio station can be saturated: use app = \"cbr\""))
        }
        App::Saturate { .. } => saturated_once(scenario, &way, flow, value),
        _ => Ok(()),
    }
}

/// Checks that the radio features requested by a flow exist on its path.
fn handling(way: &[(&Channel, Direction)], flow: &Flow, value: &Value<'_>) -> Checked {
    let (at, table) = (&value.path, value.table("[flows.call]")?);
    let cells: Vec<&WifiConfig> = way.iter().filter_map(|(channel, _)| channel.cell()).collect();
    if let Some(asked) = table.get("category").filter(|_| cells.iter().all(|cell| cell.edca.is_none())) {
        let why = format!("[{at}] has a category, and no radio cell on its way has edca");
        return refuse(&asked, format!("{why}: add edca = \"standard\" to the cell, or remove category"));
    }
    if let Some(asked) = table.get("no-ack").filter(|_| flow.no_ack && !cells.iter().any(|c| c.rules.acknowledges)) {
        let why = format!("[{at}]: no radio cell on its way acknowledges any frame");
        return refuse(&asked, format!("{why}: remove no-ack"));
    }
    Ok(())
}

/// Two sources that always have data cannot share a queue.
fn saturated_once(scenario: &Scenario, way: &[(&Channel, Direction)], flow: &Flow, value: &Value<'_>) -> Checked {
    let end = |flow: &Flow| flow.stop.unwrap_or(scenario.duration);
    let queue = |way: &[(&Channel, Direction)], flow: &Flow| {
        let (channel, _) = way.first()?;
        let category = channel.cell()?.edca.map(|_| flow.category.unwrap_or_default());
        Some((channel.name.clone(), category))
    };
    let shares = |other: &&Flow| {
        let saturates = matches!(other.app, App::Saturate { .. });
        let overlap = other.start < end(flow) && flow.start < end(other);
        // A path takes time to find, and hundreds of stations may saturate a cell.
        let beside = saturates && overlap && other.from == flow.from;
        beside && queue(&scenario.path(&other.from, &other.to).unwrap_or_default(), other) == queue(way, flow)
    };
    match scenario.flows.iter().find(shares) {
        Some(other) => {
            let why = format!("[{}]: '{}' is saturated by [flows.{}] already", value.path, flow.from, other.name);
            refuse(value, format!("{why}: use another station, or with edca another category"))
        }
        None => Ok(()),
    }
}

fn least_interval(app: &App) -> Span {
    if matches!(app, App::Cbr { .. }) { CBR_EVERY_MIN } else { ECHO_EVERY_MIN }
}

/// Whether the first hop of a flow's packets is a radio hop.
fn starts_on_radio(scenario: &Scenario, flow: &Flow) -> bool {
    let path = scenario.path(&flow.from, &flow.to).unwrap_or_default();
    path.first().is_some_and(|(channel, _)| matches!(channel.kind, ChannelKind::Wifi(_)))
}

/// Checks that echoes that name a bulk flow name an existing one, wherever it is in the file. The word `flow` means the first.
pub(crate) fn echoes(scenario: &mut Scenario, sections: &[(String, Value<'_>)]) -> Checked {
    let bulks: Vec<String> = scenario.flows.iter().filter(|f| f.app.is_bulk()).map(|f| f.name.clone()).collect();
    for ((_, value), flow) in sections.iter().zip(&mut scenario.flows) {
        let App::Echo { during: Some(bulk), .. } = &mut flow.app else { continue };
        if bulks.contains(bulk) {
            continue;
        }
        match bulks.first() {
            Some(first) if bulk == "flow" => *bulk = first.clone(),
            Some(_) => {
                let hint = crate::hint(bulk, bulks.iter().map(String::as_str));
                return refuse(value, format!("[{}]: while = \"{bulk}\" names no bulk flow; {hint}", value.path));
            }
            None => {
                let why = format!("[{}]: while = \"{bulk}\" but there is no bulk flow", value.path);
                return refuse(value, format!("{why}: add a download, upload or quic flow, or remove while"));
            }
        }
    }
    Ok(())
}

/// Adds a change after testing it on the channel as the file configures it.
pub(crate) fn change(scenario: &mut Scenario, change: Change, value: &Value<'_>) -> Checked {
    if change.at >= scenario.duration {
        let why = format!("a change at {} comes after the run's end at {}", change.at, scenario.duration);
        return refuse(value, format!("{why}: move it or lengthen duration"));
    }
    if let Some(channel) = scenario.channel(&change.channel) {
        let ChannelKind::Cable(mut cable) = channel.kind.clone() else { return Ok(()) };
        let direction = match change.direction {
            Direction::Forward => &mut cable.forward,
            Direction::Reverse => &mut cable.reverse,
        };
        if let Err(error) = direction.set(change.parameter.clone()) {
            return refuse(value, format!("timeline at {}: {error}", change.at));
        }
    }
    scenario.timeline.push(change);
    Ok(())
}

/// Checks that a check's flow exists and has the requested figure.
pub(crate) fn metric(scenario: &Scenario, flow: &str, metric: Metric, value: &Value<'_>) -> Checked {
    let Some(found) = scenario.flow(flow) else {
        let hint = crate::hint(flow, scenario.flows.iter().map(|f| f.name.as_str()));
        return refuse(value, format!("{}: there is no flow '{flow}'; {hint}", value.path));
    };
    let of_echo = matches!(metric, Metric::RttP50Ms | Metric::RttP95Ms | Metric::RttP99Ms);
    if metric == Metric::Lost && !found.app.is_bulk() {
        return Ok(());
    }
    let of_echo = of_echo || metric == Metric::Lost;
    let of_bulk = matches!(metric, Metric::GoodputBps | Metric::DurationMs | Metric::Intact | Metric::AgeP95Ms);
    if of_echo && !found.app.is_echo() || of_bulk && !found.app.is_bulk() {
        let wanted = if of_echo { "an echo" } else { "a download or upload" };
        let why = format!("{}: {} is a figure of {wanted}", value.path, metric.word());
        return refuse(value, format!("{why}, but '{flow}' is a flow of app {}: name another flow", found.app.word()));
    }
    Ok(())
}

/// Checks that a stack named by a check is run.
pub(crate) fn listed(scenario: &Scenario, stack: Stack, value: &Value<'_>) -> Checked {
    if scenario.stacks.contains(&stack) {
        return Ok(());
    }
    refuse(value, format!("{}: stack '{stack}' is not in stacks = [...]: add it there", value.path))
}
