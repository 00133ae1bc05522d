//! Serial lines that carry IP: what is on the line, what the framings cost, and what noise, PPP and small MTUs do.

use crate::common::run_scenario;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use wavelane_run::{CaptureExtent, LineRaw, RunDocument, RunHooks, RunOptions, StackRaw, Verdict};
use wavelane_scenario::{Scenario, Stack};
use wavelane_sim::SimBackend;

fn committed() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/serial/radio-and-line.toml");
    std::fs::read_to_string(path).unwrap()
}

/// Two hosts and a line.
fn line(framing: &str, way: &str, more: &str) -> String {
    format!(
        "title = \"t\"\nseed = 1\nduration = \"30 s\"\nstacks = [\"tcp-reno\"]\n[nodes]\na = \"endpoint\"\nb = \"endpoint\"\n\
         [channels.line]\nkind = \"serial\"\nbetween = [\"a\", \"b\"]\nframing = \"{framing}\"\nmtu = \"576 B\"\nforward = {{ {way} }}\n\
         reverse = \"same\"\n[tcp]\nsegment = \"536 B\"\nwindow = \"4 kB\"\ntimestamps = false\nsack = false\nwindow-scale = false\n{more}\n\
         [flows.page]\napp = \"download\"\nfrom = \"a\"\nto = \"b\"\nsize = \"40 kB\"\nstart = \"2 s\"\n"
    )
}

fn run(text: &str) -> StackRaw {
    let scenario = Scenario::parse(text, Path::new(".")).unwrap_or_else(|why| panic!("{why}\n{text}"));
    run_scenario(&scenario, scenario.stacks[0], 1)
}

/// Octets on the line per packet of one direction.
fn octets(line: &LineRaw) -> f64 {
    line.tally.sent_octets as f64 / line.tally.sent as f64
}

fn recorded(scenario: &Scenario, out: &Path) -> RunDocument {
    let (name, rerun) = ("line".to_owned(), String::new());
    let options = RunOptions { captures: CaptureExtent::Off, name, repeat: 1, jobs: 1, out: out.to_owned(), rerun };
    let hooks = RunHooks {
        progress: &|_| (),
        count: &|_| (),
        cancelled: &AtomicBool::new(false),
        environment: &|| serde_json::Value::Null,
        render: &|_| Ok(()),
    };
    wavelane_run::run(&|| Box::new(SimBackend), scenario, &options, &hooks).unwrap()
}

#[test]
fn the_committed_scenario_passes_and_its_record_tells_of_the_line() {
    let scenario = Scenario::parse(&committed(), Path::new(".")).unwrap();
    let folder = std::env::temp_dir().join(format!("wavelane-serial-{}", std::process::id()));
    let document = recorded(&scenario, &folder);
    assert_eq!(document.verdict, Verdict::Pass, "{:?}", document.checks);
    let [up, down] = &document.stacks[0].lines[..] else { panic!("{:?}", document.stacks[0].lines) };
    assert_eq!((down.packets, down.received, up.bad, up.overrun), (0, 0, 0, 0));
    // An acknowledgement, its END, and now and then one more for an octet like it.
    let each = up.sent_bytes as f64 / up.sent as f64;
    assert!((41.0..42.0).contains(&each) && up.sent > 2_000, "{each} {up:?}");
    let text = std::fs::read_to_string(folder.join("scenario.toml")).unwrap();
    assert!(text.contains("framing = \"slip-1998\"") && text.contains("fifo = 32, trigger = 8"), "{text}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Every framing carries a page whole; headers are compressed where the framing says so.
#[test]
fn framings_carry_a_page_and_cost_what_their_headers_do() {
    for (framing, least, most) in [
        ("slip", 41.0, 42.5),
        ("slip-1998", 41.0, 42.5),
        ("kiss", 43.0, 44.5),
        ("ppp", 44.0, 47.0),
        ("cslip", 5.0, 13.0),
        ("ppp+vj", 8.0, 17.0),
    ] {
        let raw = run(&line(framing, "rate = \"38400 bit/s\"", ""));
        assert_eq!((raw.flows[0].completed, raw.flows[0].intact), (true, Some(true)), "{framing}: {:?}", raw.lines);
        // The page comes from b, its acknowledgements from a.
        let acks = octets(&raw.lines[0]);
        assert!((least..most).contains(&acks), "{framing}: {acks} {:?}", raw.lines);
        assert_eq!(
            raw.lines.iter().map(|line| line.tally.bad + line.tally.full + line.tally.too_long).sum::<u64>(),
            0,
            "{framing}"
        );
    }
}

/// Noise costs frames and never gives wrong bytes; a compressed header after a lost one is dropped, not guessed.
#[test]
fn noise_loses_frames_and_nothing_else() {
    for framing in ["slip-1998", "cslip", "ppp+vj"] {
        let noisy = line(framing, "rate = \"57600 bit/s\", noise = \"0.00001\"", "").replace("30 s", "300 s");
        let raw = run(&noisy);
        assert_eq!(raw.flows[0].intact, Some(true), "{framing}: {:?}", raw.lines);
        let [up, down] = &raw.lines[..] else { panic!() };
        assert!(down.tally.noise > 0 && down.tally.bad + up.tally.bad > 0, "{framing}: {:?}", raw.lines);
        let again = run(&noisy);
        assert_eq!(again.lines, raw.lines, "{framing}: the same seed");
    }
}

/// What PPP is asked to carry before it is up is dropped and counted, and so is what is longer than the MTU.
#[test]
fn what_cannot_be_sent_is_counted() {
    let early = line("ppp", "rate = \"9600 bit/s\"", "").replace("start = \"2 s\"", "start = \"0 s\"");
    let raw = run(&early.replace("30 s", "100 s"));
    assert!(raw.lines[0].tally.down > 0 && raw.flows[0].completed, "{:?}", raw.lines);
    let raw = run(&line("slip", "rate = \"19200 bit/s\"", "").replace("536 B", "1460 B"));
    assert!(raw.lines[1].tally.too_long > 0 && !raw.flows[0].completed, "{:?}", raw.lines);
}

/// An 8250 whose interrupt is served late loses octets and the next frame still decodes; a 16550 loses none.
#[test]
fn a_receiver_without_a_fifo_overruns() {
    let of = |fifo: u32, service: &str| {
        let way = format!("rate = \"115200 bit/s\", uart = {{ fifo = {fifo}, service = \"{service}\" }}");
        run(&line("slip", &way, "").replace("30 s", "300 s"))
    };
    let old = of(1, "90 us");
    assert!(
        old.lines[1].tally.overrun > 0 && old.lines[1].tally.bad > 0 && old.lines[1].tally.received > 0,
        "{:?}",
        old.lines
    );
    let new = of(16, "1 ms");
    assert!(
        new.lines.iter().all(|line| line.tally.overrun + line.tally.bad == 0) && new.flows[0].completed,
        "{:?}",
        new.lines
    );
}

/// Gateways use a line as any other lane, and what they put on it is counted.
#[test]
fn gateways_carry_a_page_over_a_line() {
    let text = "title = \"t\"\nseed = 1\nduration = \"60 s\"\nstacks = [\"wavelane\"]\n[nodes]\nc = \"endpoint\"\na = \"gateway\"\nb = \"gateway\"\n\
                s = \"endpoint\"\n[channels.lan]\npreset = \"ethernet\"\nbetween = [\"c\", \"a\"]\n[channels.wan]\npreset = \"ethernet\"\n\
                between = [\"b\", \"s\"]\n[channels.line]\nkind = \"serial\"\npreset = \"null-modem\"\nbetween = [\"a\", \"b\"]\n\
                [flows.page]\napp = \"download\"\nfrom = \"c\"\nto = \"s\"\nsize = \"100 kB\"\n";
    let scenario = Scenario::parse(text, Path::new(".")).unwrap();
    let raw = run_scenario(&scenario, Stack::WAVELANE, 1);
    assert_eq!(raw.flows[0].intact, Some(true), "{:?}", raw.lines);
    let ways: Vec<u64> = raw.ways.iter().map(|way| way.octets).collect();
    assert_eq!(ways, raw.lines.iter().map(|line| line.tally.packet_octets).collect::<Vec<_>>());
    assert!(raw.wire_octets > 100_000);
}

/// One of two lanes, a radio and a modem, dies in mid-transfer: nothing is lost, and data comes by the other within 1.7 s.
#[test]
fn data_goes_on_by_the_other_lane_when_radio_or_modem_dies() {
    const DEAD_S: f64 = 12.0;
    const WITHIN_S: f64 = 1.7;
    // What was on the way has come by then.
    const UNDER_WAY_S: f64 = 0.06;
    let dead = ", outages = [{ at = \"12 s\", for = \"600 s\" }]";
    let [radio_first, modem_first] = ["\"air\", \"line\"", "\"line\", \"air\""];
    for (size, [radio, modem], lanes) in [
        ("2.9 MB", [dead, ""], radio_first),
        ("4 MB", ["", dead], radio_first),
        // Acknowledgements leave by the modem, at a round trip longer than the time between its requests for an answer.
        ("4 MB", ["", dead], modem_first),
    ] {
        for choice in ["bond", "pinned+fallback", "delivery-1998"] {
            let text = format!(
                "title = \"t\"\nseed = 1\nduration = \"200 s\"\nstacks = [\"wavelane\"]\n[nodes]\nc = \"endpoint\"\na = \"gateway\"\nb = \"gateway\"\n\
                 s = \"endpoint\"\n[channels.lan]\npreset = \"ethernet\"\nbetween = [\"c\", \"a\"]\n[channels.wan]\npreset = \"ethernet\"\n\
                 between = [\"b\", \"s\"]\n[channels.air]\nbetween = [\"a\", \"b\"]\n\
                 forward = {{ rate = \"2 Mbit/s\", delay = \"5 ms\", queue = \"50 packets\"{radio} }}\nreverse = \"same\"\n\
                 [channels.line]\nkind = \"serial\"\nbetween = [\"a\", \"b\"]\nmtu = \"576 B\"\n\
                 forward = {{ rate = \"33600 bit/s\", modem = {{}}{modem} }}\nreverse = \"same\"\n\
                 [links.pair]\nlanes = [{lanes}]\nchoice = \"{choice}\"\nstart-rates = {{ line = \"27 kbit/s\" }}\n\
                 [flows.page]\napp = \"download\"\nfrom = \"c\"\nto = \"s\"\nsize = \"{size}\"\n"
            );
            let raw = run(&text);
            let flow = &raw.flows[0];
            assert_eq!((flow.completed, flow.intact), (true, Some(true)), "{choice}: {:?}", raw.lines);
            let times = flow.arrivals.iter().map(|(ns, _)| *ns as f64 / 1e9);
            let next = times.filter(|at| *at > DEAD_S + UNDER_WAY_S).fold(f64::INFINITY, f64::min);
            assert!(next < DEAD_S + WITHIN_S, "{choice}: data came again at {next:.2} s");
        }
    }
}
