#![allow(clippy::unwrap_used, reason = "tests")]
use crate::model::{App, ChannelKind, Direction, Scenario, TcpProfile};
use std::path::Path;
use wavelane_base::{Octets, Span};
use wavelane_channel::wifi::{AfterDrop, ErrorsPer, Phy, Reach, Retry};

/// A valid file that the table below damages one line at a time.
const GOOD: &str = r#"duration = "10 s"
stacks = ["tcp-reno", "tcp-reno+rts"]
[tcp]
profile = "ns3-3.44"
segment = "1000 B"
window = "5 kB"
[nodes]
ap = "router"
host = "endpoint"
s1 = "endpoint"
s2 = "endpoint"
[channels.wire]
preset = "ethernet"
between = ["host", "ap"]
[channels.air]
kind = "wifi"
nodes = ["ap", "s1", "s2"]
phy = "802.11b"
preamble = "short"
rate = "11 Mbit/s"
answer-rate = "2 Mbit/s"
rts-rate = "1 Mbit/s"
rts-threshold = "500 B"
rules = "ns3-3.44"
retry = 4
queue = "20 packets"
cw = [15, 255]
reach = "none"
pairs = [
  { between = ["ap", "s1"], hear = "decode", signal = "10 dB" },
  { between = ["ap", "s2"], hear = "decode" },
  { from = "s1", to = "s2", hear = "sense" },
]
capture = { margin = "6 dB" }
errors = { good = "100 ms", bad = "30 ms", in_good = "0", in_bad = "0.01", per = "station", hub = "ap" }
[flows.bulk]
app = "upload"
from = "host"
to = "s1"
[flows.ping]
app = "ping"
from = "s2"
to = "host"
[flows.flood]
app = "saturate"
from = "s2"
to = "s1"
size = "500 B"
"#;

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse(text, Path::new(".")).map_err(|e| e.to_string())
}

#[test]
fn the_good_file_means_what_it_says() {
    let s = parse(GOOD).unwrap();
    let air = s.channel("air").unwrap();
    assert_eq!(air.between, ["ap", "s1", "s2"]);
    let ChannelKind::Wifi(cell) = &air.kind else { panic!("{air:?}") };
    assert_eq!(cell.phy, Phy::HrDsss { short_preamble: true });
    assert_eq!((cell.rts_threshold, cell.queue, cell.cw), (500, 20, Some((15, 255))));
    assert_eq!((cell.rules.retry, cell.rules.after_drop), (Retry::PerFrame(4), AfterDrop::CountsOn(4)));
    assert_eq!(cell.reach.get(0, 1), Reach { signal_db: 10, ..Reach::FULL });
    assert_eq!((cell.reach.get(1, 2), cell.reach.get(2, 1)), (Reach::SENSED, Reach::default()));
    assert_eq!(cell.errors.unwrap().per, ErrorsPer::Station { hub: 0 });
    assert_eq!(s.tcp.profile, TcpProfile::Ns3);
    assert_eq!((s.tcp.segment, s.tcp.window), (Some(Octets::new(1000)), Some(Octets::new(5000))));
    assert_eq!(s.flow("ping").unwrap().app, App::Ping { every: Span::from_secs(1), size: Octets::new(56) });
    // Stations that only sense each other are not joined; the way leads over the one both talk to.
    let way = s.path("s1", "s2").map(|way| way.iter().map(|(c, d)| (c.name.clone(), *d)).collect::<Vec<_>>());
    assert_eq!(way, Some(vec![("air".into(), Direction::Reverse), ("air".into(), Direction::Forward)]));
    assert_eq!(s.bottleneck(s.flow("bulk").unwrap()).unwrap().as_bps(), 11_000_000);
    assert_eq!(parse(&s.to_toml()).unwrap(), s, "{}", s.to_toml());
}

#[test]
fn other_layers_and_defaults_survive_the_resolved_file() {
    for (phy, rate) in [("dsss", 2), ("802.11a", 54), ("802.11g", 54)] {
        let text = format!(
            "duration = \"1 s\"\nstacks = [\"udp\"]\n[nodes]\na = \"endpoint\"\nb = \"endpoint\"\n[channels.air]\n\
             kind = \"wifi\"\nnodes = [\"a\", \"b\"]\nphy = \"{phy}\"\nrate = \"{rate} Mbit/s\"\n\
             errors = {{ good = \"1 s\", bad = \"1 s\", in_good = \"0\", in_bad = \"1\", per = \"cell\" }}\n\
             [flows.f]\napp = \"window\"\nfrom = \"a\"\nto = \"b\"\npackets = 3\n"
        );
        let scenario = parse(&text).unwrap();
        assert_eq!(parse(&scenario.to_toml()).unwrap(), scenario, "{}", scenario.to_toml());
    }
}

/// A line, what stands there instead, and how the refusal ends up.
const WRONG: &[(&str, &str, &str)] = &[
    (
        "rate = \"11 Mbit/s\"",
        "rate = \"54 Mbit/s\"",
        "20: channels.air.rate: 54 Mbit/s is not a rate of 802.11b (short preamble): choose one of 1, 2, 5.5, 11 Mbit/s",
    ),
    (
        "answer-rate = \"2 Mbit/s\"",
        "answer-rate = \"6 Mbit/s\"",
        "21: channels.air.answer-rate: 6 Mbit/s is not a rate",
    ),
    (
        "to = \"s2\", hear",
        "to = \"s1\", hear",
        "32: channels.air.pairs: 's1' is given a reach to itself: a station never hears its own frames, so remove this pair",
    ),
    (
        "to = \"s2\", hear",
        "to = \"s3\", hear",
        "32: channels.air.pairs.to: 's3' is no station of this channel; did you mean 's1'?",
    ),
    (
        "nodes = [\"ap\", \"s1\", \"s2\"]",
        "nodes = [\"ap\", \"s1\", \"s2\", \"s9\"]",
        "15: [channels.air]: there is no node 's9'; did you mean 's1'?",
    ),
    (
        "nodes = [\"ap\", \"s1\", \"s2\"]",
        "nodes = [\"ap\", \"s1\", \"s1\"]",
        "17: channels.air.nodes: 's1' is listed twice: name each station once",
    ),
    (
        "nodes = [\"ap\", \"s1\", \"s2\"]",
        "nodes = [\"ap\"]",
        "17: channels.air.nodes lists 1 stations, outside 2 to 256: add stations, or split the cell",
    ),
    ("phy = \"802.11b\"", "phy = \"802.11x\"", "18: unknown physical layer '802.11x'; did you mean '802.11a'?"),
    ("phy = \"802.11b\"", "phy = \"802.11a\"", "19: channels.air.preamble: 802.11a has only one preamble: remove it"),
    ("preamble = \"short\"", "power = \"20 dBm\"", "19: unknown key 'power' in [channels.air]"),
    ("retry = 4", "retry = 0", "25: channels.air.retry = 0 tries: choose 1 to 255"),
    ("retry = 4", "retry = { short = 7 }", "25: [channels.air.retry] lacks 'long': add long = 4"),
    (
        "queue = \"20 packets\"",
        "queue = \"0 packets\"",
        "26: channels.air.queue: a queue of 0 frames is outside 1 to 65536",
    ),
    ("cw = [15, 255]", "cw = [15, 200]", "27: channels.air.cw: contention windows 15 to 200 are impossible"),
    (
        "margin = \"6 dB\"",
        "margin = \"0 dB\"",
        "34: channels.air.capture: a capture margin of 0 dB would let both frames win",
    ),
    ("bad = \"30 ms\"", "bad = \"0 s\"", "35: channels.air.errors: mean bad time of 0 s is outside"),
    (
        ", hub = \"ap\"",
        "",
        "35: channels.air.errors.per = \"station\" needs the station whose links these are: add hub = \"ap\"",
    ),
    ("hub = \"ap\"", "hub = \"host\"", "35: channels.air.errors.hub: 'host' is no station of this channel"),
    ("hear = \"sense\"", "hear = \"see\"", "32: unknown reach 'see'; "),
    ("segment = \"1000 B\"", "segment = \"3 kB\"", "5: tcp.segment = 3 kB lies outside 40 to 2200"),
    ("profile = \"ns3-3.44\"", "profile = \"ns4\"", "4: unknown profile 'ns4'; "),
    ("window = \"5 kB\"", "mss = \"5 kB\"", "6: unknown key 'mss' in [tcp]"),
    ("size = \"500 B\"", "size = \"4 B\"", "44: [flows.flood]: a datagram's size lies between 16 B and 2200 B"),
    (
        "from = \"s2\"\nto = \"s1\"",
        "from = \"host\"\nto = \"s1\"",
        "44: [flows.flood]: 'host' reaches 's1' by a cable, and only a radio station can be saturated",
    ),
];

#[test]
fn what_cannot_be_is_refused_with_its_line_and_a_remedy() {
    let mut wrong = Vec::new();
    for (line, instead, part) in WRONG {
        assert!(GOOD.contains(line), "{line}");
        let error = parse(&GOOD.replacen(line, instead, 1)).unwrap_err();
        if !error.contains(part) {
            wrong.push(format!("{instead}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let change = format!("{GOOD}[[timeline]]\nat = \"1 s\"\nset = \"air.forward.rate\"\nto = \"1 Mbit/s\"\n");
    assert!(parse(&change).unwrap_err().contains("'air' is a wifi channel, whose parameters do not change"));
}
