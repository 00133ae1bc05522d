//! What passes the channels between gateways is captured as the laboratory captures it, and tshark reads it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use wavelane_base::Seed;
use wavelane_run::{Backend, CaptureExtent, RunContext, StackRaw};
use wavelane_scenario::{Scenario, Stack, TcpKind};
use wavelane_sim::SimBackend;

const DEMO: &str = include_str!("../../../../scenarios/demo.toml");
const CUBIC: Stack = Stack::tcp(TcpKind::Cubic);
/// `frame.packet_flags_direction` of pcapng's enhanced packet blocks.
const OUTBOUND: &str = "0x00000002";

/// Runs a stack of the demo for `seconds` into a folder of its own.
fn demo(stack: Stack, seconds: u32, captures: CaptureExtent, name: &str) -> (PathBuf, StackRaw) {
    let text = DEMO.replace("duration = \"45 s\"", &format!("duration = \"{seconds} s\""));
    let scenario = Scenario::parse(&text, Path::new(".")).unwrap();
    let out = std::env::temp_dir().join(format!("wavelane-captures-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&out);
    std::fs::create_dir_all(out.join("pcap")).unwrap();
    let mut context = RunContext {
        out: &out,
        label: "test".to_owned(),
        captures,
        progress: &mut |_| {},
        cancelled: &AtomicBool::new(false),
    };
    let raw = SimBackend.run_stack(&scenario, stack, Seed(3), &mut context).unwrap();
    (out, raw)
}

fn files(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let folder = std::fs::read_dir(out.join("pcap")).unwrap().map(|entry| entry.unwrap().path());
    folder
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(path).unwrap()))
        .collect()
}

/// (leaves the gateway, bytes, seconds, what tells it from others) of each packet; `None` without tshark.
fn read_back(path: &Path) -> Option<Vec<(bool, u64, f64, String)>> {
    let tshark = |arguments: &[&str]| Command::new("tshark").arg("-r").arg(path).args(arguments).output();
    let fields =
        ["frame.packet_flags_direction", "frame.len", "frame.time_epoch", "ip.id", "tcp.seq_raw", "tcp.ack_raw"];
    let more = ["tcp.options.timestamp.tsval", "udp.checksum", "tcp.checksum"];
    let fields: Vec<&str> = ["-T", "fields", "-E", "separator=;"]
        .into_iter()
        .chain(fields.iter().chain(&more).flat_map(|field| ["-e", *field]))
        .collect();
    let Ok(read) = tshark(&fields) else {
        eprintln!("SKIPPED (not installed): reading back with tshark");
        return None;
    };
    // The programs' bytes are random; what stands at their port is not HTTP.
    let bad = tshark(&["-d", "tcp.port==80,data", "-Y", "_ws.malformed || _ws.expert.severity == error"]).unwrap();
    assert_eq!(String::from_utf8_lossy(&bad.stdout), "", "tshark finds fault with these packets");
    let text = String::from_utf8_lossy(&read.stdout).into_owned();
    let line = |line: &str| {
        let parts: Vec<&str> = line.splitn(4, ';').collect();
        (parts[0] == OUTBOUND, parts[1].parse().unwrap(), parts[2].parse().unwrap(), parts[3].to_owned())
    };
    Some(text.lines().map(line).collect())
}

/// How long a run lasts.
const SECONDS: u32 = 20;

#[test]
fn gateways_ports_are_captured_and_tshark_reads_them() {
    for (stack, name) in [(CUBIC, "cubic"), (Stack::WAVELANE, "wavelane")] {
        let (out, raw) = demo(stack, SECONDS, CaptureExtent::Headers, name);
        let found = files(&out);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["test-a-air.pcapng", "test-b-air.pcapng"]);
        let (again, raw_again) = demo(stack, SECONDS, CaptureExtent::Headers, &format!("{name}-again"));
        assert!(files(&again) == found && raw_again == raw, "{name}: two runs of one seed differ");
        let ends = ["a", "b"].map(|node| read_back(&out.join(format!("pcap/test-{node}-air.pcapng"))));
        [out, again].iter().for_each(|out| std::fs::remove_dir_all(out).unwrap());
        let [Some(a), Some(b)] = ends else { return };
        // Answers to the last questions are waited for, and captured, but what is sent then is not counted.
        let counted = |packet: &&(bool, u64, f64, String)| packet.0 && packet.2 <= f64::from(SECONDS);
        let sent: u64 = a.iter().chain(&b).filter(counted).map(|packet| packet.1).sum();
        assert_eq!(sent, raw.wire_octets, "{name}: what left both gateways");
        for (from, to) in [(&a, &b), (&b, &a)] {
            let mut on_the_way: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
            from.iter().filter(|packet| packet.0).for_each(|p| on_the_way.entry(&p.3).or_default().push(p.2));
            let arrived: Vec<_> = to.iter().filter(|packet| !packet.0).collect();
            let left = from.iter().filter(|packet| packet.0).count();
            assert!(arrived.len() > left * 9 / 10 && arrived.len() < left, "{name}: {} of {left}", arrived.len());
            for packet in arrived {
                let sent = on_the_way.get(packet.3.as_str()).and_then(|times| times.first());
                assert!(sent.is_some_and(|sent| packet.2 >= sent + 0.05), "{name}: {packet:?} left at {sent:?}");
            }
        }
    }
}

/// Of several seeds none is captured: any of them can be had again.
#[test]
fn without_captures_no_file_is_made_and_nothing_else_changes() {
    let (with, captured) = demo(CUBIC, 2, CaptureExtent::Headers, "with");
    let (without, plain) = demo(CUBIC, 2, CaptureExtent::Off, "without");
    assert!(captured == plain && files(&without).is_empty());
    [with, without].iter().for_each(|out| std::fs::remove_dir_all(out).unwrap());
}
