#![allow(clippy::unwrap_used, reason = "tests")]

use super::Setting;
use super::{is_same, lies_in};
use crate::{App, Quantity, Scenario};
use std::path::Path;

const FILE: &str = "../../scenarios/smoke/one_hop.toml";

fn set(settings: &[&str]) -> Result<Scenario, String> {
    let settings: Vec<Setting> = settings.iter().map(|s| Setting::read(s).unwrap()).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    Scenario::load_with(&path, &settings).map_err(|e| e.to_string())
}

#[test]
fn values_take_the_place_of_the_files() {
    let plain = set(&[]).unwrap();
    let changed = set(&[
        "air.forward.rate=5 Mbit/s",
        "channels.air.forward.delay = \"20 ms\"",
        "air.forward.loss={ kind = \"random\", p = \"1/20\" }",
        "page.size=500 kB",
        "duration=7 s",
        "seed=9",
        "stacks=[\"tcp-bbr\", \"wavelane\"]",
    ])
    .unwrap();
    let air = |s: &Scenario, forward| {
        let way = if forward { crate::Direction::Forward } else { crate::Direction::Reverse };
        s.channels[1].direction(way).unwrap().clone()
    };
    assert_eq!(air(&changed, true).rate.unwrap().write(), "5 Mbit/s");
    assert_eq!(air(&changed, true).delay.write(), "20 ms");
    assert_eq!(air(&changed, false), air(&changed, true), "reverse = \"same\" follows");
    assert_eq!((changed.seed.0, changed.duration.write(), changed.stacks.len()), (9, "7 s".into(), 2));
    assert!(matches!(changed.flows[0].app, App::Download { size: Some(size) } if size.get() == 500_000));
    assert_eq!(changed.checks, plain.checks);
    // One direction alone.
    let back = set(&["air.reverse.rate=100 kbit/s"]).unwrap();
    assert_eq!(air(&back, true), air(&plain, true));
    assert_eq!(air(&back, false).rate.unwrap().write(), "100 kbit/s");
    assert_eq!(air(&back, false).delay, air(&plain, false).delay);
    // A preset has no table of its own.
    let preset = set(&["lan_client.forward.delay=3 ms"]).unwrap();
    assert_eq!(preset.channels[0].direction(crate::Direction::Forward).unwrap().delay.write(), "3 ms");
}

/// What a shell passes on has no quotes and no brackets.
#[test]
fn numbers_are_texts_and_single_values_lists_where_those_are_wanted() {
    let with = |more: &str| {
        let settings = ["checks.fast.flow=page", "checks.fast.metric=goodput_bps", "checks.fast.at-least=true"];
        let stacks = ["stacks=[\"tcp-bbr\", \"wavelane\"]", "checks.fast.than=tcp-bbr", more];
        set(&[&settings[..], &stacks].concat()).unwrap()
    };
    for factor in ["2", "2.0", "\"2\"", "4/2"] {
        let scenario = with(&format!("checks.fast.times={factor}"));
        assert_eq!(scenario.checks, with("checks.fast.times=\"2\"").checks, "{factor}");
    }
    let one = set(&["stacks=wavelane"]).unwrap();
    assert_eq!(one.stacks, set(&["stacks=[\"wavelane\"]"]).unwrap().stacks);
    assert_eq!(one.stacks.len(), 1);
    let error = set(&["stacks=wavelame"]).unwrap_err();
    assert!(error.contains("wavelame") && error.contains("wavelane"), "{error}");
    // A file says what it means.
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE)).unwrap();
    let text = text.replacen("stacks = [\"wavelane\"]", "stacks = \"wavelane\"", 1);
    let error = Scenario::parse(&text, Path::new(".")).unwrap_err().to_string();
    assert!(error.contains("stacks must be a list of stacks"), "{error}");
}

#[test]
fn wrong_settings_name_their_key() {
    for (setting, part) in [
        ("airr.forward.rate=5 Mbit/s", "unknown beginning of a key 'airr'; did you mean 'air'?"),
        (
            "channels.arr.forward.rate=5 Mbit/s",
            "(--set makes [channels.arr], which the file does not have; did you mean 'air'?)",
        ),
        ("flows.more.app=echo", "[flows.more] lacks 'from': add from = \"client\" (--set makes [flows.more], which"),
        ("tcp.profil=stack", "unknown key 'profil' in [tcp]; did you mean 'profile'?"),
        ("pages.size=1 MB", "unknown beginning of a key 'pages'; did you mean 'page'?"),
        ("more.app=echo", "a new one begins with its table, such as flows.more.app"),
        ("air.forward.rate=5 MB/s", "channels.air.forward.rate: '5 MB/s' is not a rate"),
        ("air.forward.rate=5", "channels.air.forward.rate: '5' is not a rate"),
        ("air.forward.rats=5 Mbit/s", "unknown key 'rats' in [channels.air.forward]; did you mean 'rate'?"),
        ("air.kind.rate=5 Mbit/s", "channels.air.kind is no table"),
        ("duration=10", "duration: '10' is not a time"),
        ("seed=x", "seed must be a whole number from 0, such as 7, not a text"),
        ("seed=1.5", "seed must be a whole number from 0, such as 7, not 1.5"),
        ("seed=-1", "seed must be a whole number from 0, such as 7, not -1"),
    ] {
        let error = set(&[setting]).unwrap_err();
        assert!(error.contains("one_hop.toml with --set: ") && error.contains(part), "{setting}: {error}");
    }
    let error = Setting::read("call.codec=").unwrap_err();
    assert!(error.starts_with("call.codec has no value: write call.codec=VALUE"), "{error}");
    for wrong in ["air.forward.rate", "=5 Mbit/s", "air..rate=1", "air.forward.rate="] {
        assert!(Setting::read(wrong).is_err(), "{wrong}");
    }
}

/// Tables that the file does not have are made, behind its own.
#[test]
fn new_tables_are_made() {
    let file = set(&[]).unwrap();
    let changed = set(&[
        "flows.back.app=upload",
        "flows.back.from=client",
        "flows.back.to=server",
        "flows.back.size=1 MB",
        "flows.again={ app = \"echo\", from = \"client\", to = \"server\" }",
        "checks.done.flow=back",
        "checks.done.metric=completed",
        "checks.done.at-least=true",
        "tcp.segment=1000 B",
        "gateways.a.seal=end-to-end",
        "gateways.b.seal=end-to-end",
        "links.air.lanes=[\"air\"]",
    ])
    .unwrap();
    let flows: Vec<&str> = changed.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(flows, ["page", "echo", "back", "again"]);
    assert!(matches!(changed.flows[2].app, App::Upload { size: Some(size) } if size.get() == 1_000_000));
    assert_eq!(changed.checks.last().unwrap().name, "done");
    assert_eq!((changed.gateways.len(), changed.links.len(), changed.tcp == file.tcp), (2, 1, false));
}

#[test]
fn a_name_of_two_kinds_wants_its_table() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE)).unwrap();
    let text = text.replace("channels.lan_client", "channels.page");
    let both = [Setting::read("page.size=1 MB").unwrap()];
    let error = Scenario::parse_with(&text, Path::new("."), &both).unwrap_err().to_string();
    assert!(error.contains("write channels.page.size or flows.page.size"), "{error}");
}

#[test]
fn keys_of_different_tables_are_different_keys() {
    assert!(is_same("x.rate", "channels.x.rate") && is_same("flows.x.rate", "x.rate"));
    assert!(!is_same("channels.x.rate", "flows.x.rate"));
    assert!(lies_in("channels.x.forward.rate", "x.forward") && !lies_in("channels.x.rate", "flows.x"));
    assert!(!lies_in("x.forward.rates", "x.forward.rate"));
}
