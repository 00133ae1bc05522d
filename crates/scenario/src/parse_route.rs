//! Selection among several channels from a node to its neighbour: `[routes]`.

use crate::Value;
use crate::model::{ChannelRoute, Scenario};
use crate::validate::known_node;
use crate::write::text;
use crate::{ScenarioError, hint};
use std::collections::BTreeSet;

/// Maximum number of routes in a scenario.
const ROUTES_MAX: usize = 256;

/// Reads `[routes]`, once the channels are known.
pub(crate) fn routes(scenario: &Scenario, value: &Value<'_>) -> Result<Vec<ChannelRoute>, ScenarioError> {
    let entries = value.table("{ \"a -> b\" = \"radio\" }")?.entries();
    if entries.len() > ROUTES_MAX {
        return Err(
            value.impossible(format!("[routes] has {} entries, more than {ROUTES_MAX}: name fewer", entries.len()))
        );
    }
    let mut known = BTreeSet::new();
    let mut routes = Vec::new();
    for (key, value) in entries {
        let route = route(scenario, &key, &value)?;
        if !known.insert((route.from.clone(), route.to.clone())) {
            let why = format!("[routes] says twice how '{}' reaches '{}': remove one", route.from, route.to);
            return Err(value.impossible(why));
        }
        routes.push(route);
    }
    Ok(routes)
}

fn route(scenario: &Scenario, key: &str, value: &Value<'_>) -> Result<ChannelRoute, ScenarioError> {
    let refuse = |why: String| Err(value.impossible(format!("[routes]: {why}")));
    let Some((from, to)) = key.split_once("->").map(|(from, to)| (from.trim(), to.trim())) else {
        return refuse(format!("'{key}' is no direction: write two neighbours, such as \"a -> b\" = \"radio\""));
    };
    for node in [from, to] {
        known_node(scenario, node, value)?;
    }
    let name = value.str("a channel's name", "\"radio\"")?;
    let beside: Vec<_> = scenario.channels.iter().filter_map(|c| Some((c, c.places(from, to)?))).collect();
    if beside.is_empty() {
        let why = format!("no channel joins '{from}' and '{to}'");
        return refuse(format!(
            "{why}: name two neighbours, or add [channels.NAME] between = [{}, {}]",
            text(from),
            text(to)
        ));
    }
    let carrying: Vec<&str> =
        beside.iter().filter(|(c, (at, far))| c.joins(*at, *far)).map(|(c, _)| c.name.as_str()).collect();
    if carrying.contains(&name) {
        return Ok(ChannelRoute { from: from.to_owned(), to: to.to_owned(), channel: name.to_owned() });
    }
    let remedy = match carrying.as_slice() {
        [] => "no other does either, so give one a reverse or remove the route".to_owned(),
        some => format!("name {}", some.join(" or ")),
    };
    if scenario.channel(name).is_none() {
        let hint = hint(name, scenario.channels.iter().map(|c| c.name.as_str()));
        return refuse(format!("\"{from} -> {to}\" names no channel: there is no '{name}'; {hint}"));
    }
    match beside.iter().any(|(c, _)| c.name == name) {
        true => refuse(format!("[channels.{name}] carries nothing from '{from}' to '{to}': {remedy}")),
        false => refuse(format!("[channels.{name}] does not join '{from}' and '{to}': {remedy}")),
    }
}

/// Writes it.
pub(crate) fn write(routes: &[ChannelRoute]) -> String {
    let line = |route: &ChannelRoute| format!("{} = {}\n", text(&route.key()), text(&route.channel));
    match routes {
        [] => String::new(),
        some => format!("\n[routes]\n{}", some.iter().map(line).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, Setting};
    use std::path::Path;

    fn text_of(routes: &str) -> String {
        format!(
            "duration = \"1 s\"\nstacks = [\"tcp-cubic\"]\n\
             nodes = {{ c = \"endpoint\", a = \"gateway\", b = \"gateway\", s = \"endpoint\" }}\n\
             flows = {{ page = {{ app = \"download\", from = \"c\", to = \"s\" }} }}\n\
             [channels]\nnear = {{ preset = \"ethernet\", between = [\"c\", \"a\"] }}\n\
             radio = {{ between = [\"a\", \"b\"], forward = {{ rate = \"2 Mbit/s\" }}, reverse = \"same\" }}\n\
             modem = {{ between = [\"b\", \"a\"], forward = {{ rate = \"33.6 kbit/s\" }}, reverse = \"same\" }}\n\
             beam = {{ between = [\"a\", \"b\"], forward = {{ rate = \"1 Mbit/s\" }}, reverse = \"none\" }}\n\
             far = {{ preset = \"ethernet\", between = [\"b\", \"s\"] }}\n[routes]\n{routes}\n"
        )
    }

    fn parse(routes: &str) -> Result<Scenario, String> {
        Scenario::parse(&text_of(routes), Path::new(".")).map_err(|error| error.to_string())
    }

    fn way(scenario: &Scenario, from: &str, to: &str) -> String {
        let word = |way| if way == Direction::Forward { "forward" } else { "reverse" };
        let path = scenario.path(from, to).expect("joined");
        path.into_iter().map(|(channel, way)| format!("{} {}", channel.name, word(way))).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn each_direction_takes_the_channel_that_a_route_names() {
        let plain = parse("").expect("sound");
        assert_eq!(way(&plain, "c", "s"), "near forward, radio forward, far forward");
        assert_eq!(way(&plain, "s", "c"), "far reverse, radio reverse, near reverse");
        let scenario = parse("\"b -> a\" = \"modem\"\n\"a->b\" = \"beam\"").expect("sound");
        assert_eq!(way(&scenario, "c", "s"), "near forward, beam forward, far forward");
        assert_eq!(way(&scenario, "s", "c"), "far reverse, modem forward, near reverse");
        let against = parse("\"a -> b\" = \"modem\"").expect("sound");
        assert_eq!(way(&against, "c", "s"), "near forward, modem reverse, far forward");
    }

    #[test]
    fn routes_write_back_and_can_be_set() {
        let scenario = parse("\"b -> a\" = \"modem\"\n\"a->b\" = \"beam\"").expect("sound");
        assert!(scenario.to_toml().contains("[routes]\n\"b -> a\" = \"modem\"\n\"a -> b\" = \"beam\"\n"));
        assert_eq!(Scenario::parse(&scenario.to_toml(), Path::new(".")).as_ref(), Ok(&scenario));
        let setting = Setting::read("routes.b -> a=radio").expect("a setting");
        let text = text_of("\"b -> a\" = \"modem\"");
        let set = Scenario::parse_with(&text, Path::new("."), &[setting]).expect("sound");
        assert_eq!(set.routes[0].channel, "radio");
        assert_eq!(set.differences(&parse("\"b -> a\" = \"modem\"").expect("sound")), ["routes.b -> a"]);
    }

    #[test]
    fn impossible_routes_are_refused_with_their_line_and_a_remedy() {
        let line = text_of("").lines().count();
        for (routes, why) in [
            ("\"a b\" = \"radio\"", "'a b' is no direction: write two neighbours"),
            ("\"a -> x\" = \"radio\"", "no node 'x'"),
            ("\"b -> a\" = \"modme\"", "there is no 'modme'; did you mean 'modem'?"),
            ("\"c -> b\" = \"radio\"", "no channel joins 'c' and 'b': name two neighbours"),
            ("\"a -> a\" = \"radio\"", "no channel joins 'a' and 'a'"),
            ("\"a -> b\" = \"far\"", "[channels.far] does not join 'a' and 'b': name radio or modem or beam"),
            ("\"b -> a\" = \"beam\"", "[channels.beam] carries nothing from 'b' to 'a': name radio or modem"),
            ("\"b -> a\" = 7", "must be a channel's name"),
            ("\"b\\n\" = \"radio\"", "'b\\n' is no direction"),
            ("\"b -> a\" = \"mo\\nm\"", "there is no 'mo\\nm'"),
            ("\"b -> a\\nx\" = \"radio\"", "no node 'a\\nx'"),
        ] {
            let error = parse(routes).expect_err(routes);
            assert!(error.contains(why) && error.contains(&format!("{line}: ")) && !error.contains('\n'), "{error}");
        }
        let error = parse("\"a -> b\" = \"radio\"\n\"a->b\" = \"modem\"").expect_err("twice");
        assert!(
            error.contains("says twice how 'a' reaches 'b'") && error.contains(&format!("{}: ", line + 1)),
            "{error}"
        );
        let many: String = (0..=ROUTES_MAX).map(|n| format!("\"a -> n{n}\" = \"radio\"\n")).collect();
        assert!(parse(&many).expect_err("many").contains("more than 256"));
        assert!(parse("").expect("sound").routes.is_empty());
    }
}
