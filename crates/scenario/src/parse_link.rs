//! How the channels between two gateways are used: `[links.NAME]`.

use crate::model::{Channel, Scenario};
use crate::{ScenarioError, Value};
use std::collections::BTreeSet;
use wavelane_settings::{File, LINK, LinkKnobs};

/// Reads `[links.NAME]`, once the channels are known.
pub(crate) fn knobs(scenario: &Scenario, name: &str, value: &Value<'_>) -> Result<LinkKnobs, ScenarioError> {
    let table = value.table("{ lanes = [\"radio\", \"modem\"], choice = \"delivery-1998\" }")?;
    table.only(&LINK.keys(File::Scenario))?;
    let mut link = LinkKnobs { name: name.to_owned(), ..LINK.read(File::Scenario, &table)? };
    let refuse = |why: String| Err(value.impossible(format!("[{}]: {why}", value.path)));
    let mut ends: Option<BTreeSet<&String>> = None;
    let rated = link.start_rates.iter().map(|(lane, _)| lane);
    for lane in link.lanes.iter().chain(&link.metered).chain(&link.no_bulk).chain(&link.no_small).chain(rated) {
        let Some(channel) = scenario.channels_between_gateways().find(|c| c.name == *lane) else {
            return refuse(format!("there is no channel '{lane}' between two gateways: name one of [channels]"));
        };
        let these: BTreeSet<&String> = channel.between.iter().collect();
        if ends.get_or_insert_with(|| these.clone()) != &these {
            return refuse(format!(
                "'{lane}' joins other gateways than '{}': write a link for each pair",
                link.lanes[0]
            ));
        }
    }
    let Some(ends) = ends.filter(|_| !link.lanes.is_empty()) else {
        return refuse("names no lane: list channels between two gateways, lanes = [\"radio\", \"modem\"]".into());
    };
    let beside = scenario.channels_between_gateways().filter(|c| c.between.iter().collect::<BTreeSet<_>>() == ends);
    let channels: Vec<&Channel> = beside.collect();
    let beside: Vec<&String> = channels.iter().map(|c| &c.name).collect();
    if let Some(other) = scenario.links.iter().find(|other| beside.contains(&&other.lanes[0])) {
        return refuse(format!("[links.{}] is about the same gateways: put them together", other.name));
    }
    // Each direction separately: of two one-way channels each is a gateway's only way out.
    for (from, to) in ends.iter().flat_map(|from| ends.iter().map(move |to| (from, to))) {
        let carries = |c: &&&Channel| c.places(from, to).is_some_and(|(at, far)| c.joins(at, far));
        let out: Vec<&String> = channels.iter().filter(carries).map(|c| &c.name).collect();
        for (kept_off, key, what) in
            [(&link.no_bulk, "no-bulk", "bulk"), (&link.no_small, "no-small", "small exchanges")]
        {
            if let Some(lane) = out.first().filter(|_| out.iter().all(|lane| kept_off.contains(lane))) {
                return refuse(format!(
                    "no lane is left for {what} from '{from}' to '{to}': take '{lane}' out of {key}"
                ));
            }
        }
    }
    if let Some(lane) = link.no_bulk.iter().find(|lane| link.no_small.contains(lane)) {
        return refuse(format!(
            "'{lane}' carries neither bulk nor small exchanges: take it out of no-bulk or no-small"
        ));
    }
    // Unnamed lanes follow, and are written out explicitly.
    let rest: Vec<String> = beside.into_iter().filter(|lane| !link.lanes.contains(lane)).cloned().collect();
    link.lanes.extend(rest);
    Ok(link)
}

/// Writes it.
pub(crate) fn write(link: &LinkKnobs) -> String {
    format!("\n[links.{}]\n{}", link.name, LINK.write(File::Scenario, link))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use wavelane_base::Rate;
    use wavelane_settings::{Choice, Setting};

    fn parse(section: &str) -> Result<Scenario, String> {
        let text = format!(
            "duration = \"1 s\"\nstacks = [\"wavelane\"]\nnodes = {{ a = \"gateway\", b = \"gateway\", c = \"gateway\" }}\n\
             channels = {{ radio = {{ preset = \"ethernet\", between = [\"a\", \"b\"] }}, modem = {{ preset = \"ethernet\", between = [\"b\", \"a\"] }}, \
             far = {{ preset = \"ethernet\", between = [\"b\", \"c\"] }} }}\n\
             flows = {{ page = {{ app = \"download\", from = \"a\", to = \"b\" }} }}\n{section}\n"
        );
        Scenario::parse(&text, Path::new(".")).map_err(|error| error.to_string())
    }

    #[test]
    fn links_parse_and_write_back() {
        let text = "[links.up]\nlanes = [\"modem\"]\nchoice = \"pinned+fallback\"\nmetered = [\"radio\"]\nno-bulk = [\"modem\"]\nno-small = [\"radio\"]\nstart-rates = { modem = \"33.6 kbit/s\" }";
        let scenario = parse(text).expect("sound");
        let link = &scenario.links[0];
        assert_eq!((link.lanes.join(" "), link.choice), ("modem radio".into(), Some(Choice::PinnedFallback)));
        assert_eq!((link.metered.join(" "), link.no_bulk.join(" ")), ("radio".into(), "modem".into()));
        assert_eq!(link.no_small, ["radio"]);
        assert_eq!(
            (link.lane("modem").start_rate, link.lane("radio").start_rate),
            (Some(Rate::from_bps(33_600)), None)
        );
        assert_eq!((link.place("modem"), link.place("radio"), link.place("far")), (0, 1, 2));
        assert_eq!(Scenario::parse(&scenario.to_toml(), Path::new(".")).as_ref(), Ok(&scenario));
        for (word, choice) in Choice::WORDS {
            let text = format!("[links.up]\nlanes = [\"radio\"]\nchoice = \"{word}\"");
            assert_eq!(parse(&text).expect("sound").links[0].choice, Some(*choice));
        }
    }

    /// Of two one-way channels each is a gateway's only way out, which it needs for all traffic.
    #[test]
    fn the_only_way_out_carries_everything() {
        let text = |link: &str| {
            format!(
                "duration = \"1 s\"\nstacks = [\"wavelane\"]\nnodes = {{ a = \"gateway\", b = \"gateway\" }}\n\
                 channels = {{ radio = {{ between = [\"a\", \"b\"], forward = {{}}, reverse = \"none\" }}, \
                 modem = {{ between = [\"b\", \"a\"], forward = {{}}, reverse = \"none\" }} }}\n\
                 flows = {{ page = {{ app = \"download\", from = \"a\", to = \"b\" }} }}\n\
                 [links.up]\nlanes = [\"radio\"]\n{link}\n"
            )
        };
        let parse = |link: &str| Scenario::parse(&text(link), Path::new(".")).map_err(|error| error.to_string());
        assert!(parse("metered = [\"modem\"]").is_ok());
        for (link, why) in [
            ("no-bulk = [\"radio\"]", "no lane is left for bulk from 'a' to 'b': take 'radio' out of no-bulk"),
            ("no-bulk = [\"modem\"]", "no lane is left for bulk from 'b' to 'a': take 'modem' out of no-bulk"),
            ("no-small = [\"modem\"]", "small exchanges from 'b' to 'a': take 'modem' out of no-small"),
        ] {
            let error = parse(link).expect_err(link);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn impossible_values_are_refused() {
        for (section, why) in [
            ("[links.up]\nchoice = \"bond\"", "names no lane"),
            ("[links.up]\nlanes = [\"wire\"]", "no channel 'wire'"),
            ("[links.up]\nlanes = [\"radio\"]\nstart-rates = { wire = \"1 kbit/s\" }", "no channel 'wire'"),
            ("[links.up]\nlanes = [\"radio\"]\nstart-rates = { radio = \"0 bit/s\" }", "no line is slower"),
            (
                "[links.up]\nlanes = [\"radio\"]\nstart-rates = { radio = \"299 bit/s\" }",
                "must lie between 300 bit/s and 4 Mbit/s: no line is slower",
            ),
            ("[links.up]\nlanes = [\"radio\"]\nstart-rates = { radio = \"1 Gbit/s\" }", "finds a higher rate itself"),
            ("[links.up]\nlanes = [\"radio\"]\nstart-rates = { radio = \"fast\" }", "is not a rate"),
            ("[links.up]\nlanes = [\"radio\", \"far\"]", "joins other gateways than 'radio'"),
            ("[links.up]\nlanes = [\"radio\", \"radio\"]", "twice"),
            ("[links.up]\nlanes = [\"radio\"]\nchoice = \"fastest\"", "delivery-1998"),
            (
                "[links.up]\nlanes = [\"radio\"]\nno-bulk = [\"radio\", \"modem\"]",
                "no lane is left for bulk from 'a' to 'b': take 'radio' out of no-bulk",
            ),
            (
                "[links.up]\nlanes = [\"radio\"]\nno-small = [\"radio\", \"modem\"]",
                "no lane is left for small exchanges",
            ),
            ("[links.up]\nlanes = [\"radio\"]\nno-bulk = [\"modem\"]\nno-small = [\"modem\"]", "neither bulk nor"),
            ("[links.up]\nlanes = [\"radio\"]\n[links.too]\nlanes = [\"modem\"]", "the same gateways"),
        ] {
            let error = parse(section).expect_err(section);
            assert!(error.contains(why), "{error}");
        }
    }
}
