//! The Wireshark dissector reads every golden vector of a frame, each as the one frame of an opened datagram.

use std::path::Path;
use std::process::Command;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// A capture file's header (pcap, microseconds, little-endian), whose packets begin with IP (link type 101).
const FILE_HEADER: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 101];
/// A port of lanes in the dissector's settings.
const PORT: [u8; 2] = 4_780u16.to_be_bytes();

/// The frames of `vectors/frames.txt`, with the text before their octets.
fn vectors() -> Vec<(String, Vec<u8>)> {
    let text =
        std::fs::read_to_string(Path::new(FOLDER).join("vectors/frames.txt")).expect("the vectors are committed");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("refused"));
    lines
        .map(|line| {
            let (name, hex) = line.rsplit_once(' ').expect("a name and octets");
            let octet = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
            (name.to_owned(), (0..hex.len()).step_by(2).map(octet).collect())
        })
        .collect()
}

/// A UDP datagram of `payload` from one lane's port to another's, with its record in a capture file.
fn record(payload: &[u8]) -> Vec<u8> {
    let udp = u16::try_from(payload.len() + 8).expect("a datagram");
    let ip = udp + 20;
    let mut out = Vec::new();
    [0, 0, u32::from(ip), u32::from(ip)].iter().for_each(|word| out.extend(word.to_le_bytes()));
    out.extend([0x45, 0].into_iter().chain(ip.to_be_bytes()).chain([0, 0, 0, 0, 64, 17, 0, 0]));
    out.extend([10, 0, 0, 1, 10, 0, 0, 2].into_iter().chain(PORT).chain(PORT).chain(udp.to_be_bytes()).chain([0, 0]));
    out.extend(payload);
    out
}

#[test]
fn the_dissector_knows_every_frame() {
    let vectors = vectors();
    assert!(vectors.len() > 80, "{} vectors", vectors.len());
    let mut file: Vec<u8> = FILE_HEADER.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (_, frame) in &vectors {
        // Kind, lane, receiver, packet number.
        let opened = [0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2];
        file.extend(record(&[&opened[..], frame].concat()));
    }
    let path = std::env::temp_dir().join(format!("wavelane-{}-frames.pcap", std::process::id()));
    std::fs::write(&path, file).expect("a place for temporary files");
    let script = format!("lua_script:{FOLDER}/packaging/wireshark/wavelane.lua");
    let fields = ["-T", "fields", "-e", "wavelane.frame", "-e", "wavelane.malformed"];
    let run = Command::new("tshark").args(["-X", &script, "-r"]).arg(&path).args(fields).output();
    std::fs::remove_file(&path).expect("it was written");
    let Ok(out) = run else {
        eprintln!("SKIPPED (not installed): tshark with the dissector");
        return;
    };
    let text = String::from_utf8(out.stdout).expect("text");
    assert_eq!(text.lines().count(), vectors.len(), "{}", String::from_utf8_lossy(&out.stderr));
    for ((name, frame), line) in vectors.iter().zip(text.lines()) {
        // Types below 64 are one octet; the others are two (RFC 9000, section 16).
        let kind =
            if frame[0] < 0x40 { u16::from(frame[0]) } else { u16::from_be_bytes([frame[0], frame[1]]) & 0x3fff };
        let (read, malformed) = line.split_once('\t').expect("two fields");
        // What these vectors carry is no IP packet.
        let excused = name.starts_with("packet ");
        assert!(read == format!("0x{kind:04x}") && (malformed.is_empty() || excused), "{name}: {line}");
    }
}
