#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::refusal_tests::{parse, refused};
use std::path::PathBuf;
use wavelane_channel::{LossConfig, LossTrace, QueueLimit};

/// A small valid file that the tables below damage one line at a time.
const GOOD: &str = r#"
title = "t"
duration = "10 s"
stacks = ["tcp-cubic", "wavelane"]
[nodes]
c = "endpoint"
a = "gateway"
s = "endpoint"
lone = "endpoint"
r = "router"
[channels.lan]
preset = "ethernet"
between = ["c", "a"]
[channels.air]
kind = "cable"
between = ["a", "s"]
forward = { rate = "20 Mbit/s", delay = "50 ms", queue = "250 kB" }
reverse = "same"
[flows.page]
app = "download"
from = "c"
to = "s"
size = "1 MB"
[flows.ping]
app = "echo"
from = "c"
to = "s"
while = "page"
[[timeline]]
at = "5 s"
set = "air.forward.rate"
to = "2 Mbit/s"
[checks.fast]
flow = "page"
metric = "goodput_bps"
at-least = true
than = "tcp-*"
times = "1.2"
"#;

#[test]
fn the_good_file_parses_to_its_values() {
    let s = parse(GOOD).unwrap();
    assert_eq!(s.duration, Span::from_secs(10));
    assert_eq!(s.nodes.iter().map(|n| n.name.as_str()).collect::<Vec<_>>(), ["c", "a", "s", "lone", "r"]);
    let air = s.channel("air").unwrap();
    let forward = air.direction(crate::Direction::Forward).unwrap();
    assert_eq!(forward.rate, Some(Rate::from_bps(20_000_000)));
    assert_eq!(forward.queue, QueueLimit::Octets(Octets::new(250_000)));
    assert_eq!(forward, air.direction(crate::Direction::Reverse).unwrap());
    let ping = s.flow("ping").unwrap();
    assert_eq!(
        ping.app,
        App::Echo { every: Span::from_millis(100), size: Octets::new(64), during: Some("page".into()) }
    );
    assert_eq!(s.bulk_of(ping).map(|f| f.name.as_str()), Some("page"));
    let check = &s.checks[0];
    assert_eq!((check.stack, check.side), (Stack::WAVELANE, Side::AtLeast));
    assert!(matches!(&check.bound, Bound::Than { stacks, times, .. } if stacks.len() == 1 && *times == 1.2));
}

#[test]
fn a_fetch_and_a_flows_control_read_back() {
    let more = "[flows.few]\napp = \"fetch\"\nfrom = \"c\"\nto = \"s\"\nsize = \"10 kB\"\nevery = \"200 ms\"\ncontrol = \"bbr\"\n";
    let text = GOOD.replacen("[[timeline]]", &format!("{more}[[timeline]]"), 1);
    let s = parse(&text).unwrap();
    let few = s.flow("few").unwrap();
    assert_eq!(few.app, App::Fetch { every: Span::from_millis(200), size: Octets::new(10_000) });
    assert_eq!(few.control, Some(crate::TcpKind::Bbr));
    assert_eq!((s.bulk_of(few), s.flow("page").unwrap().control), (None, None));
    assert_eq!(parse(&s.to_toml()).unwrap(), s);
    for (from, to, message) in [
        ("size = \"10 kB\"\n", "", "[flows.few] lacks 'size': add size = \"10 kB\""),
        ("\"10 kB\"", "\"1 GB\"", "[flows.few]: a fetch's size lies above 0 and at most 10 MB"),
        ("every = \"200 ms\"", "every = \"1 ms\"", "[flows.few]: every must lie between 10 ms and the run's duration"),
        ("\"bbr\"", "\"brr\"", "unknown congestion control 'brr'; did you mean 'bbr'?"),
    ] {
        let error = parse(&text.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

/// (what the file says, what is written instead, the whole message)
const DAMAGE: &[(&str, &str, &str)] = &[
    ("duration =", "duraton =", "3: unknown key 'duraton' in the top level; did you mean 'duration'?"),
    ("duration = \"10 s\"\n", "", "1: the top level lacks 'duration': add duration = \"45 s\""),
    ("\"10 s\"", "10", "3: duration must be a time, such as \"50 ms\", not 10"),
    (
        "\"10 s\"",
        "\"10 Mbit/s\"",
        "3: duration: '10 Mbit/s' is not a time, such as \"50 ms\": unit 'Mbit/s' is none of ns, us, ms, s, min, h",
    ),
    ("\"10 s\"", "\"0 s\"", "3: duration 0 s must lie above 0 and at most 86400 s"),
    ("[nodes]", "[nodes", "5: not valid TOML: unclosed table, expected `]`"),
    ("title = \"t\"", "title = 3", "2: title must be a text, such as \"A bad link\", not 3"),
    ("[\"tcp-cubic\", \"wavelane\"]", "[\"tcp-cubik\"]", "4: unknown stack 'tcp-cubik'; did you mean 'tcp-cubic'?"),
    ("[\"tcp-cubic\", \"wavelane\"]", "[]", "4: no stack to run: list at least one, such as stacks = [\"wavelane\"]"),
    ("[\"tcp-cubic\", \"wavelane\"]", "[\"udp\", \"udp\"]", "4: stack 'udp' is listed twice: name each once"),
    ("a = \"gateway\"", "a = \"gatway\"", "7: unknown kind of node 'gatway'; did you mean 'gateway'?"),
    (
        "a = \"gateway\"",
        "A = \"gateway\"",
        "7: 'A' cannot be a name: use at most 12 of a-z, 0-9, '-' and '_', beginning with a letter",
    ),
    (
        "[\"c\", \"a\"]",
        "[\"c\", \"x1y2z\"]",
        "11: [channels.lan]: there is no node 'x1y2z'; use one of c, a, s, lone, r",
    ),
    ("[\"c\", \"a\"]", "[\"c\", \"c\"]", "11: [channels.lan] joins 'c' with itself: name two different nodes"),
    ("[\"c\", \"a\"]", "[\"c\"]", "13: channels.lan.between must name exactly two nodes, such as [\"a\", \"b\"]"),
    (
        "[\"c\", \"a\"]",
        "[\"s\", \"a\"]",
        "14: 'a' and 's' are already joined by [channels.lan]: only gateways use several channels side by side, so remove one",
    ),
    ("preset = \"ethernet\"", "preset = \"etherent\"", "12: unknown preset 'etherent'; did you mean 'ethernet'?"),
    ("kind = \"cable\"", "kind = \"cabel\"", "15: unknown kind of channel 'cabel'; did you mean 'cable'?"),
    (
        "rate = \"20 Mbit/s\"",
        "rat = \"20 Mbit/s\"",
        "17: unknown key 'rat' in [channels.air.forward]; did you mean 'rate'?",
    ),
    (
        "rate = \"20 Mbit/s\"",
        "rate = \"20 MB\"",
        "17: channels.air.forward.rate: '20 MB' is not a rate, such as \"20 Mbit/s\": unit 'MB' is none of bit/s, kbit/s, Mbit/s, Gbit/s",
    ),
    (
        "rate = \"20 Mbit/s\"",
        "rate = \"0 bit/s\"",
        "17: channels.air.forward.rate: rate 0 never finishes a frame: leave the rate out for an infinite one, or use an outage to lose frames",
    ),
    (
        "queue = \"250 kB\"",
        "queue = { kind = \"fq_codel\" }",
        "17: unknown kind of queue 'fq_codel'; did you mean 'fq-codel'?",
    ),
    (
        "queue = \"250 kB\"",
        "queue = { kind = \"two-stage\", txqueuelen = \"1000 packets\" }",
        "17: [channels.air.forward.queue] lacks 'ring': add ring = \"256 packets\"",
    ),
    (
        "queue = \"250 kB\"",
        "queue = { kind = \"two-stage\", ring = \"200000 packets\" }",
        "17: channels.air.forward.queue: queue limit 200000 is beyond the bound of 65536 packets in its ring: choose a smaller one",
    ),
    (
        "queue = \"250 kB\"",
        "queue = { kind = \"fifo\", ring = \"2 packets\" }",
        "17: unknown key 'ring' in [channels.air.forward.queue]; use one of kind, limit",
    ),
    (
        "queue = \"250 kB\"",
        "queue = { kind = \"codel\", ring = \"2 kB\" }",
        "17: channels.air.forward.queue.ring: '2 kB' is no number of packets, such as \"256 packets\"",
    ),
    (
        "queue = \"250 kB\"",
        "queue = { kind = \"pie\", target = \"0 ms\" }",
        "17: channels.air.forward.queue: queue with target 0 s: choose one above 0 and at most 3600 s",
    ),
    (
        "queue = \"250 kB\"",
        "loss = { kind = \"gilbert-elliott\", good = \"0 s\", bad = \"30 ms\" }",
        "17: channels.air.forward.loss: mean good time of 0 s is outside 1 us to 31536000 s: for a state that never ends use random loss",
    ),
    (
        "queue = \"250 kB\"",
        "loss = { kind = \"gilbert-eliott\" }",
        "17: unknown kind of loss 'gilbert-eliott'; did you mean 'gilbert-elliott'?",
    ),
    (
        "queue = \"250 kB\"",
        "loss = { kind = \"random\", p = \"5 %\" }",
        "17: channels.air.forward.loss.p: '5 %' is not a share between 0 and 1, such as \"1/20\"",
    ),
    (
        "queue = \"250 kB\"",
        "loss = { kind = \"random\", p = 0.05 }",
        "17: channels.air.forward.loss.p must be a share between 0 and 1, such as \"1/20\", not 0.05",
    ),
    (
        "queue = \"250 kB\"",
        "loss = { kind = \"random\", q = \"1/20\" }",
        "17: unknown key 'q' in [channels.air.forward.loss]; use one of kind, p",
    ),
    (
        "queue = \"250 kB\"",
        "loss = { kind = \"trace\" }",
        "17: channels.air.forward.loss needs exactly one of file, intervals and frames",
    ),
    (
        "queue = \"250 kB\"",
        "outages = [{ at = \"5 s\", for = \"3 s\" }, { at = \"1 s\", for = \"1 s\" }]",
        "17: channels.air.forward.outages: outage windows: interval 1 (1 s to 2 s after the start) is empty or begins before the one before it ends: sort and merge them",
    ),
    (
        "reverse = \"same\"",
        "reverse = \"sane\"",
        "18: channels.air.reverse = \"sane\" is neither \"same\" nor \"none\" nor a table like forward",
    ),
    ("reverse = \"same\"", "", "15: [channels.air] lacks 'reverse': add reverse = \"same\""),
    ("app = \"download\"", "app = \"donwload\"", "20: unknown application 'donwload'; did you mean 'download'?"),
    (
        "from = \"c\"\nto = \"s\"\nsize",
        "from = \"c\"\nto = \"lone\"\nsize",
        "19: [flows.page]: no channels lead from 'c' to 'lone': add [channels.NAME] between = [...] (endpoints pass nothing on)",
    ),
    (
        "from = \"c\"\nto = \"s\"\nsize",
        "from = \"c\"\nto = \"srv\"\nsize",
        "19: [flows.page]: there is no node 'srv'; use one of c, a, s, lone, r",
    ),
    (
        "from = \"c\"\nto = \"s\"\nsize",
        "from = \"c\"\nto = \"c\"\nsize",
        "19: [flows.page] leads from 'c' to itself: name another node in to",
    ),
    (
        "from = \"c\"\nto = \"s\"\nsize",
        "from = \"c\"\nto = \"r\"\nsize",
        "19: [flows.page]: router 'r' runs no applications: use an endpoint",
    ),
    (
        "size = \"1 MB\"",
        "size = \"1 MB\"\nrate = \"1 Mbit/s\"",
        "24: [flows.page] has both size and rate: keep size, it ends when all bytes arrived",
    ),
    (
        "size = \"1 MB\"",
        "rate = \"1 Mbit/s\"",
        "23: [flows.page]: download takes a size, or neither for a fixed-time flow; remove rate",
    ),
    (
        "size = \"1 MB\"",
        "start = \"5 s\"\nstop = \"4 s\"",
        "19: [flows.page] stops at 4 s, not after its start at 5 s: move stop",
    ),
    (
        "size = \"1 MB\"",
        "start = \"10 s\"",
        "19: [flows.page] starts at 10 s, when the run has ended: start before duration = 10 s",
    ),
    ("size = \"1 MB\"", "size = \"0 B\"", "19: [flows.page]: size must lie above 0 and at most 1024 GiB"),
    (
        "while = \"page\"",
        "while = \"pge\"",
        "24: [flows.ping]: while = \"pge\" names no bulk flow; did you mean 'page'?",
    ),
    ("while = \"page\"", "every = \"1 us\"", "24: [flows.ping]: every must lie between 1 ms and the run's duration"),
    ("while = \"page\"", "size = \"2 kB\"", "24: [flows.ping]: an echo's size lies between 8 B and 1400 B"),
    (
        "at = \"5 s\"",
        "at = \"50 s\"",
        "29: a change at 50 s comes after the run's end at 10 s: move it or lengthen duration",
    ),
    ("air.forward.rate", "air.forwards.rate", "31: unknown direction 'forwards'; use forward or reverse"),
    ("air.forward.rate", "airr.forward.rate", "31: unknown channel 'airr'; did you mean 'air'?"),
    ("air.forward.rate", "air.forward.rats", "31: unknown parameter 'rats'; did you mean 'rate'?"),
    ("air.forward.rate", "rate", "31: 'rate' is not CHANNEL.forward|reverse.PARAMETER, such as \"air.forward.rate\""),
    (
        "to = \"2 Mbit/s\"",
        "to = \"0 bit/s\"",
        "29: timeline at 5 s: rate 0 never finishes a frame: leave the rate out for an infinite one, or use an outage to lose frames",
    ),
    (
        "flow = \"page\"",
        "flow = \"ping\"",
        "34: checks.fast.flow: goodput_bps is a figure of a download or upload, but 'ping' is a flow of app echo: name another flow",
    ),
    ("flow = \"page\"", "flow = \"pagee\"", "34: checks.fast.flow: there is no flow 'pagee'; did you mean 'page'?"),
    (
        "goodput_bps",
        "goodput",
        "35: unknown metric 'goodput'; use one of goodput_bps, duration_ms, rtt_p50_ms, rtt_p95_ms, rtt_p99_ms, age_p95_ms, lost, bytes, completed, intact, wire_bytes_per_delivered_byte, repair_share",
    ),
    ("at-least = true", "", "33: [checks.fast] needs either at-least or at-most, and not both"),
    ("at-least = true", "at-least = false", "36: checks.fast.at-least = false says nothing: with than, write true"),
    (
        "than = \"tcp-*\"",
        "than = \"tcp-bbr\"",
        "37: checks.fast.than: stack 'tcp-bbr' is not in stacks = [...]: add it there",
    ),
    ("than = \"tcp-*\"", "than = \"wavelane\"", "37: 'wavelane' cannot be compared with itself: name another stack"),
    ("than = \"tcp-*\"\n", "", "37: times needs than = \"STACK\" beside it, or remove it"),
    ("times = \"1.2\"", "times = \"-1\"", "38: checks.fast.times: '-1' is not a factor above 0, such as \"1.2\""),
];

#[test]
fn every_damage_is_named_with_line_cause_and_remedy() {
    refused(GOOD, DAMAGE);
}

#[test]
fn a_resolved_scenario_reads_back_as_itself() {
    let rich = GOOD.replacen(
        "queue = \"250 kB\"",
        "queue = \"9 packets\", jitter = \"3 ms\", keep-order = false, duplicate = \"1/7\", corrupt = \"1/9\", \
         reorder = { p = \"1/3\", extra = \"2 ms\" }, outages = [{ at = \"1 s\", for = \"2 s\" }], \
         policer = { rate = \"5 Mbit/s\", burst = \"10 kB\" }, mtu = \"576 B\", \
         loss = { kind = \"trace\", intervals = [{ at = \"1 ms\", for = \"2 ms\" }] }",
        1,
    );
    let rich = rich.replacen("title = \"t\"", "title = \"a \\\"quoted\\\" \\\\ and \\n broken\"\nseed = 99", 1);
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let demo = std::fs::read_to_string(folder.join("demo.toml")).unwrap();
    let queues = [
        "{ kind = \"fifo\", limit = \"9 packets\" }",
        "{ kind = \"two-stage\", txqueuelen = \"1000 packets\", ring = \"256 packets\" }",
        "{ kind = \"codel\" }",
        "{ kind = \"fq-codel\", limit = \"3 MB\", target = \"20 ms\", interval = \"300 ms\", ring = \"2 packets\" }",
        "{ kind = \"pie\", target = \"10 ms\" }",
        "{ kind = \"dualpi2\", limit = \"500 packets\" }",
        "{ kind = \"cake\", tins = \"diffserv4\", ring = \"2 packets\" }",
    ];
    let named = queues.map(|queue| {
        let step = format!("[[timeline]]\nat = \"1 s\"\nset = \"air.reverse.queue\"\nto = {queue}\n");
        GOOD.replacen("\"250 kB\"", queue, 1).replacen("[flows.", &format!("{step}[flows."), 1)
    });
    for text in [GOOD, &rich, &demo].into_iter().chain(named.iter().map(String::as_str)) {
        let scenario = parse(text).unwrap();
        let written = scenario.to_toml();
        assert_eq!(parse(&written).unwrap(), scenario, "{written}");
        assert_eq!(parse(&written).unwrap().to_toml(), written);
    }
}

#[test]
fn every_scenario_of_the_corpus_loads() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    for name in ["demo.toml", "outage.toml", "smoke/one_hop.toml"] {
        let path = folder.join(name);
        let scenario = Scenario::load(&path).unwrap_or_else(|e| panic!("{e}"));
        assert!(!scenario.checks.is_empty(), "{name} judges nothing");
    }
}

#[test]
fn loss_traces_come_from_a_file_and_its_errors_name_their_line() {
    let dir = std::env::temp_dir().join(format!("wavelane-trace-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let with = |content: &str| {
        std::fs::write(dir.join("t.txt"), content).unwrap();
        let text = GOOD.replacen("queue = \"250 kB\"", "loss = { kind = \"trace\", file = \"t.txt\" }", 1);
        Scenario::parse(&text, &dir)
    };
    let loss = |s: Scenario| s.channel("air").unwrap().direction(crate::Direction::Forward).unwrap().loss.clone();
    let frames = loss(with("# lost frames\n3\n17 # one more\n").unwrap());
    assert_eq!(frames, LossConfig::Trace(LossTrace::Frames(vec![3, 17])));
    assert!(matches!(
        loss(with("1 s - 1.5 s\n2 s - 2100 ms\n").unwrap()),
        LossConfig::Trace(LossTrace::Intervals(list)) if list.len() == 2
    ));
    for (content, part) in [
        ("", "it holds no entry"),
        ("3\n1 s - 2 s\n", "mixes intervals and frame numbers"),
        ("x\n", "line 1: 'x' is neither a lost interval"),
        ("1 s - 2 parsec\n", "line 1: '2 parsec' is not a time"),
        ("17\n3\n", "frame number 3 at place 1 does not rise"),
    ] {
        let error = with(content).unwrap_err().to_string();
        assert!(error.contains(part), "{content:?}: {error}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(with_missing().contains("cannot read it"));
}

fn with_missing() -> String {
    let text = GOOD.replacen("queue = \"250 kB\"", "loss = { kind = \"trace\", file = \"absent.txt\" }", 1);
    parse(&text).unwrap_err()
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Scenario::load(Path::new("/nonexistent/x.toml")).unwrap_err().to_string();
    assert_eq!(
        error,
        "/nonexistent/x.toml: cannot read it: No such file or directory (os error 2); check the path and its permissions"
    );
}

#[test]
fn a_file_that_is_too_large_is_refused_by_its_size() {
    let path = std::env::temp_dir().join(format!("wavelane-large-{}.toml", std::process::id()));
    std::fs::write(&path, vec![b'#'; (super::FILE_MAX + 1) as usize]).unwrap();
    let error = Scenario::load(&path).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(error.ends_with(": cannot read it: it is larger than 4 MiB; name a smaller file"), "{error}");
}

#[test]
fn scenarios_are_told_from_gateway_configurations() {
    assert_eq!(is_scenario(GOOD), Some(true));
    assert_eq!(is_scenario("[peers.b]\naddress = \"x\"\n"), Some(false));
    assert_eq!(is_scenario("[["), None);
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(cut in 0..GOOD.len(), noise in "\\PC{0,20}") {
        let cut = (0..=cut).rev().find(|i| GOOD.is_char_boundary(*i)).unwrap_or(0);
        let text = format!("{}{noise}{}", &GOOD[..cut], &GOOD[cut..]);
        let _ = parse(&text);
    }
}

#[test]
fn a_presets_reverse_may_be_the_same() {
    let changed = "preset = \"ethernet\"\nforward = { delay = \"7 ms\" }\nreverse = \"same\"";
    let scenario = Scenario::parse(&GOOD.replace("preset = \"ethernet\"", changed), Path::new(".")).unwrap();
    let lan = scenario.channels.iter().find(|channel| channel.name == "lan").unwrap();
    let delay = |way| lan.direction(way).unwrap().delay.write();
    assert_eq!((delay(crate::Direction::Forward), delay(crate::Direction::Reverse)), ("7 ms".into(), "7 ms".into()));
}

#[test]
fn a_quic_flow_is_bulk_and_a_clause_has_its_line() {
    let text = r#"
title = "t"
duration = "10 s"
stacks = ["tcp-bbr", "wavelane+unsplit"]
nodes = { c = "endpoint", s = "endpoint" }
[channels.air]
preset = "ethernet"
between = ["c", "s"]
[flows.body]
app = "quic"
from = "c"
to = "s"
[flows.echo]
app = "echo"
from = "c"
to = "s"
while = "body"
"#;
    let scenario = Scenario::parse(text, Path::new(".")).unwrap();
    assert_eq!(scenario.stacks[1], Stack::UNSPLIT);
    let body = scenario.flow("body").unwrap();
    assert_eq!(body.app, App::Quic { size: None });
    assert!(body.app.is_bulk() && body.app.is_fixed_time() && !body.app.is_datagrams());
    assert_eq!(Scenario::parse(&scenario.to_toml(), Path::new(".")).unwrap(), scenario);
    let sized = text.replace("app = \"quic\"", "app = \"quic\"\nsize = \"0 B\"");
    let error = Scenario::parse(&sized, Path::new(".")).unwrap_err().to_string();
    assert!(error.contains("9: [flows.body]: size must lie above 0"), "{error}");
    let line = |clause| crate::line_of_clause(text, clause);
    assert_eq!(
        (line("flows.body"), line("flows.echo.while"), line("channels.air.forward")),
        (Some(9), Some(17), Some(6))
    );
    assert_eq!((line("lab"), crate::line_of_clause("not [ toml", "flows")), (None, None));
}
