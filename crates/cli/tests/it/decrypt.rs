//! `wavelane run --keys`, `wavelane trace --keys --decrypt`, and the Wireshark dissector on what they write.

use crate::common::{Place, err, out as told, wavelane};
use std::path::Path;
use std::process::Command;

const DISSECTOR: &str = concat!("lua_script:", env!("CARGO_MANIFEST_DIR"), "/../../packaging/wireshark/wavelane.lua");
/// A relay and losses: most frames of the block service are there.
const SCENARIO: &str = r#"
title = "keys"
seed = 1
duration = "4 s"
stacks = ["wavelane"]
[nodes]
client = "endpoint"
a = "gateway"
r = "gateway"
b = "gateway"
server = "endpoint"
[channels.near]
preset = "ethernet"
between = ["client", "a"]
[channels.air]
kind = "cable"
between = ["a", "r"]
forward = { rate = "8 Mbit/s", delay = "10 ms", queue = "50 kB", loss = { kind = "random", p = "1/20" } }
reverse = "same"
[channels.hop]
kind = "cable"
between = ["r", "b"]
forward = { rate = "8 Mbit/s", delay = "10 ms", queue = "50 kB" }
reverse = "same"
[channels.far]
preset = "ethernet"
between = ["b", "server"]
[flows.page]
app = "download"
from = "client"
to = "server"
size = "1 MB"
"#;

/// What tshark prints with the dissector; `None` without tshark.
fn tshark(file: &str, arguments: &[&str]) -> Option<String> {
    let Ok(out) = Command::new("tshark").args(["-X", DISSECTOR, "-r", file]).args(arguments).output() else {
        eprintln!("SKIPPED (not installed): tshark with the dissector");
        return None;
    };
    assert!(out.status.success(), "{}", err(&out));
    assert!(!err(&out).contains("Lua"), "{}", err(&out));
    Some(told(&out))
}

/// Runs the scenario `on` a backend with keys, opens the capture of the relay's lossy channel and has tshark read both.
fn run_and_decrypt(on: &str) {
    let folder = Place::new(on);
    let (scenario, record) = (folder.path("keys.toml"), folder.path("record"));
    std::fs::write(&scenario, SCENARIO).unwrap();
    let ran = wavelane(&["run", &scenario, "--on", on, "--keys", "--out", &record]);
    // A busy machine makes a run of the lab inconclusive (3).
    assert!(ran.status.success() || on == "lab" && ran.status.code() == Some(3), "{}", err(&ran));
    let pcap = Path::new(&record).join("pcap");
    let (log, sealed) = (pcap.join("wavelane-keys.txt"), pcap.join("wavelane-r-air.pcapng"));
    let (log, sealed, out) = (log.to_str().unwrap(), sealed.to_str().unwrap(), folder.path("opened.pcapng"));

    let opened = wavelane(&["trace", sealed, "--keys", log, "--decrypt", &out]);
    assert!(opened.status.success(), "{}", err(&opened));
    assert_eq!(err(&opened), "", "nothing stays sealed");
    let again = wavelane(&["trace", sealed, "--keys", log, "--decrypt", &out]);
    assert_eq!(again.status.code(), Some(2), "a file that exists is kept");
    assert!(err(&again).contains("choose another name or remove it"), "{}", err(&again));
    assert_eq!(folder.names(), ["keys.toml", "opened.pcapng", "record"], "no draft is left");

    let Some(malformed) = tshark(&out, &["-Y", "_ws.malformed || _ws.expert.severity == error"]) else { return };
    assert_eq!(malformed, "");
    let names = tshark(&out, &["-Y", "wavelane.kind == 0x84", "-T", "fields", "-e", "wavelane.frame"]).unwrap();
    for frame in ["0x0002", "0x0008", "0x0009", "0x0018", "0x0019", "0x000a", "0x000d"] {
        assert!(names.contains(frame), "no frame {frame}");
    }
    // Before it was opened nothing but the outside shows.
    let outside =
        tshark(sealed, &["-Y", "wavelane", "-T", "fields", "-e", "wavelane.kind", "-e", "wavelane.frame"]).unwrap();
    let kinds: std::collections::BTreeSet<&str> = outside.lines().map(str::trim).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["0x01", "0x02", "0x04"]);
}

#[test]
fn keys_decrypt_a_simulated_capture() {
    run_and_decrypt("sim");
}

/// The same between kernels: what `wavelaned` logged opens what the lab captured.
#[test]
fn keys_decrypt_a_capture_of_the_lab() {
    let user = Command::new("id").arg("-u").output().unwrap();
    let daemon = Path::new(crate::common::WAVELANE).with_file_name("wavelaned");
    if user.stdout != b"0\n" || !daemon.exists() {
        eprintln!("SKIPPED (needs root, and `cargo build -p wavelane-daemon`): decrypting a capture of the lab");
        return;
    }
    run_and_decrypt("lab");
}

#[test]
fn wrong_files_are_refused_with_their_remedy() {
    let folder = Place::new("wrong");
    let (log, capture, out) = (folder.path("keys"), folder.path("none.pcap"), folder.path("out"));
    std::fs::write(&log, "0000 aes-256-gcm 00\n").unwrap();
    std::fs::write(&capture, "no capture").unwrap();
    let said = wavelane(&["trace", &capture, "--keys", &log, "--decrypt", &out]);
    assert_eq!(said.status.code(), Some(2));
    assert!(err(&said).contains("line 1"), "{}", err(&said));
    std::fs::write(&log, format!("00000001 aes-256-gcm {}\n", "00".repeat(32))).unwrap();
    let said = wavelane(&["trace", &capture, "--keys", &log, "--decrypt", &out]);
    assert_eq!(said.status.code(), Some(2));
    assert!(err(&said).contains("neither a pcap nor a pcapng"), "{}", err(&said));
    assert_eq!(folder.names(), ["keys", "none.pcap"], "nothing half made is left");
    assert_eq!(wavelane(&["trace", &capture, "--keys", &log]).status.code(), Some(2), "--keys goes with --decrypt");
}
