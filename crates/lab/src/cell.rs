//! A radio cell between kernels: stations are nodes, and each has a device for every station that it hears.

use crate::LabError;
use crate::driver::{End, Job, Port, Running};
use crate::topology::{Plan, Wire};
use crate::world::{self, is_noisy};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use wavelane_base::{FrameMeta, Instant, Machine, PortId, Seed, Span, Transmit, Wakeup};
use wavelane_channel::wifi::{Category, Handling, STATIONS_BOUND, Wifi, WifiConfig, WifiEvent, port};
use wavelane_run::RadioRaw;
use wavelane_scenario::{Channel, Flow, Scenario};
use wavelane_settings::RadioLanes;

/// Deadlines served together: backoffs count slots of 9 to 20 us, and a frame with its acknowledgement lasts longer than this.
const REST: Span = Span::from_micros(100);

/// Code point of best effort's second priority (RFC 8325, section 4.3).
const AF21: u8 = 18;
/// Frames that a station takes from a ring before its own have left: one on the air, one behind it.
const AHEAD: usize = 2;

/// How packets between two addresses are sent, as the scenario's flows say.
type Asked = BTreeMap<[Ipv4Addr; 2], Handling>;

/// The cell's machine. What a flow does not say of its packets, they say themselves.
struct Cell {
    wifi: Wifi,
    asked: Arc<Asked>,
    /// By station: whether its driver asks for no acknowledgement of best effort's second priority (Linux: `noack_map` of the device).
    no_acks: Vec<bool>,
}

/// The access category for a differentiated services code point (RFC 8325, section 4.3).
fn category(dscp: u8) -> Category {
    const CS1: u8 = 8;
    const VOICE_ADMIT: u8 = 44;
    const EF: u8 = 46;
    match dscp {
        CS1 => Category::Background,
        VOICE_ADMIT | EF | 48 | 56 => Category::Voice,
        // AF31 to AF43 and CS3 to CS5.
        24 | 26 | 28 | 30 | 32 | 34 | 36 | 38 | 40 => Category::Video,
        _ => Category::BestEffort,
    }
}

impl Cell {
    fn handling(&self, station: usize, packet: &[u8], meta: &FrameMeta) -> Handling {
        let address =
            |at: usize| packet.get(at..).and_then(|rest| rest.first_chunk::<4>()).map(|ip| Ipv4Addr::from(*ip));
        // Source and destination (RFC 791, 3.1).
        let asked = address(12).zip(address(16)).and_then(|(from, to)| self.asked.get(&[from, to]));
        let no_ack = self.no_acks[station] && meta.dscp == AF21;
        asked.copied().unwrap_or(Handling { category: category(meta.dscp), no_ack, ..Handling::default() })
    }
}

impl Machine for Cell {
    type Event = WifiEvent;

    fn handle_frame(&mut self, now: Instant, port: PortId, frame: &mut [u8], meta: FrameMeta) {
        let handling = self.handling(usize::from(port.0) / STATIONS_BOUND, frame, &meta);
        self.wifi.hand_in(now, port, frame, meta, handling);
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.wifi.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant, port: PortId, buf: &mut [u8], max_segments: usize) -> Option<Transmit> {
        // Mostly none of the many ports has anything.
        self.wifi.next_ready()?;
        self.wifi.poll_transmit(now, port, buf, max_segments)
    }
    fn poll_timeout(&self) -> Option<Wakeup> {
        self.wifi.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<WifiEvent> {
        self.wifi.poll_event()
    }
}

/// The machine's port behind the device at an end of a wire.
pub(crate) fn place(wire: &Wire, end: usize) -> PortId {
    port(wire.places[end], wire.places[1 - end])
}

/// What a flow says of how its packets are sent.
fn asked(flow: &Flow) -> Option<Handling> {
    (flow.category.is_some() || flow.no_ack).then(|| Handling {
        category: flow.category.unwrap_or_default(),
        no_ack: flow.no_ack,
        ..Handling::default()
    })
}

/// Why the lab cannot tell the packets of `flow` from another's, if so: it knows them by their addresses.
pub(crate) fn confused(scenario: &Scenario, flow: &Flow) -> Option<String> {
    let same = |a: &Flow, b: &Flow| (&a.from, &a.to) == (&b.from, &b.to) || (&a.from, &a.to) == (&b.to, &b.from);
    let other = scenario.flows.iter().find(|other| same(flow, other) && asked(flow) != asked(other))?;
    Some(format!(
        "the lab knows by a packet's nodes how a radio is to send it, and flow '{}' between the same has another category: give it an endpoint of its own",
        other.name
    ))
}

/// Starts the thread of a cell, whose devices are `ends`.
pub(crate) fn start(
    scenario: &Scenario,
    plan: &Plan,
    (channel, config): (&Channel, &WifiConfig),
    seed: Seed,
    ends: Vec<End>,
) -> Result<Running, LabError> {
    let mut by_address = Asked::new();
    for (flow, handling) in scenario.flows.iter().filter_map(|flow| Some((flow, asked(flow)?))) {
        let of = |name: &str| scenario.nodes.iter().position(|node| node.name == name);
        let (Some(from), Some(to)) = (of(&flow.from), of(&flow.to)) else { continue };
        let addresses = |node: usize| plan.wires.iter().filter_map(move |w| w.end_of(node).map(|end| w.addresses[end]));
        for (a, b) in addresses(from).flat_map(|a| addresses(to).map(move |b| (a, b))) {
            by_address.extend([([a, b], handling), ([b, a], handling)]);
        }
    }
    let by_address = Arc::new(by_address);
    let raw = |name: &String| {
        let node = scenario.nodes.iter().position(|node| node.name == *name);
        node.and_then(|node| plan.radios.get(&node)) == Some(&RadioLanes::Raw)
    };
    let no_acks: Vec<bool> = channel.between.iter().map(raw).collect();
    // What a driver has not taken stays in the ring.
    let ring = |end: &End| matches!(end.port, Port::Ring(_)).then(|| usize::from(end.place.0) / STATIONS_BOUND);
    let rings: Vec<Option<usize>> = ends.iter().map(ring).collect();
    let made = |name: &str, config: &WifiConfig| {
        let wifi = Wifi::new(seed, name, config);
        let wifi = wifi.map_err(|why| LabError::Topology(format!("channel '{}': {why}", channel.name)))?;
        Ok::<_, LabError>(Cell { wifi, asked: Arc::clone(&by_address), no_acks: no_acks.clone() })
    };
    let calm = WifiConfig { reach: config.reach.clone().calm(), ..config.clone() };
    let (setup, run) = (made(&format!("{} / set-up", channel.name), &calm)?, made(&channel.name, config)?);
    let of = channel.clone();
    world::start(Job {
        damaged: is_noisy(scenario),
        rest: REST,
        room: Box::new(move |cell: &Cell, end| {
            rings[end].is_none_or(|station| cell.wifi.waiting(station) < cell.wifi.largest_burst(station).max(AHEAD))
        }),
        radio: Some(Box::new(move |cell: &Cell, span| RadioRaw::of(&of, &cell.wifi, span))),
        ..Job::new(&channel.name, ends, setup, run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_map_to_categories_as_in_rfc_8325() {
        let of = |category: Category| (0..64).filter(|dscp| super::category(*dscp) == category).collect::<Vec<u8>>();
        assert_eq!(of(Category::Background), [8]);
        assert_eq!(of(Category::Video), [24, 26, 28, 30, 32, 34, 36, 38, 40]);
        assert_eq!(of(Category::Voice), [44, 46, 48, 56]);
    }
}
