//! Frames captured on a simulated 802.11 cell, written as pcapng with radiotap and read back by tshark.

use std::process::Command;
use wavelane_base::{FrameMeta, Instant, Machine, Rate, Seed, Span};
use wavelane_channel::wifi::{
    CapturePoint, Category, Edca, Handling, LINKTYPE_RADIOTAP, Phy, Reach, ReachMap, Rules, Wifi, WifiConfig, port,
};
use wavelane_measure::pcapng::{PortDirection, put_head, put_packet};

/// An IPv4 header and UDP 1000 -> 2000 with a body of zeros; checksums left out.
fn packet(octets: u16) -> Vec<u8> {
    let (total, udp) = (octets.to_be_bytes(), (octets - 20).to_be_bytes());
    let mut p = vec![0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    p.extend_from_slice(&[0x03, 0xe8, 0x07, 0xd0, udp[0], udp[1], 0, 0]);
    p.resize(usize::from(octets), 0);
    p
}

/// Two backlogged stations that do not hear each other and one that both send to; the capture at `point`.
fn capture(config: &WifiConfig, point: CapturePoint, handling: Handling, run: Span) -> (Wifi, Vec<u8>) {
    let config = WifiConfig { captures: vec![point], snaplen: 256, ..config.clone() };
    let mut wifi = Wifi::new(Seed(1), "air", &config).unwrap();
    let (mut file, mut bytes, mut buf) = (Vec::new(), Vec::new(), vec![0; 4_096]);
    put_head(&mut file, LINKTYPE_RADIOTAP, "air", 256);
    wifi.hand_in(Instant::ZERO, port(0, 0), &packet(80), FrameMeta::default(), handling);
    let mut now = Instant::ZERO;
    while now < Instant::ZERO + run {
        for station in [1, 2] {
            while wifi.waiting(station) < 8 {
                wifi.hand_in(now, port(station, 0), &packet(1_500), FrameMeta::default(), handling);
            }
        }
        now = wifi.poll_timeout().unwrap().at;
        wifi.handle_timeout(now);
        while let Some(ready) = wifi.next_ready() {
            wifi.poll_transmit(now, ready, &mut buf, 1).unwrap();
        }
        while wifi.poll_event().is_some() {}
        while let Some(captured) = wifi.poll_capture(&mut bytes) {
            let way = if captured.sent { PortDirection::Out } else { PortDirection::In };
            put_packet(&mut file, captured.at.as_nanos(), Some(way), &bytes, captured.octets);
        }
    }
    assert_eq!(wifi.captures_missed(), 0);
    (wifi, file)
}

const FIELDS: [&str; 10] = [
    "wlan.fc.type_subtype",
    "wlan.fc.retry",
    "wlan.duration",
    "wlan.seq",
    "wlan.ta",
    "wlan.qos.priority",
    "wlan.qos.ack",
    "radiotap.datarate",
    "radiotap.flags.badfcs",
    "ip.dst",
];

/// The fields above of each frame as tshark reads them, or nothing if it is not installed.
fn read_back(name: &str, file: &[u8]) -> Option<Vec<Vec<String>>> {
    let path = std::env::temp_dir().join(format!("wavelane-{}-{name}.pcapng", std::process::id()));
    std::fs::write(&path, file).unwrap();
    let tshark = |arguments: &[&str]| {
        let run = Command::new("tshark").arg("-r").arg(&path).args(arguments).output();
        run.ok().map(|out| String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let fields: Vec<&str> = ["-T", "fields"].into_iter().chain(FIELDS.iter().flat_map(|f| ["-e", *f])).collect();
    let Some(text) = tshark(&fields) else {
        eprintln!("SKIPPED (not installed): reading back with tshark");
        std::fs::remove_file(&path).unwrap();
        return None;
    };
    let bad = tshark(&["-Y", "_ws.malformed || _ws.expert.severity == error"]).unwrap();
    assert_eq!(bad, "", "tshark finds fault with these frames");
    std::fs::remove_file(&path).unwrap();
    Some(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

fn hidden(rules: Rules) -> WifiConfig {
    let mut reach = ReachMap::none(3);
    reach.set_both(0, 1, Reach::FULL).unwrap();
    reach.set_both(0, 2, Reach { signal_db: 20, ..Reach::FULL }).unwrap();
    WifiConfig { reach, ..WifiConfig::new(Phy::Ofdm, Rate::from_bps(54_000_000), rules, 3) }
}
fn truth(field: &str) -> bool {
    ["1", "True"].contains(&field)
}

#[test]
fn tshark_reads_exchanges_with_rts() {
    let config = WifiConfig { rts_threshold: 500, ..hidden(Rules::standard()) };
    let (wifi, file) = capture(&config, CapturePoint::Medium, Handling::default(), Span::from_millis(500));
    let Some(frames) = read_back("rts", &file) else { return };
    let of = |kind: &str| {
        frames
            .iter()
            .filter(|f| u32::from_str_radix(&f[0][2..], 16).unwrap() == u32::from_str_radix(kind, 16).unwrap())
            .collect::<Vec<_>>()
    };
    let (rts, cts, ack, data) = (of("1b"), of("1c"), of("1d"), of("20"));
    assert_eq!(rts.len() + cts.len() + ack.len() + data.len(), frames.len());
    let sum = |what: fn(&wavelane_channel::wifi::Tally) -> u64| (0..3).map(|s| what(wifi.tally(s))).sum::<u64>();
    // The last frame may still be on the air.
    assert!(sum(|t| t.rts_sent).abs_diff(rts.len() as u64) <= 2 && rts.len() > 500, "{}", rts.len());
    assert!(sum(|t| t.data_sent).abs_diff(data.len() as u64) <= 2);
    assert!(sum(|t| t.acknowledged).abs_diff(ack.len() as u64) <= 2);
    // SIFS 16, ACK and CTS 28 at 24 Mbit/s, data of 1,536 bytes 248.
    assert!(rts.iter().all(|f| f[2] == (3 * 16 + 28 + 248 + 28).to_string()));
    assert!(cts.iter().all(|f| f[2] == (2 * 16 + 248 + 28).to_string() && f[7] == "24"));
    assert!(ack.iter().all(|f| f[2] == "0" && f[7] == "24"));
    let broadcast: Vec<_> = data.iter().filter(|f| f[2] == "0").collect();
    assert_eq!(broadcast.len(), 1);
    assert_eq!(broadcast[0][7], "6");
    assert!(data.iter().filter(|f| f[2] != "0").all(|f| f[2] == "44" && f[7] == "54" && f[9] == "10.0.0.2"));
    assert!(rts.iter().chain(&cts).chain(&ack).all(|f| !truth(&f[1])), "only data is ever marked a retry");
    // A repeated sequence number is a retry, and nothing else is.
    for station in ["02:57:4c:00:00:01", "02:57:4c:00:00:02"] {
        let own: Vec<_> = data.iter().filter(|f| f[4] == station).collect();
        assert!(own.len() > 200);
        for pair in own.windows(2) {
            let (a, b): (u32, u32) = (pair[0][3].parse().unwrap(), pair[1][3].parse().unwrap());
            assert_eq!(truth(&pair[1][1]), a == b, "{pair:?}");
            assert!(b.wrapping_sub(a) & 0xfff <= 8, "{pair:?}");
        }
    }
}

#[test]
fn tshark_reads_bursts_priorities_and_the_ack_policy() {
    let edca = Some(Edca::standard(Phy::Ofdm));
    let config = WifiConfig { edca, ..WifiConfig::new(Phy::Ofdm, Rate::from_bps(54_000_000), Rules::standard(), 3) };
    let voice = Handling { category: Category::Voice, ..Handling::default() };
    let (_, file) = capture(&config, CapturePoint::Station(0), voice, Span::from_millis(300));
    let Some(frames) = read_back("edca", &file) else { return };
    let data: Vec<_> = frames.iter().filter(|f| f[0].ends_with("28")).collect();
    assert!(data.len() > 300 && data.iter().all(|f| f[5] == "6"), "{}", data.len());
    // 1,538 bytes last 252 us. In a burst the Duration covers ACK and next exchange: 16 + 28, and 16 + 252 + 16 + 28.
    let (middle, last) = (16 + 28 + 16 + 252 + 16 + 28, 16 + 28);
    let unicast: Vec<_> = data.iter().filter(|f| f[4] != "02:57:4c:00:00:00").collect();
    assert!(unicast.iter().all(|f| [middle, last].contains(&f[2].parse().unwrap())));
    assert!(unicast.iter().filter(|f| f[2] == middle.to_string()).count() > unicast.len() / 2);
    let acks: Vec<_> = frames.iter().filter(|f| f[0].ends_with("1d")).collect();
    assert!(acks.iter().all(|f| ["0".to_string(), (16 + 252 + 16 + 28).to_string()].contains(&f[2])));

    let silent = Handling { no_ack: true, ..voice };
    let (_, file) = capture(&config, CapturePoint::Medium, silent, Span::from_millis(100));
    let frames = read_back("no-ack", &file).unwrap();
    assert!(frames.len() > 200 && frames.iter().all(|f| f[0].ends_with("28")), "nothing but data");
    assert!(frames.iter().filter(|f| f[9] == "10.0.0.2").all(|f| f[6] == "0x0001" || f[6] == "1"), "{:?}", frames[1]);
}

#[test]
fn tshark_reads_frames_received_in_error() {
    let (_, file) =
        capture(&hidden(Rules::standard()), CapturePoint::Station(0), Handling::default(), Span::from_millis(500));
    let Some(frames) = read_back("broken", &file) else { return };
    let broken = frames.iter().filter(|f| truth(&f[8])).count();
    assert!(broken > 20 && broken < frames.len(), "{broken} of {}", frames.len());
}
