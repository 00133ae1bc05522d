//! Which of several channels plain routers take.

use crate::common::run_scenario;
use std::path::Path;
use wavelane_scenario::{Scenario, Setting};

/// The octets offered to each direction of the channels between the gateways, under the scenario's first stack.
fn ways(text: &str, settings: &[&str]) -> Vec<(String, u64)> {
    let settings: Vec<Setting> = settings.iter().map(|s| Setting::read(s).unwrap()).collect();
    let scenario = Scenario::parse_with(text, Path::new("."), &settings).unwrap();
    let raw = run_scenario(&scenario, scenario.stacks[0], 1);
    assert!(raw.flows[0].completed && raw.flows[0].intact == Some(true), "{}", raw.flows[0].octets);
    raw.ways.into_iter().map(|way| (format!("{} {}", way.channel, way.way), way.octets)).collect()
}

/// Those that anything was offered to, and whether it was more than the body.
fn used(ways: Vec<(String, u64)>, body: u64) -> Vec<(String, bool)> {
    let busy = ways.into_iter().filter(|(_, octets)| *octets > 0);
    busy.map(|(way, octets)| (way, octets > body)).collect()
}

fn way(name: &str, large: bool) -> (String, bool) {
    (name.to_owned(), large)
}

#[test]
fn the_reply_goes_by_the_modem() {
    let text = |stack: &str, routes: &str| {
        format!(
            "duration = \"60 s\"\nstacks = [\"{stack}\"]\n\
             nodes = {{ c = \"endpoint\", a = \"gateway\", b = \"gateway\", s = \"endpoint\" }}\n\
             channels = {{ near = {{ preset = \"ethernet\", between = [\"c\", \"a\"] }}, far = {{ preset = \"ethernet\", between = [\"b\", \"s\"] }}, \
             radio = {{ between = [\"a\", \"b\"], forward = {{ rate = \"2 Mbit/s\", delay = \"10 ms\", queue = \"50 kB\" }}, reverse = \"same\" }}, \
             modem = {{ between = [\"b\", \"a\"], forward = {{ rate = \"400 kbit/s\", delay = \"10 ms\", queue = \"20 kB\" }}, reverse = \"same\" }} }}\n\
             flows = {{ up = {{ app = \"upload\", from = \"c\", to = \"s\", size = \"1 MB\" }} }}\n{routes}\n"
        )
    };
    const BODY: u64 = 1_000_000;
    let of = |routes: &str| used(ways(&text("tcp-cubic", routes), &[]), BODY);
    assert_eq!(of(""), [way("radio forward", true), way("radio reverse", false)]);
    let back = "[routes]\n\"b -> a\" = \"modem\"";
    assert_eq!(of(back), [way("radio forward", true), way("modem forward", false)]);
    let swapped = "[routes]\n\"a -> b\" = \"modem\"\n\"b -> a\" = \"radio\"";
    assert_eq!(of(swapped), [way("radio reverse", false), way("modem reverse", true)]);
    // Gateways use both, whatever is said of plain routers.
    let both = |routes: &str| ways(&text("wavelane", routes), &[]);
    assert!(both(back).iter().all(|(_, octets)| *octets > 0), "{:?}", both(back));
    assert_eq!(both(back), both(""));
}

/// The guide's example beside the demo's channel: acknowledgements go by the modem.
#[test]
fn the_guides_routes_hold() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let page = read("docs/guide/scenarios.md");
    let block = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let block = block.into_iter().find(|block| block.contains("[routes]")).unwrap();
    let text = format!("{}\n{block}", read("scenarios/demo.toml"));
    let ways = ways(&text, &["page.size=1 MB", "duration=60 s"]);
    assert_eq!(used(ways, 1_000_000), [way("air reverse", true), way("modem forward", false)]);
}
