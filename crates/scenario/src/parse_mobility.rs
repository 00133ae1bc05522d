//! Nodes that change their channel during the run: `[mobility.NAME]`.

use crate::Value;
use crate::model::{Channel, ChannelKind, Move, NodeKind, Scenario};
use crate::validate::known_node;
use crate::{ScenarioError, hint};
use wavelane_base::Span;
use wavelane_settings::{File, MOBILITY, MobilityKnobs, MovedAddress};

/// Reads `[mobility.NAME]`, once the channels are known.
pub(crate) fn of(scenario: &Scenario, name: &str, value: &Value<'_>) -> Result<Move, ScenarioError> {
    let table = value.table("{ node = \"mobile\", to = \"away\", at = \"20 s\", gap = \"2 s\" }")?;
    let knobs = MOBILITY.whole(File::Scenario, &table, &[])?;
    let refuse = |why: String| Err(value.impossible(format!("[{}]: {why}", value.path)));
    let node = knobs.node.unwrap_or_default();
    let to = knobs.to.unwrap_or_default();
    let (at, gap) = (knobs.at.unwrap_or_default(), knobs.gap.unwrap_or(Span::ZERO));
    let address = knobs.address.unwrap_or_default();
    known_node(scenario, &node, value)?;
    let kind = |name: &str| scenario.node(name).map(|node| node.kind);
    let is_gateway = match kind(&node) {
        Some(NodeKind::Router) => {
            return refuse(format!("'{node}' is a router, and routes stay: name an endpoint or a gateway"));
        }
        of => of == Some(NodeKind::Gateway),
    };
    if is_gateway && address == MovedAddress::Kept {
        return refuse(format!(
            "'{node}' is a gateway, whose sessions follow its address: write address = \"new\", or name an endpoint"
        ));
    }
    if let Some(other) = scenario.moves.iter().find(|of| of.node == node) {
        return refuse(format!("[mobility.{}] is about '{node}' too: a node moves once, so remove one", other.name));
    }
    let Some(onto) = scenario.channel(&to) else {
        return refuse(format!(
            "there is no channel '{to}'; {}",
            hint(&to, scenario.channels.iter().map(|c| c.name.as_str()))
        ));
    };
    let Some(away) = far_end(onto, &node) else {
        return refuse(format!("[channels.{to}] does not end at '{node}': name a channel that does"));
    };
    // A gateway keeps what its endpoints are plugged into.
    let stays = |far: &str| is_gateway && kind(far) == Some(NodeKind::Endpoint);
    let beside = scenario.channels.iter().filter(|channel| channel.name != to);
    let left: Vec<(&Channel, &str)> =
        beside.filter_map(|c| Some((c, far_end(c, &node)?))).filter(|(_, far)| !stays(far)).collect();
    let [(from, home)] = left[..] else {
        let others = left.len();
        return refuse(format!(
            "'{node}' has {others} channels beside '{to}' that it could leave, and it is to have one: add or remove some"
        ));
    };
    for channel in [from, onto] {
        if !matches!(channel.kind, ChannelKind::Cable(_)) || channel.one_way {
            return refuse(format!(
                "[channels.{}] is no cable of both directions, and only those are left and taken: make it one",
                channel.name
            ));
        }
    }
    for (far, channel) in [(home, from), (away, onto)] {
        if kind(far) != Some(NodeKind::Router) {
            return refuse(format!(
                "[channels.{}] leads to '{far}', and an access network has a router there: make it one",
                channel.name
            ));
        }
    }
    if home == away {
        return refuse(format!("both channels lead to '{home}', which is one network: give '{to}' another router"));
    }
    if at + gap >= scenario.duration {
        let end = scenario.duration;
        return refuse(format!(
            "'{node}' is back at {}, when the run ends ({end}): move it or lengthen duration",
            at + gap
        ));
    }
    let channels = [from.name.clone(), to];
    let networks = [home.to_owned(), away.to_owned()];
    Ok(Move { name: name.to_owned(), node, channels, networks, at, gap, address })
}

/// The other end of a channel of two nodes.
fn far_end<'a>(channel: &'a Channel, node: &str) -> Option<&'a str> {
    let end = channel.between.iter().position(|name| name == node)?;
    channel.between.iter().map(String::as_str).nth(if end == 0 { 1 } else { 0 })
}

/// Writes it.
pub(crate) fn write(of: &Move) -> String {
    let knobs = MobilityKnobs {
        node: Some(of.node.clone()),
        to: Some(of.channels[1].clone()),
        at: Some(of.at),
        gap: Some(of.gap),
        address: Some(of.address),
    };
    format!("\n[mobility.{}]\n{}", of.name, MOBILITY.write(File::Scenario, &knobs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn text(section: &str) -> String {
        format!(
            "duration = \"30 s\"\nstacks = [\"tcp-cubic\"]\n\
             nodes = {{ server = \"endpoint\", core = \"router\", h = \"router\", f = \"router\", mobile = \"endpoint\", desk = \"endpoint\", box = \"gateway\" }}\n\
             flows = {{ page = {{ app = \"download\", from = \"mobile\", to = \"server\" }} }}\n[channels]\n\
             away = {{ between = [\"mobile\", \"f\"], forward = {{ rate = \"6 Mbit/s\" }}, reverse = \"same\" }}\n\
             home = {{ between = [\"h\", \"mobile\"], forward = {{ rate = \"6 Mbit/s\" }}, reverse = \"same\" }}\n\
             far = {{ preset = \"ethernet\", between = [\"server\", \"core\"] }}\n\
             two = {{ preset = \"ethernet\", between = [\"core\", \"f\"] }}\n\
             one = {{ preset = \"ethernet\", between = [\"core\", \"h\"] }}\n\
             lan = {{ preset = \"ethernet\", between = [\"box\", \"desk\"] }}\n\
             boxed = {{ preset = \"ethernet\", between = [\"box\", \"h\"] }}\n\
             loose = {{ preset = \"ethernet\", between = [\"box\", \"f\"] }}\n\
             {section}\n"
        )
    }

    fn parse(section: &str) -> Result<Scenario, String> {
        Scenario::parse(&text(section), Path::new(".")).map_err(|error| error.to_string())
    }

    const MOVE: &str = "[mobility.m]\nnode = \"mobile\"\nto = \"away\"\nat = \"20 s\"\ngap = \"2 s\"";

    #[test]
    fn a_move_is_read_and_written_back_and_paths_are_those_before_it() {
        let scenario = parse(MOVE).expect("sound");
        let of = &scenario.moves[0];
        assert_eq!((of.at, of.back(), of.address), (Span::from_secs(20), Span::from_secs(22), MovedAddress::Kept));
        assert_eq!(
            (&of.channels, &of.networks),
            (&["home", "away"].map(str::to_owned), &["h", "f"].map(str::to_owned))
        );
        assert_eq!(Scenario::parse(&scenario.to_toml(), Path::new(".")).as_ref(), Ok(&scenario));
        let names = |path: Vec<(&Channel, _)>| path.iter().map(|(c, _)| c.name.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(names(scenario.path("server", "mobile").expect("joined")), "far one home");
        let still = parse("").expect("sound");
        assert_eq!(names(still.path("server", "mobile").expect("joined")), "far two away");
        // A gateway keeps its own endpoints.
        let moved =
            parse("[mobility.m]\nnode = \"box\"\nto = \"loose\"\nat = \"1 s\"\naddress = \"new\"").expect("sound");
        assert_eq!((moved.moves[0].channels[0].as_str(), moved.moves[0].gap), ("boxed", Span::ZERO));
    }

    #[test]
    fn channels_of_a_mobile_are_dead_while_it_is_not_there() {
        let scenario = parse(MOVE).expect("sound").with_moves();
        let outages = |name: &str| {
            let channel = scenario.channel(name).expect("there");
            channel.direction(crate::Direction::Reverse).expect("a cable").outages.clone()
        };
        let at = wavelane_base::Instant::from_secs;
        assert_eq!(outages("away"), [(at(0), at(22))]);
        assert!(outages("home")[0].0 == at(20) && outages("home")[0].1 > at(60));
        assert!(outages("one").is_empty());
    }

    #[test]
    fn impossible_moves_are_refused_with_their_line_and_a_remedy() {
        let line = text("").lines().count();
        let with = |from: &str, to: &str| MOVE.replace(from, to);
        let new = |node: &str, to: &str| with("\"mobile\"", node).replace("\"away\"", to) + "\naddress = \"new\"";
        for (section, why) in [
            (with("\"mobile\"", "\"mobil\""), "there is no node 'mobil'; did you mean 'mobile'?"),
            (with("\"mobile\"", "\"core\""), "'core' is a router"),
            (with("\"mobile\"", "\"box\""), "'box' is a gateway, whose sessions follow its address"),
            (with("\"away\"", "\"awa\""), "there is no channel 'awa'; did you mean 'away'?"),
            (with("\"away\"", "\"one\""), "[channels.one] does not end at 'mobile'"),
            (with("\"mobile\"", "\"desk\"").replace("\"away\"", "\"lan\""), "'desk' has 0 channels beside 'lan'"),
            (new("\"box\"", "\"lan\""), "'box' has 2 channels beside 'lan'"),
            (with("2 s", "10 s"), "'mobile' is back at"),
            (with("\"20 s\"", "\"0 s\""), "must lie between"),
            (with("at =", "when ="), "when"),
            ("[mobility.m]\nto = \"away\"\nat = \"20 s\"".into(), "node = \"mobile\""),
            (format!("{MOVE}\naddress = \"old\""), "unknown address 'old'"),
        ] {
            let error = parse(&section).expect_err(&section);
            assert!(error.contains(why), "{section}: {error}");
            let at: usize =
                error.split(':').next().and_then(|at| at.trim_start_matches("line ").parse().ok()).unwrap_or(line);
            assert!((line..line + 6).contains(&at), "{error}");
        }
        let listed = parse(&MOVE.replace("[mobility.m]", "[[mobility]]")).expect_err("a list");
        assert!(listed.contains("mobility must be a table, such as [mobility.NAME], not"), "{listed}");
        let twice = format!("{MOVE}\n{}", MOVE.replace("[mobility.m]", "[mobility.n]"));
        assert!(parse(&twice).expect_err("twice").contains("[mobility.m] is about 'mobile' too"));
        for (from, to, why) in [
            (
                "h = \"router\"",
                "h = \"gateway\"",
                "[channels.home] leads to 'h', and an access network has a router there",
            ),
            ("away = { between = [\"mobile\", \"f\"]", "away = { between = [\"mobile\", \"core\"]", ""),
            (
                "between = [\"h\", \"mobile\"], forward = { rate = \"6 Mbit/s\" }, reverse = \"same\"",
                "kind = \"bluetooth\", preset = \"bluetooth-1.1\", between = [\"h\", \"mobile\"]",
                "is no cable of both directions",
            ),
        ] {
            let changed = text(MOVE).replace(from, to);
            assert_ne!(changed, text(MOVE));
            let found = Scenario::parse(&changed, Path::new(".")).map_err(|error| error.to_string());
            match why {
                "" => drop(found.expect("another router")),
                why => assert!(found.as_ref().is_err_and(|error| error.contains(why)), "{found:?}"),
            }
        }
    }
}
