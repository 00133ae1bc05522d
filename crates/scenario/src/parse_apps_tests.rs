#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::refusal_tests::parse;

/// A cell with a host behind a wire; `flow` is the body of its flow.
fn text(flow: &str) -> String {
    format!(
        r#"
duration = "10 s"
stacks = ["tcp-reno"]
[nodes]
host = "endpoint"
ap = "router"
s1 = "endpoint"
[channels.wire]
kind = "cable"
between = ["host", "ap"]
forward = {{ rate = "5 Mbit/s", delay = "2 ms" }}
reverse = "same"
[channels.air]
kind = "wifi"
nodes = ["ap", "s1"]
phy = "dsss"
rate = "2 Mbit/s"
[flows.f]
from = "s1"
to = "host"
{flow}
"#
    )
}

fn app(flow: &str) -> App {
    parse(&text(flow)).unwrap().flows[0].app.clone()
}

#[test]
fn omitted_keys_have_the_models_defaults() {
    let App::Web(web) = app("app = \"web\"") else { panic!("a web flow") };
    assert_eq!(*web, webtraf_2001());
    let App::Web(web) = app("app = \"web\"\nmodel = \"almanac-2024\"\nobjects = 3") else { panic!("a web flow") };
    assert_eq!(*web, Web { objects: 3, ..almanac_2024() });
    let App::Voice(voice) = app("app = \"voice\"") else { panic!("a call") };
    assert_eq!((voice.spurts.every(), voice.deadline), (Span::from_millis(50), Span::from_millis(500)));
    let App::Telnet { every, size } = app("app = \"telnet\"") else { panic!("telnet") };
    assert_eq!((every, size), (Span::from_secs(1), Octets::new(1)));
    let App::OnOff(spurts) = app("app = \"on-off\"\nrate = \"160 kbit/s\"") else { panic!("on-off") };
    assert_eq!((spurts.every(), spurts.on), (Span::from_millis(10), Span::from_secs(1)));
}

#[test]
fn every_application_is_written_as_it_is_read() {
    for flow in [
        "app = \"web\"\nshape = \"1.35\"\npages = 7\ndocument = \"2 kB\"\ngap = \"20 ms\"\ncontrol = \"cubic\"",
        "app = \"web\"\nmodel = \"almanac-2024\"",
        "app = \"voice\"\nsize = \"800 B\"\ncodec = \"g711\"\ndeadline = \"150 ms\"\ntalk = \"2 s\"",
        "app = \"on-off\"\nrate = \"1 Mbit/s\"\noff = \"3 s\"",
        "app = \"telnet\"\nevery = \"250 ms\"\nsize = \"3 B\"",
    ] {
        let scenario = parse(&text(flow)).unwrap();
        assert_eq!(parse(&scenario.to_toml()).unwrap(), scenario, "{flow}");
    }
}

#[test]
fn impossible_flows_are_refused_with_line_and_remedy() {
    for (flow, line, why) in [
        ("app = \"web\"\nsize = \"0 B\"", 22, "size = 0 B: choose 1 to"),
        ("app = \"web\"\ndocument = \"0 B\"", 22, "choose 1 to"),
        ("app = \"web\"\nobjects = 0", 22, "choose 1 to 1000"),
        ("app = \"web\"\nshape = \"1\"", 22, "write a number from 1.01"),
        ("app = \"web\"\nmodel = \"webtraf-201\"", 22, "did you mean 'webtraf-2001'?"),
        ("app = \"web\"\nthink = \"0 s\"", 22, "choose 1 ms to"),
        ("app = \"voice\"\nsize = \"8 B\"", 22, "choose 16 to 2200 B"),
        ("app = \"voice\"\nsize = \"1000 B\"\ndeadline = \"5 ms\"", 23, "lengthen it or send smaller ones"),
        ("app = \"voice\"\nrate = \"0 bit/s\"", 22, "sends one never, outside "),
        ("app = \"voice\"\nrate = \"50 bit/s\"", 22, "have spurts last 3200 ms at least"),
        ("app = \"voice\"\ntalk = \"1 ms\"", 22, "hardly any spurt has one"),
        ("app = \"on-off\"\nrate = \"10 kbit/s\"\non = \"15 ms\"", 23, "have spurts last 16 ms at least"),
        ("app = \"voice\"\nevery = \"10 ms\"", 22, "unknown key 'every'"),
        ("app = \"on-off\"", 19, "lacks 'rate'"),
        ("app = \"on-off\"\nrate = \"100 Gbit/s\"", 22, "in datagrams of 200 B sends one every 16 ns, outside "),
        ("app = \"telnet\"\nsize = \"2 kB\"", 22, "choose 1 to 1400 B"),
        ("app = \"telnet\"\nsize = \"0 B\"", 22, "choose 1 to 1400 B"),
        ("app = \"on-off\"\nrate = \"1 Mbit/s\"\nsize = \"0 B\"", 23, "to 2200 B"),
    ] {
        let error = parse(&text(flow)).unwrap_err();
        assert!(error.contains(why), "{flow}: {error}");
        assert!(error.contains(&format!("{line}: ")), "{flow} is on line {line}: {error}");
    }
}

/// Over the wire a datagram of 1000 B takes 3.6 ms; in the cell before it 1.4 ms at the slowest rate of 802.11n and 0.2 ms at
/// the fastest, which is also what an adaptive sender can reach.
#[test]
fn a_deadline_below_the_airtime_is_refused_and_one_above_is_not() {
    let call = |mcs: &str, deadline: &str| {
        let flow = format!("app = \"voice\"\nsize = \"1000 B\"\ndeadline = \"{deadline}\"");
        let cell = format!("phy = \"802.11n\"\nmcs = {mcs}\naggregate = {{}}");
        parse(&text(&flow).replace("phy = \"dsss\"\nrate = \"2 Mbit/s\"", &cell))
    };
    for (mcs, least, refused) in
        [("0", "5200 us", "4700 us"), ("7", "4 ms", "3700 us"), ("\"adaptive\"", "4 ms", "3700 us")]
    {
        call(mcs, least).unwrap();
        let why = call(mcs, refused).unwrap_err();
        assert!(why.starts_with("24: ") && why.contains("lengthen it or send smaller ones"), "{why}");
    }
}
