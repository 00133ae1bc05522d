//! Serial lines between kernels.

use super::*;
use wavelane_run::LineTally;

/// The last acknowledgements are on the line when both ends are asked.
const IN_FLIGHT: u64 = 12;

/// Data down a cable, acknowledgements up a line: what the line did on the way up.
fn download_with(framing: &str, way: &str, name: &str) -> (StackRaw, LineTally) {
    let text = format!(
        r#"
title = "line"
duration = "30 s"
stacks = ["tcp-reno"]
nodes = {{ campus = "endpoint", desktop = "gateway", laptop = "gateway", home = "endpoint" }}
[channels.far]
between = ["campus", "desktop"]
forward = {{ rate = "9 Mbit/s", delay = "50 us" }}
reverse = "same"
[channels.near]
between = ["laptop", "home"]
forward = {{ rate = "9 Mbit/s", delay = "50 us" }}
reverse = "same"
[channels.air]
between = ["desktop", "laptop"]
forward = {{ rate = "2 Mbit/s", delay = "50 us" }}
reverse = "none"
[channels.line]
kind = "serial"
between = ["laptop", "desktop"]
framing = "{framing}"
forward = {{ {way} }}
reverse = "same"
[routes]
"laptop -> desktop" = "line"
[tcp]
segment = "1460 B"
window = "17520 B"
ack-every = 1
timestamps = false
sack = false
window-scale = false
[flows.down]
app = "download"
from = "home"
to = "campus"
size = "300 kB"
"#
    );
    let scenario = Scenario::parse(&text, Path::new(".")).unwrap();
    assert_eq!(LabBackend.review(&scenario).refusal(), None);
    let raw = run(&scenario, tcp(TcpKind::Reno), name).0.unwrap();
    let down = &raw.flows[0];
    assert_eq!((down.octets, down.completed, down.intact), (300_000, true, Some(true)));
    let up = raw.lines.iter().find(|line| line.way == "forward").unwrap().tally;
    (raw, up)
}

#[test]
fn kernels_use_a_serial_line_by_its_framings() {
    if skip() {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    // The kernel acknowledges each of the 206 segments by itself where it is told to, with 40 octets.
    for (framing, least, most) in
        [("slip", 41.0, 43.0), ("cslip", 6.5, 8.5), ("ppp+vj", 9.0, 12.0), ("ppp", 44.0, 48.0)]
    {
        let (_, up) = download_with(framing, "rate = \"57600 bit/s\"", &format!("line-{framing}"));
        let each = up.sent_octets as f64 / up.sent as f64;
        assert!((least..=most).contains(&each), "{framing}: {each} octets a packet, {up:?}");
        assert!(up.sent >= 190 && up.bad == 0 && up.received + IN_FLIGHT >= up.sent, "{framing}: {up:?}");
    }
    assert_eq!((children(), strays()), (Vec::new(), Vec::new()));
}

#[test]
fn noise_on_a_line_spoils_frames_and_a_modem_lets_none_through() {
    if skip() {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock();
    // A frame of 41 octets has 410 bits: one in five is hit.
    let (_, noisy) = download_with("slip", "rate = \"115200 bit/s\", noise = \"0.0005\"", "line-noise");
    assert!(noisy.bad > 10 && noisy.received < noisy.sent, "{noisy:?}");
    let (_, modem) = download_with("cslip", "rate = \"33600 bit/s\", modem = {}", "line-modem");
    assert!(modem.bad == 0 && modem.received + IN_FLIGHT >= modem.sent, "{modem:?}");
}

#[test]
fn a_line_that_no_port_can_be_is_refused() {
    let lossy = "rate = \"9600 bit/s\", loss = { kind = \"random\", p = \"0.1\" }";
    for (way, words) in [("rate = \"110 bit/s\"", "slower than the 300 bit/s"), (lossy, "use noise")] {
        let text = format!(
            "duration = \"1 s\"\nstacks = [\"tcp-reno\"]\nnodes = {{ a = \"endpoint\", b = \"endpoint\" }}\n[channels.line]\nkind = \"serial\"\n\
             between = [\"a\", \"b\"]\nforward = {{ {way} }}\nreverse = \"same\"\n[flows.down]\napp = \"download\"\nfrom = \"a\"\nto = \"b\"\n"
        );
        let scenario = Scenario::parse(&text, Path::new(".")).unwrap();
        let refusal = LabBackend.review(&scenario).refusal().map(|(_, why)| why.to_string()).unwrap_or_default();
        assert!(refusal.contains(words), "{refusal}");
    }
}
