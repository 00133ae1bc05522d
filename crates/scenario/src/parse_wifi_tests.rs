#![allow(clippy::unwrap_used, reason = "tests")]
use crate::model::Scenario;
use crate::model::{App, ChannelKind, Direction};
use crate::refusal_tests::{parse, refused};
use wavelane_base::{Instant, Octets, Ratio, Span};
use wavelane_channel::wifi::{
    Access, AfterDrop, Aggregate, CapturePoint, Category, Edca, ErrorsPer, Fec, FecCode, FecFrames, Phy, Reach, Retry,
    Rules, SNAPLEN_MAX, StationQueue, Width,
};
use wavelane_channel::{AqlTerms, CoDelTimes, Discipline, QueueLimit};
use wavelane_settings::TcpProfile;

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

#[test]
fn losses_of_pairs_survive_their_text() {
    let loses = |pair: &str| parse(&GOOD.replacen("]\ncapture", &format!("{pair}]\ncapture"), 1));
    let s = loses("{ from = \"ap\", to = \"s2\", hear = \"decode\", loss = \"1/4\", drop = \"0.125\", outages = [{ at = \"1 s\", for = \"2 s\" }] }").unwrap();
    let cell = |s: &Scenario| s.channel("air").unwrap().cell().unwrap().reach.clone();
    let lost = cell(&s).loss(0, 2);
    assert_eq!((lost.air.as_f64(), lost.drop.as_f64(), cell(&s).loss(2, 0).air.as_f64()), (0.25, 0.125, 0.0));
    assert_eq!(cell(&parse(&s.to_toml()).unwrap()), cell(&s));
    let off = |at: u64| Instant::ZERO + Span::from_secs(at);
    assert_eq!((lost.outages, cell(&s).calm().loss(0, 2).outages.len()), (vec![(off(1), off(3))], 0));
    let twice = "{ at = \"1 s\", for = \"2 s\" }, { at = \"2 s\", for = \"2 s\" }";
    let why = loses(&format!("{{ from = \"ap\", to = \"s2\", hear = \"decode\", outages = [{twice}] }}")).unwrap_err();
    assert!(why.contains("channels.air.pairs: outages: "), "{why}");
    let why = loses("{ from = \"ap\", to = \"s2\", hear = \"sense\", loss = \"1/4\" }").unwrap_err();
    assert!(why.contains("only frames that are decoded can be lost"), "{why}");
}

#[test]
fn the_good_file_parses_to_its_values() {
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
    assert_eq!(s.tcp.profile, Some(TcpProfile::Ns3));
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

/// 802.11n; entries of the test below damage a line.
const HT: &str = r#"duration = "1 s"
stacks = ["udp"]
[nodes]
a = "endpoint"
b = "endpoint"
[channels.air]
kind = "wifi"
nodes = ["a", "b"]
phy = "802.11n"
guard = "short"
mcs = 7
aggregate = { frames = 16 }
[flows.f]
app = "saturate"
from = "a"
to = "b"
"#;

#[test]
fn high_throughput_cells_parse() {
    let s = parse(HT).unwrap();
    let cell = s.channel("air").unwrap().cell().unwrap();
    assert_eq!((cell.phy, cell.rate.as_bps()), (Phy::Ht { short_guard: true }, 72_222_222));
    assert_eq!(cell.aggregate, Some(Aggregate { frames: 16, octets: 65_535 }));
    assert_eq!(parse(&s.to_toml()).unwrap(), s, "{}", s.to_toml());
    let adaptive = parse(&HT.replace("mcs = 7", "mcs = \"adaptive\"\nnoise = \"-25 dB\"")).unwrap();
    let cell = adaptive.channel("air").unwrap().cell().unwrap();
    assert_eq!((cell.adapts, cell.noise_db), (true, Some(-25)));
    assert_eq!(parse(&adaptive.to_toml()).unwrap(), adaptive, "{}", adaptive.to_toml());
    let plain = parse(&HT.replace("aggregate = { frames = 16 }\nguard = \"short\"\n", "")).unwrap();
    assert_eq!(parse(&plain.to_toml()).unwrap(), plain);
    refused(
        HT,
        &[
            (
                "mcs = 7",
                "mcs = 8",
                "11: channels.air.mcs = 8 is not one of 802.11n (short guard): choose 0 to 7, or \"adaptive\"",
            ),
            (
                "mcs = 7",
                "rate = \"65 Mbit/s\"",
                "11: channels.air.rate: 802.11n (short guard) has its rates by mcs: ...",
            ),
            ("\"802.11n\"", "\"802.11a\"", "10: channels.air.guard: 802.11a has only one guard: remove it ..."),
            (
                "mcs = 7\naggregate = { frames = 16 }",
                "mcs = \"adaptive\"",
                "11: channels.air.mcs: rate control is modelled for aggregates: ...",
            ),
            (
                "frames = 16",
                "frames = 65",
                "12: channels.air.aggregate: aggregates of 65 frames and 65535 B are outside 1 to 64 frames and 8191 to 65535 B of ...",
            ),
            (
                "frames = 16",
                "size = \"1 kB\"",
                "12: channels.air.aggregate: aggregates of 64 frames and 1000 B are outside ...",
            ),
            (
                "aggregate = { frames = 16 }",
                "pcap = { at = [\"medium\"] }",
                "12: channels.air.pcap: a capture is not modelled with 802.11n (short guard): ...",
            ),
        ],
    );
}

#[test]
fn very_high_throughput_cells_parse() {
    let vht = HT.replace("phy = \"802.11n\"", "phy = \"802.11ac\"\nwidth = \"40 MHz\"\nstreams = 2");
    let s = parse(&vht.replace("{ frames = 16 }", "{}")).unwrap();
    let cell = s.channel("air").unwrap().cell().unwrap();
    assert_eq!(cell.phy, Phy::Vht { width: Width::Mhz40, streams: 2, short_guard: true });
    assert_eq!((cell.rate.as_bps(), cell.aggregate), (300_000_000, Some(Aggregate::LARGEST_VHT)));
    assert_eq!(parse(&s.to_toml()).unwrap(), s, "{}", s.to_toml());
    let adaptive = parse(&vht.replace("mcs = 7", "mcs = \"adaptive\"\nnoise = \"-25 dB\"")).unwrap();
    assert!(adaptive.channel("air").unwrap().cell().unwrap().adapts);
    assert_eq!(parse(&adaptive.to_toml()).unwrap(), adaptive, "{}", adaptive.to_toml());
    let plain = parse(&HT.replace("phy = \"802.11n\"\nguard = \"short\"", "phy = \"802.11ac\"")).unwrap();
    let shape = Phy::Vht { width: Width::Mhz80, streams: 1, short_guard: false };
    assert_eq!(plain.channel("air").unwrap().cell().unwrap().phy, shape);
    refused(
        &vht,
        &[
            ("\"40 MHz\"", "\"160 MHz\"", "10: unknown width '160 MHz'; ..."),
            (
                "streams = 2",
                "streams = 3",
                "11: channels.air.streams = 3 spatial streams are not modelled: choose 1 to 2",
            ),
            (
                "mcs = 7",
                "mcs = 10",
                "13: channels.air.mcs = 10 is not one of 802.11ac (40 MHz, 2 streams, short guard): choose 0 to 9, or ...",
            ),
            (
                "frames = 16",
                "size = \"2 MiB\"",
                "14: channels.air.aggregate: aggregates of 64 frames and 2097152 B ...",
            ),
            (
                "phy = \"802.11ac\"",
                "phy = \"802.11n\"",
                "10: channels.air.width: 802.11n is modelled 20 MHz wide at most, with one stream: remove it, or ...",
            ),
            (
                "frames = 16 }",
                "frames = 16 }\npcap = { at = [\"medium\"] }",
                "15: channels.air.pcap: a capture is not modelled with 802.11ac (40 MHz, 2 streams, short guard): ...",
            ),
        ],
    );
    // MCS 9 has no whole number of bits in a symbol of 20 MHz (Tables 21-30 and 21-31).
    refused(
        &vht.replace("40 MHz", "20 MHz"),
        &[(
            "mcs = 7",
            "mcs = 9",
            "13: channels.air.mcs = 9 is not one of 802.11ac (20 MHz, 2 streams, short guard): choose 0 to 8, or ...",
        )],
    );
}

/// Categories, coding, captures; each entry below damages a line.
const RICH: &str = r#"duration = "10 s"
stacks = ["udp"]
[nodes]
ap = "endpoint"
s1 = "endpoint"
s2 = "endpoint"
[channels.air]
kind = "wifi"
nodes = ["ap", "s1", "s2"]
phy = "802.11a"
rate = "54 Mbit/s"
edca = { voice = { aifsn = 3, cw = [7, 15], txop = "1 ms" }, background = { txop = "0 s" } }
errors = { good = "100 ms", bad = "30 ms", in_good = "0", in_bad = "0.01", per = "receiver" }
fec = { kind = "residual", ber = "0.00057", code-rate = "3/4", frames = "all", feedback = "5 ms" }
pcap = { at = ["medium", "s1"], bytes = "128 B" }
[flows.call]
app = "cbr"
from = "s1"
to = "ap"
every = "20 ms"
size = "160 B"
category = "voice"
no-ack = true
[flows.flood]
app = "saturate"
from = "s2"
to = "ap"
[flows.film]
app = "saturate"
from = "s2"
to = "ap"
category = "video"
"#;

#[test]
fn bit_errors_are_named_beside_a_code() {
    let error = parse(&RICH.replace("good = \"100 ms\"", "good = \"0 s\"")).unwrap_err();
    assert!(error.contains("channels.air.errors: mean good time of 0 s is outside"), "{error}");
}

#[test]
fn categories_coding_and_captures_survive_the_resolved_file() {
    let s = parse(RICH).unwrap();
    let cell = s.channel("air").unwrap().cell().unwrap();
    let edca = cell.edca.unwrap();
    let plain = Edca::standard(Phy::Ofdm);
    let voice = Access { aifsn: 3, cw_min: 7, cw_max: 15, txop: Span::from_millis(1) };
    assert_eq!(edca.access[Category::Voice as usize], voice);
    let background = Access { txop: Span::ZERO, ..plain.access[Category::Background as usize] };
    assert_eq!(edca.access[Category::Background as usize], background);
    assert_eq!(edca.access[Category::Video as usize], plain.access[Category::Video as usize]);
    let code = FecCode::Residual { ber: Ratio::new(57, 100_000).unwrap(), rate: Ratio::new(3, 4).unwrap() };
    assert_eq!(cell.fec, Some(Fec { code, frames: FecFrames::All, feedback: Span::from_millis(5) }));
    assert_eq!((&cell.captures[..], cell.snaplen), (&[CapturePoint::Medium, CapturePoint::Station(1)][..], 128));
    let handling = |flow: &str| s.flow(flow).map(|flow| (flow.category, flow.no_ack));
    assert_eq!(handling("call"), Some((Some(Category::Voice), true)));
    assert_eq!(handling("flood"), Some((None, false)));
    assert_eq!(parse(&s.to_toml()).unwrap(), s, "{}", s.to_toml());
    // The other ways to write it, and what is left out.
    let (a, b) = (RICH.find("edca").unwrap(), RICH.find("errors").unwrap());
    let standard = RICH.replace(&RICH[a..b], "edca = \"standard\"\n");
    let (a, b) = (standard.find("fec").unwrap(), standard.find("pcap").unwrap());
    let real = standard.replace(&standard[a..b], "fec = { kind = \"reed-solomon\", length = 31, data = 22 }\n");
    let s = parse(&real.replace(", bytes = \"128 B\"", "")).unwrap();
    let cell = s.channel("air").unwrap().cell().unwrap();
    assert_eq!((cell.edca, cell.snaplen), (Some(plain), SNAPLEN_MAX));
    let fec = Fec { code: FecCode::RS_31_22, frames: FecFrames::Data, feedback: Span::ZERO };
    assert_eq!(cell.fec, Some(fec));
    assert_eq!(parse(&s.to_toml()).unwrap(), s, "{}", s.to_toml());
}

/// Cards before 802.11.
const OLD: &str = r#"duration = "1 s"
stacks = ["udp"]
[nodes]
a = "endpoint"
b = "endpoint"
[channels.air]
kind = "wifi"
nodes = ["a", "b"]
phy = "wavelan"
rate = "2 Mbit/s"
overhead = "1 ms"
[flows.f]
app = "saturate"
from = "a"
to = "b"
"#;

#[test]
fn wavelan_has_its_own_rules_and_overhead() {
    let s = parse(OLD).unwrap();
    let cell = s.channel("air").unwrap().cell().unwrap();
    assert_eq!((cell.phy, cell.rules), (Phy::wavelan(Span::from_millis(1)), Rules::wavelan_1995()));
    assert_eq!(parse(&s.to_toml()).unwrap(), s, "{}", s.to_toml());
    let by_default = parse(&OLD.replace("overhead = \"1 ms\"\n", "")).unwrap();
    assert_eq!(by_default.channel("air").unwrap().cell().unwrap().phy, Phy::wavelan(Span::from_micros(700)));
}

#[test]
fn wavelan_refuses_keys_of_802_11() {
    refused(
        OLD,
        &[
            (
                "overhead = \"1 ms\"",
                "edca = \"standard\"",
                "11: channels.air.edca: WaveLAN has no acknowledgements, RTS or categories: remove it",
            ),
            (
                "overhead = \"1 ms\"",
                "rts-threshold = \"0 B\"",
                "11: channels.air.rts-threshold: WaveLAN has no acknowledgements, RTS or categories: remove it",
            ),
            (
                "overhead = \"1 ms\"",
                "rules = \"standard\"",
                "11: channels.air.rules: WaveLAN does not use the rules of 802.11: remove it, or write \"wavelan-1995\"",
            ),
            (
                "\"1 ms\"",
                "\"100 us\"",
                "11: channels.air.overhead = 100 us lies outside 232500 ns to 10 ms: choose a value inside, such as \"700 us\"",
            ),
            (
                "overhead = \"1 ms\"",
                "pcap = { at = [\"medium\"] }",
                "11: channels.air.pcap: WaveLAN's frames are not 802.11, so no capture file can hold them: leave the capture out",
            ),
            (
                "to = \"b\"",
                "to = \"b\"\nno-ack = true",
                "16: [flows.f]: no radio cell on its way acknowledges any frame: remove no-ack",
            ),
            (
                "\"wavelan\"\nrate = \"2 Mbit/s\"\noverhead = \"1 ms\"",
                "\"dsss\"\nrate = \"2 Mbit/s\"\nrules = \"wavelan-1995\"",
                "11: channels.air.rules: \"wavelan-1995\" are the rules of WaveLAN, not of DSSS: choose others, or write phy = \"wavelan\"",
            ),
            (
                "\"wavelan\"",
                "\"dsss\"",
                "11: channels.air.overhead: what a frame of DSSS costs is in its standard: remove it, or write phy = \"wavelan\"",
            ),
        ],
    );
}

const WRONG_RICH: &[(&str, &str, &str)] = &[
    ("background =", "bulk =", "12: unknown key 'bulk' in [channels.air.edca]; ..."),
    ("voice = {", "voicce = {", "12: unknown key 'voicce' in [channels.air.edca]; did you mean 'voice'?"),
    ("aifsn = 3", "aifsn = 1", "12: channels.air.edca.voice.aifsn = 1 is outside 2 to 15: choose one inside"),
    ("[7, 15]", "[7, 16]", "12: channels.air.edca: contention windows 7 to 16 are impossible: ..."),
    ("\"1 ms\"", "\"3 s\"", "12: channels.air.edca: a TXOP limit of 3 s for Voice is above 2097120 us: ..."),
    ("edca = {", "cw = [15, 31]\nedca = {", "12: channels.air.cw: contention windows are given apart from EDCA: ..."),
    (
        "edca =",
        "# edca =",
        "22: [flows.call] has a category, and no radio cell on its way has edca: add edca = \"standard\" to the cell, or remove category",
    ),
    (
        "\"3/4\"",
        "\"1/5\"",
        "14: channels.air.fec: a code of rate 1/5 is outside 1/4 to 1: choose one inside, such as 71/100",
    ),
    (
        "\"3/4\"",
        "\"4/3\"",
        "14: channels.air.fec.code-rate: '4/3' is not a share between 0 and 1, such as \"1/20\": it lies outside 0 to 1",
    ),
    ("\"5 ms\"", "\"1 s\"", "14: channels.air.fec: channel feedback 1 s old is above 20 ms: choose a shorter age"),
    (
        "\"residual\", ber = \"0.00057\", code-rate = \"3/4\"",
        "\"reed-solomon\", length = 32, data = 22",
        "14: channels.air.fec: RS(32,22) is no Reed-Solomon code used here: ...",
    ),
    (
        "\"residual\", ber = \"0.00057\", code-rate = \"3/4\"",
        "\"reed-solomon\", length = 255, data = 22",
        "14: channels.air.fec: RS(255,22) is no Reed-Solomon code used here: ...",
    ),
    (
        "\"residual\", ber = \"0.00057\", code-rate = \"3/4\"",
        "\"reed-solomon\", length = 31, data = 31",
        "14: channels.air.fec: RS(31,31) is no Reed-Solomon code used here: ...",
    ),
    (
        "\"residual\", ber = \"0.00057\", code-rate = \"3/4\"",
        "\"reed-solomon\", length = 31, data = 0",
        "14: channels.air.fec: RS(31,0) is no Reed-Solomon code used here: ...",
    ),
    ("kind = \"residual\"", "kind = \"turbo\"", "14: unknown kind of error correction 'turbo'; ..."),
    (
        "errors =",
        "noise = \"0 dB\"\nerrors =",
        "13: channels.air.noise: frames meet either noise or the errors that a code corrects: ...",
    ),
    ("errors =", "# errors =", "14: channels.air.fec: error correction is asked for without bit errors: ..."),
    ("\"128 B\"", "\"8 B\"", "15: channels.air.pcap: 8 bytes kept of each captured frame are outside 49 to ..."),
    (
        "\"medium\", \"s1\"",
        "\"medium\", \"s3\"",
        "15: channels.air.pcap.at: 's3' is no station of this channel; did you mean 's1'?",
    ),
    ("\"medium\", \"s1\"", "\"s1\", \"s1\"", "15: channels.air.pcap.at: 's1' is listed twice: name each place once"),
    ("\"medium\", \"s1\"", "", "15: channels.air.pcap.at is empty: ..."),
    ("category = \"voice\"", "category = \"loud\"", "22: unknown access category 'loud'; ..."),
    (
        "category = \"video\"",
        "",
        "28: [flows.film]: 's2' is saturated by [flows.flood] already: use another station, or with edca another category",
    ),
];

#[test]
fn impossible_categories_codes_and_captures_are_refused() {
    refused(RICH, WRONG_RICH);
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
        "21: channels.air.answer-rate: 6 Mbit/s is not a rate...",
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
    (
        "phy = \"802.11b\"",
        "phy = \"802.11a\"",
        "19: channels.air.preamble: 802.11a has only one preamble: remove it ...",
    ),
    ("preamble = \"short\"", "power = \"20 dBm\"", "19: unknown key 'power' in [channels.air]..."),
    ("retry = 4", "retry = 0", "25: channels.air.retry = 0 tries: choose 1 to 255"),
    ("retry = 4", "retry = { short = 7 }", "25: [channels.air.retry] lacks 'long': add long = 4"),
    (
        "queue = \"20 packets\"",
        "queue = \"0 packets\"",
        "26: channels.air.queue: a queue of 0 frames is outside 1 to 65536...",
    ),
    ("cw = [15, 255]", "cw = [15, 200]", "27: channels.air.cw: contention windows 15 to 200 are impossible..."),
    (
        "margin = \"6 dB\"",
        "margin = \"0 dB\"",
        "34: channels.air.capture: a capture margin of 0 dB would let both frames win...",
    ),
    ("bad = \"30 ms\"", "bad = \"0 s\"", "35: channels.air.errors: mean bad time of 0 s is outside..."),
    (
        ", hub = \"ap\"",
        "",
        "35: channels.air.errors.per = \"station\" needs the station whose links these are: add hub = \"ap\"",
    ),
    ("hub = \"ap\"", "hub = \"host\"", "35: channels.air.errors.hub: 'host' is no station of this channel..."),
    ("hear = \"sense\"", "hear = \"see\"", "32: unknown reach 'see'; ..."),
    ("segment = \"1000 B\"", "segment = \"3 kB\"", "5: tcp.segment = 3 kB must lie between 40 B and 2200 B..."),
    ("profile = \"ns3-3.44\"", "profile = \"ns4\"", "4: unknown profile 'ns4'; ..."),
    ("window = \"5 kB\"", "mss = \"5 kB\"", "6: unknown key 'mss' in [tcp]..."),
    ("size = \"500 B\"", "size = \"4 B\"", "44: [flows.flood]: a datagram's size lies between 16 B and 2200 B"),
    (
        "from = \"s2\"\nto = \"s1\"",
        "from = \"host\"\nto = \"s1\"",
        "44: [flows.flood]: 'host' reaches 's1' by a cable, and only a radio station can be saturated...",
    ),
];

#[test]
fn stations_name_their_queues_and_the_resolved_file_keeps_them() {
    let with = |queues: &str| parse(&GOOD.replace("queue = \"20 packets\"", queues));
    let cell = |s: &Scenario| s.channel("air").unwrap().cell().unwrap().clone();
    let fq = StationQueue {
        limit: QueueLimit::Packets(10_240),
        discipline: Discipline::FqCoDel(CoDelTimes::default()),
        airtime: false,
        ring: 0,
        aql: None,
    };
    let all = with("queue = { kind = \"fq-codel\" }").unwrap();
    assert_eq!(cell(&all).queues, (0..3).map(|station| (station, fq)).collect());
    let text = "queue = \"20 packets\"\nqueues = { s2 = { kind = \"fq-codel\", limit = \"99 packets\", airtime = true }, \
                ap = { kind = \"codel\", target = \"20 ms\", interval = \"200 ms\" }, s1 = \"7 packets\" }";
    let some = with(text).unwrap();
    let queues = cell(&some).queues;
    assert_eq!(cell(&some).queue, 20);
    assert_eq!(queues[&2], StationQueue { limit: QueueLimit::Packets(99), airtime: true, ..fq });
    let slow = CoDelTimes { target: Span::from_millis(20), interval: Span::from_millis(200) };
    assert_eq!(queues[&0].discipline, Discipline::CoDel(slow));
    assert_eq!((queues[&1].limit, queues[&1].discipline), (QueueLimit::Packets(7), Discipline::Fifo));
    for scenario in [all, some] {
        assert_eq!(parse(&scenario.to_toml()).unwrap(), scenario, "{}", scenario.to_toml());
    }
    let held = |key: &str| {
        let text =
            format!("queues = {{ ap = {{ kind = \"fq-codel\", airtime = true, ring = \"512 packets\"{key} }} }}");
        let scenario = with(&text).unwrap();
        assert_eq!(parse(&scenario.to_toml()).unwrap(), scenario, "{}", scenario.to_toml());
        let queue = cell(&scenario).queues[&0];
        assert_eq!((queue.ring, queue.airtime), (512, true));
        queue.aql
    };
    assert_eq!((held(""), held(", aql = false")), (None, None));
    assert_eq!(held(", aql = true"), Some(AqlTerms::default()));
    let low = Span::from_millis(2);
    let broadcast = Span::from_millis(80);
    let some = ", aql = { low = \"2 ms\", broadcast = \"80 ms\" }";
    assert_eq!(held(some), Some(AqlTerms { low, broadcast, ..AqlTerms::default() }));
    for kind in [
        "{ kind = \"pie\", target = \"9 ms\" }",
        "{ kind = \"pie\", ring = \"9 packets\" }",
        "{ kind = \"cake\", ring = \"9 packets\", airtime = true, aql = { high = \"1 s\" } }",
        "{ kind = \"dualpi2\" }",
        "{ kind = \"fifo\", limit = \"9 packets\" }",
    ] {
        let scenario = with(&format!("queues = {{ ap = {kind} }}")).unwrap();
        assert_eq!(parse(&scenario.to_toml()).unwrap(), scenario, "{kind}");
    }
}

const QUEUE: &str = "queue = \"20 packets\"";
const WRONG_QUEUES: &[(&str, &str, &str)] = &[
    (QUEUE, "queue = \"20 kB\"", "26: channels.air.queue = \"20 kB\" is not a number of packets..."),
    (QUEUE, "queue = { kind = \"red\" }", "26: unknown kind of queue 'red'; ..."),
    (QUEUE, "queues = { s9 = \"5 packets\" }", "26: channels.air.queues.s9: 's9' is no station of this channel; ..."),
    (QUEUE, "queues = { ap = \"5 kB\" }", "26: channels.air.queues.ap: '5 kB' is no number of packets..."),
    (
        QUEUE,
        "queues = { ap = { kind = \"two-stage\", txqueuelen = \"9 packets\", ring = \"9 packets\" } }",
        "26: channels.air.queues.ap.ring: a station's drop-tail queue before a ring is drop-tail of both together: leave ...",
    ),
    (
        QUEUE,
        "queues = { ap = { kind = \"two-stage\" } }",
        "26: channels.air.queues.ap.kind: a station's drop-tail queue before a ring is drop-tail of both together...",
    ),
    (
        QUEUE,
        "queues = { ap = { kind = \"fifo\", ring = \"9 packets\" } }",
        "26: channels.air.queues.ap.ring: a station's drop-tail queue before a ring is drop-tail of both together...",
    ),
    (
        QUEUE,
        "queues = { ap = { kind = \"fq-codel\", ring = \"70000 packets\" } }",
        "26: channels.air.queues: queue of station 0: ...",
    ),
    (
        QUEUE,
        "queues = { ap = { kind = \"fq-codel\", airtime = true, aql = true } }",
        "26: channels.air.queues: queue of station 0: airtime queue limits bound what a ring holds for each receiver: name...",
    ),
    (
        QUEUE,
        "queues = { ap = { kind = \"fq-codel\", ring = \"9 packets\", aql = true } }",
        "26: channels.air.queues: queue of station 0: airtime queue limits bound what a ring holds for each receiver: name...",
    ),
    (
        QUEUE,
        "queues = { ap = { kind = \"fq-codel\", ring = \"9 packets\", airtime = true, aql = { low = \"13 ms\" } } }",
        "26: channels.air.queues: queue of station 0: of the airtime queue limits the lower must be above 0...",
    ),
    (
        QUEUE,
        "queues = { ap = { kind = \"fq-codel\", ring = \"9 packets\", airtime = true, aql = 5 } }",
        "26: channels.air.queues.ap.aql ...",
    ),
    (
        QUEUE,
        "queues = { ap = { kind = \"fifo\", limit = \"5 kB\" } }",
        "26: channels.air.queues: queue of station 0: drop-tail of a station counts frames: give packets...",
    ),
    (
        QUEUE,
        "queue = { kind = \"codel\", target = \"0 s\" }",
        "26: channels.air.queue: queue of station 0: queue with target 0 s: choose one above 0...",
    ),
    (
        QUEUE,
        "queues = { ap = { kind = \"pie\", airtime = true } }",
        "26: channels.air.queues: queue of station 0 with airtime fairness: that is a queue for each receiver...",
    ),
    (
        QUEUE,
        "queues = { ap = { kind = \"codel\", limit = \"0 packets\" } }",
        "26: channels.air.queues: a queue of 0 frames...",
    ),
];

#[test]
fn impossible_queues_are_refused_with_line_and_remedy() {
    refused(GOOD, WRONG_QUEUES);
}

#[test]
fn impossible_cells_are_refused_with_line_and_remedy() {
    refused(GOOD, WRONG);
    let change = format!("{GOOD}[[timeline]]\nat = \"1 s\"\nset = \"air.forward.rate\"\nto = \"1 Mbit/s\"\n");
    assert!(parse(&change).unwrap_err().contains("'air' is a wifi channel, whose parameters do not change"));
}
