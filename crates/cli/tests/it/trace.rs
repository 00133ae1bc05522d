//! `wavelane trace` on captures that the simulator writes, against tcptrace.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

const WAVELANE: &str = env!("CARGO_BIN_EXE_wavelane");

const SCENARIO: &str = r#"
title = "captures"
seed = 1
duration = "8 s"
stacks = ["tcp-reno", "tcp-cubic", "tcp-bbr"]
[nodes]
client = "endpoint"
a = "gateway"
b = "gateway"
server = "endpoint"
[channels.near]
preset = "ethernet"
between = ["client", "a"]
[channels.air]
kind = "cable"
between = ["a", "b"]
forward = { rate = "8 Mbit/s", delay = "20 ms", queue = "50 kB", loss = { kind = "random", p = "1/100" } }
reverse = "same"
[channels.far]
preset = "ethernet"
between = ["b", "server"]
[flows.upload]
app = "upload"
from = "client"
to = "server"
size = "2 MB"
"#;

/// Whole numbers, in which the two must agree exactly.
const COLUMNS: [&str; 18] = [
    "total_packets",
    "ack_pkts_sent",
    "pure_acks_sent",
    "sack_pkts_sent",
    "unique_bytes_sent",
    "actual_data_pkts",
    "actual_data_bytes",
    "rexmt_data_pkts",
    "rexmt_data_bytes",
    "outoforder_pkts",
    "SYN/FIN_pkts_sent",
    "max_segm_size",
    "max_win_adv",
    "RTT_samples",
    "post-loss_acks",
    "segs_cum_acked",
    "duplicate_acks",
    "triple_dupacks",
];

/// The first connection's columns.
fn columns(program: &str, words: &[&str], file: &Path) -> BTreeMap<String, String> {
    let out = Command::new(program).args(words).arg(file).stderr(Stdio::null()).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let mut lines = text.lines().skip_while(|l| !l.starts_with("conn_#")).filter(|l| !l.trim().is_empty());
    let split = |line: &str| line.split(',').map(|c| c.trim().to_owned()).collect::<Vec<_>>();
    let names = split(lines.next().unwrap_or_else(|| panic!("{program} does not read {}: {text}", file.display())));
    names.into_iter().zip(split(lines.next().unwrap())).collect()
}

#[test]
fn captures_of_the_simulator_read_as_tcptrace_reads_them() {
    let found = Command::new("tcptrace").arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        eprintln!("SKIPPED (tcptrace is missing: apt-get install tcptrace): captures of the simulator");
        return;
    }
    let place = std::env::temp_dir().join(format!("wavelane-cli-{}-captures", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let scenario = place.join("scenario.toml");
    std::fs::write(&scenario, SCENARIO).unwrap();
    let record = place.join("record");
    let run = Command::new(WAVELANE).arg("run").arg(&scenario).arg("--out").arg(&record).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let mut again = 0;
    for stack in ["tcp-reno", "tcp-cubic", "tcp-bbr"] {
        for end in ["a", "b"] {
            let file = record.join(format!("pcap/{stack}-{end}-air.pcapng"));
            let theirs = columns("tcptrace", &["--csv", "-l", "-r", "-W", "-n"], &file);
            let ours = columns(WAVELANE, &["trace", "--csv"], &file);
            for column in COLUMNS.iter().flat_map(|c| [format!("{c}_a2b"), format!("{c}_b2a")]) {
                assert_eq!(ours[&column], theirs[&column], "{stack} {end} {column}");
            }
            if end == "a" {
                again += ours["rexmt_data_pkts_a2b"].parse::<u64>().unwrap();
                let classes =
                    ["fast", "rto", "tlp"].map(|c| ours[&format!("retransmits_{c}_a2b")].parse::<u64>().unwrap());
                assert_eq!(classes.iter().sum::<u64>(), ours["rexmt_data_pkts_a2b"].parse::<u64>().unwrap(), "{stack}");
            }
        }
    }
    assert!(again > 20, "only {again} segments were sent again: the captures show too little");
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn the_name_of_a_capture_writes_no_line_of_its_own() {
    let named = std::env::temp_dir().join(format!("wavelane-{}\nwavelane: all is well.pcap", std::process::id()));
    for present in [false, true] {
        if present {
            std::fs::write(&named, "no capture").unwrap();
        }
        let output = Command::new(WAVELANE).arg("trace").arg(&named).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("\\nwavelane: all is well.pcap"), "{said}");
        assert!(said.lines().all(|line| !line.starts_with("wavelane: all")), "{said}");
    }
    std::fs::remove_file(&named).unwrap();
}
