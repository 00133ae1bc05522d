//! The part of a gateway's configuration that describes its lanes to a neighbour over several channels, or over one-way ones.

use crate::media;
use crate::topology::{Plan, Wire};
use wavelane_scenario::Scenario;
use wavelane_settings::{File, LANE, LaneKnobs, LaneTable, LineKeys, PEER, PeerTable};

/// The rest of the peer's table and the tables of the lanes from the first to the second of `ends` over the wires at `places`.
pub(crate) fn tables(scenario: &Scenario, plan: &Plan, mut places: Vec<usize>, [own, peer]: [usize; 2]) -> String {
    let wires = &plan.wires;
    let name = |place: &usize| &scenario.channels[wires[*place].channel].name;
    let link = scenario.links.iter().find(|link| places.iter().any(|place| link.lanes.contains(name(place))));
    places.sort_by_key(|place| link.map_or(0, |link| link.place(name(place))));
    places.retain(|place| wires[*place].end_of(own).is_some_and(|end| wires[*place].carries_from(end)));
    // With a single outgoing lane there is nothing to choose.
    let several = link.filter(|_| places.len() > 1);
    let choice = several.map(|link| link.choice.unwrap_or_default());
    let mut text = PEER.write(File::Daemon, &PeerTable { choice, ..PeerTable::default() });
    for place in places {
        let wire = &wires[place];
        let Some(end) = wire.end_of(peer) else { continue };
        let direction = if wire.one_way { "out" } else { "both" };
        let of_link = link.map(|link| link.lane(name(&place))).unwrap_or_default();
        let start_rate = of_link.start_rate;
        let knobs = LaneKnobs { start_rate, ..several.map_or_else(LaneKnobs::default, |_| of_link) };
        let usual = || (media::of(wire).lines(wire, 1 - end), LaneTable::default());
        let (called, own) = radio_lane(scenario, plan, wire, 1 - end).unwrap_or_else(usual);
        text += &format!(
            "[[peer.lane]]\n{called}direction = \"{direction}\"\n{}",
            LANE.write(File::Daemon, &LaneTable { knobs, ..own })
        );
    }
    text
}

/// UDP port of radio lanes, whose sockets are their own.
const RADIO_PORT: u16 = 4781;

/// Where a lane over a cell leads, and what the gateway at an end of `wire` has of its own, if either end has radio lanes.
fn radio_lane(scenario: &Scenario, plan: &Plan, wire: &Wire, end: usize) -> Option<(String, LaneTable)> {
    let [own, far] = [end, 1 - end].map(|end| plan.radio_at(scenario, wire, end));
    let rate = scenario.channels[wire.channel].cell().filter(|_| own.or(far).is_some())?.rate;
    let called = match far {
        Some(_) => format!("address = \"{}:{RADIO_PORT}\"\n", wire.addresses[1 - end]),
        None => media::of(wire).lines(wire, end),
    };
    let table = |lanes| LaneTable {
        radio: Some(lanes),
        local: Some(format!("{}:{RADIO_PORT}", wire.addresses[end])),
        line: LineKeys { rate: Some(format!("{} bit/s", rate.as_bps())), ..LineKeys::default() },
        ..LaneTable::default()
    };
    Some((called, own.map_or_else(LaneTable::default, table)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Configuration of both ends of three channels, the last of which leads only from `a` to `b`.
    fn both(links: &str) -> [String; 2] {
        let text = format!(
            "duration = \"1 s\"\nstacks = [\"wavelane\"]\nnodes = {{ a = \"gateway\", b = \"gateway\" }}\n\
             channels = {{ radio = {{ preset = \"ethernet\", between = [\"a\", \"b\"] }}, modem = {{ preset = \"ethernet\", between = [\"b\", \"a\"] }}, \
             beam = {{ between = [\"a\", \"b\"], forward = {{ rate = \"1 Mbit/s\" }}, reverse = \"none\" }} }}\n\
             flows = {{ page = {{ app = \"download\", from = \"a\", to = \"b\" }} }}\n{links}\n"
        );
        let scenario = Scenario::parse(&text, Path::new(".")).expect("sound");
        let plan = Plan::of(&scenario).expect("small");
        [[0, 1], [1, 0]].map(|ends| tables(&scenario, &plan, vec![0, 1, 2], ends))
    }

    fn lane(address: &str, direction: &str, [metered, bulk, small]: [bool; 3]) -> String {
        format!(
            "[[peer.lane]]\naddress = \"{address}:4780\"\ndirection = \"{direction}\"\nmetered = {metered}\nbulk = {bulk}\nsmall = {small}\n"
        )
    }

    #[test]
    fn lanes_follow_the_links_order_and_keys() {
        let plain = |address, direction| lane(address, direction, [false, true, true]);
        let [a, b] = both("");
        assert_eq!(a, plain("10.77.0.2", "both") + &plain("10.77.1.1", "both") + &plain("10.77.2.2", "out"));
        assert_eq!(b, plain("10.77.0.1", "both") + &plain("10.77.1.2", "both"));
        let words = "choice = \"pinned+fallback\"\nmetered = [\"radio\"]\nno-bulk = [\"modem\"]\nno-small = [\"radio\"]\nstart-rates = { modem = \"33.6 kbit/s\" }";
        let [a, b] = both(&format!("[links.up]\nlanes = [\"beam\", \"modem\"]\n{words}"));
        let modem_and_radio = |modem: &str, radio: &str| {
            lane(modem, "both", [false, false, true])
                + "start_rate = \"33600 bit/s\"\n"
                + &lane(radio, "both", [true, true, false])
        };
        let choice = "choice = \"pinned+fallback\"\n".to_owned();
        assert_eq!(a, choice.clone() + &plain("10.77.2.2", "out") + &modem_and_radio("10.77.1.1", "10.77.0.2"));
        assert_eq!(b, choice + &modem_and_radio("10.77.1.2", "10.77.0.1"));
    }
}
