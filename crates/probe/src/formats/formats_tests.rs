#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::*;
use proptest::prelude::*;
use std::process::{Command, Stdio};

const IPERF3: &[u8] = include_bytes!("../../../../testing/formats/iperf3.json");
const IRTT: &[u8] = include_bytes!("../../../../testing/formats/irtt.json");

fn written() -> Vec<u8> {
    let sine = |i: u32, by: f64| (f64::from(i) * 0.2, (i % 10 != 7).then(|| by + f64::from(i % 13)));
    let series = |name: &str, units: &str, by: f64| SeriesData {
        name: name.to_owned(),
        units: units.to_owned(),
        points: (0..60).map(|i| sine(i, by)).collect(),
    };
    let meta = FlentMeta {
        test: "tcp_upload".to_owned(),
        title: "a test".to_owned(),
        host: "10.0.0.2".to_owned(),
        local_host: "10.0.0.1".to_owned(),
        length_s: 8,
        delay_s: 2,
        step_s: 0.2,
        start_unix_s: 1_795_453_988.25,
    };
    let mut out = Vec::new();
    write_flent(&mut out, &meta, &[series("TCP upload", "Mbits/s", 9.0), series("Ping (ms) ICMP", "ms", 20.0)])
        .unwrap();
    out
}

#[test]
fn written_results_read_back() {
    let read = read_results(&written()[..]).unwrap();
    assert_eq!((read.tool, read.title.as_str(), read.start_unix_s), (Tool::Flent, "a test", Some(1_795_453_988.25)));
    let ping = read.series("Ping (ms) ICMP").unwrap();
    assert_eq!((ping.units.as_str(), ping.points.len()), ("ms", 61));
    assert_eq!(ping.points[5], (1.0, Some(25.0)));
    assert_eq!(ping.points[7].1, None);
    assert_eq!(read.totals["total_length_s"], 12.0);
}

/// flent itself opens the file, finds every value, and draws it.
#[test]
fn flent_opens_our_files() {
    let found = Command::new("flent").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !found.is_ok_and(|s| s.success()) {
        eprintln!(
            "SKIPPED (flent is not installed: pip install flent matplotlib): flent reads and draws our data files"
        );
        return;
    }
    let file = std::env::temp_dir().join(format!("wavelane-{}.flent.gz", std::process::id()));
    let picture = file.with_extension("png");
    std::fs::write(&file, written()).unwrap();
    let flent = |words: &[&str]| {
        let out = Command::new("flent").args(words).arg("-i").arg(&file).output().unwrap();
        (
            out.status.success(),
            format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr)),
        )
    };
    let (fine, text) = flent(&["-f", "stats"]);
    assert!(fine && text.contains("TCP upload") && text.contains("Ping (ms) ICMP"), "{text}");
    let (drawn, text) = flent(&["-p", "ping_cdf", "-o", &picture.display().to_string()]);
    if text.contains("atplotlib") && !drawn {
        eprintln!("SKIPPED (matplotlib is not installed: pip install matplotlib): flent draws our data files");
    } else {
        assert!(drawn && std::fs::read(&picture).is_ok_and(|p| p.starts_with(b"\x89PNG")), "{text}");
    }
    let _ = std::fs::remove_file(&picture);
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn iperf3_gives_its_intervals() {
    let read = read_results(IPERF3).unwrap();
    assert_eq!((read.tool, read.title.as_str()), (Tool::Iperf3, "127.0.0.1"));
    let sum = read.series("sum::throughput").unwrap();
    assert_eq!((sum.units.as_str(), sum.points.len()), ("Mbits/s", 2));
    assert!((sum.points[0].1.unwrap() - 10.484_911).abs() < 1e-5);
    assert!((read.series("stream 5::tcp_rtt").unwrap().points[0].1.unwrap() - 0.06).abs() < 1e-9);
    assert_eq!(read.totals["sum_sent_bytes"], 2_621_440.0);
}

/// The points of a file's throughput, and what was repaired.
fn throughput(file: &[u8]) -> (Vec<(f64, Option<f64>)>, Vec<String>) {
    let results = read_results(file).unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(file)));
    (results.series("sum::throughput").expect("its sum").points.clone(), results.repaired)
}

#[test]
fn files_as_they_are_found_are_read_and_repairs_said() {
    let interrupted = include_bytes!("../../../../testing/formats/iperf3-interrupted.json");
    let stream = include_bytes!("../../../../testing/formats/iperf3-json-stream.json");
    let nan = include_bytes!("../../../../testing/formats/iperf3-nan.json");
    let (whole, none) = throughput(IPERF3);
    assert!(none.is_empty());
    let repaired = |file: &[u8], points: usize, part: &str| {
        let (found, notes) = throughput(file);
        assert!(found.len() == points && notes.len() == 1 && notes[0].contains(part), "{part}: {notes:?} {found:?}");
    };
    repaired(interrupted, 3, "ended early (interrupt - the client has terminated)");
    let (found, notes) = throughput(stream);
    assert!(found.len() == 3 && notes.is_empty(), "a stream is in order: {notes:?}");
    assert!(read_results(&nan[..]).unwrap().repaired[0].contains("NaN or Infinity"));
    let n = whole.len();
    let with = |before: &[u8], after: &[u8]| [before, IPERF3, after].concat();
    repaired(&with(b"\xEF\xBB\xBF", b""), n, "byte order mark");
    repaired(&with(b"warning: this system has no \x1b[31mclock\n", b""), n, "octets of other text");
    repaired(&with(b"", b"\niperf3: done {}\n"), n, "octets of other text");
    repaired(&with(b"$ iperf3 -J {x}; ", b""), n, "octets of other text");
    let timed = stream.split(|octet| *octet == b'\n').map(|line| [b"2026-11-30T05:28:56Z ", line, b"\n"].concat());
    repaired(&timed.collect::<Vec<_>>().concat(), 3, "octets of other text");
    repaired(&with(b"", IPERF3), n, "the same document stands there 2 times");
    repaired(&with(b"{\"start\":{},\"error\":\"busy\"}\n", b""), n, "of 2 documents number 2");
    let wide: Vec<u8> = String::from_utf8_lossy(IPERF3).encode_utf16().flat_map(u16::to_le_bytes).collect();
    repaired(&[b"\xFF\xFE", &wide[..]].concat(), n, "UTF-16");
    // Cut off in its last interval, and a stream in its last line.
    let text = String::from_utf8_lossy(interrupted).into_owned();
    let cut = text.find("\"end\": {").unwrap() - 40;
    repaired(&text.as_bytes()[..cut], 2, "ends within its document");
    let (found, notes) = throughput(&stream[..stream.len() - 9]);
    assert!(found.len() == 3 && notes.len() == 2, "{notes:?}");
    let ending = String::from_utf8_lossy(stream).find("{\"event\": \"end\"").unwrap();
    repaired(&stream[..ending], 3, "no end event: the test ended early");
    // `--logfile` appends: two tests in one file, the later one of two intervals, then one that got no value.
    let text = String::from_utf8_lossy(stream);
    let second: String = text.lines().filter(|l| !l.contains("\"start\": 2,")).map(|l| format!("{l}\n")).collect();
    let both = [&stream[..], second.as_bytes()].concat();
    repaired(&both, 2, "of 2 documents number 2");
    repaired(
        &[&both[..], b"{\"event\":\"start\",\"data\":{}}\n{\"event\":\"error\",\"data\":\"busy\"}\n"].concat(),
        2,
        "of 3 documents number 2",
    );
    repaired(&[stream, &stream[..]].concat(), 3, "stands there 2 times");
    repaired(&[stream, IPERF3].concat(), n, "of 2 documents number 2");
    // Of a test that is not read nothing is said.
    repaired(&[&stream[..ending], stream].concat(), 3, "of 2 documents number 2");
    // Numbers of other languages and systems.
    for word in ["NaN", "-nan", "Infinity", "-Infinity", "inf", "-inf", "nan(ind)", "-1.#IND", "1.#QNAN", "1.#INF"] {
        let mut file = String::from_utf8_lossy(interrupted).into_owned();
        file = file.replacen("\"retransmits\": 0", &format!("\"retransmits\": {word}"), 1);
        let notes = throughput(file.as_bytes()).1;
        assert!(notes.len() == 2 && notes[0].starts_with("1 values"), "{word}: {notes:?}");
    }
    // Nothing remains.
    for file in [&IPERF3[..40], b"warning: no result\n", b"{\"start\": {\"connected\": [{}]"] {
        let why = read_results(file).unwrap_err().to_string();
        assert!(why.contains("complete?"), "{why}");
    }
    let deep = "[".repeat(100_000);
    assert!(read_results(format!("{{\"a\":{deep}").as_bytes()).is_err());
}

#[test]
fn irtt_files_have_one_way_delays_and_losses() {
    let read = read_results(IRTT).unwrap();
    assert_eq!(read.tool, Tool::Irtt);
    let (rtt, up) = (read.series("Ping (ms) UDP").unwrap(), read.series("OWD up").unwrap());
    assert_eq!(rtt.points.len(), 10);
    assert!((rtt.points[0].1.unwrap() - 3.950_074).abs() < 1e-9 && (up.points[0].1.unwrap() - 0.140_994).abs() < 1e-9);
    assert_eq!(rtt.points[3].1, None);
    assert!(up.points[3].1.is_some());
    let lost = |key: &str| read.totals[key];
    assert_eq!((lost("lost_packets"), lost("lost_up_packets"), lost("lost_down_packets")), (0.0, 0.0, 1.0));
    assert!((read.totals["rtt_median_ms"] - 0.140_936).abs() < 1e-9);
}

#[test]
fn long_names_are_cut_and_stay_distinct() {
    let (long, unit) = ("\u{e4}".repeat(70_000), "u".repeat(70_000));
    let file = serde_json::json!({
        "version": 4, "x_values": [0], "results": { format!("{long}1"): [1], format!("{long}2"): [2], "short": [3] },
        "metadata": { "SERIES_META": { "short": { "UNITS": unit } } },
    });
    let read = read_results(file.to_string().as_bytes()).unwrap();
    assert!(read.series.iter().all(|s| s.name.chars().count() < NAME_MAX + 20 && s.units.len() <= NAME_MAX));
    let values = |name: &str| read.series(name).unwrap().points[0].1;
    let cut = "\u{e4}".repeat(NAME_MAX);
    assert_eq!(values("short"), Some(3.0));
    assert_eq!(
        (values(&format!("{cut}... (series 2)")), values(&format!("{cut}... (series 3)"))),
        (Some(1.0), Some(2.0))
    );
}

#[test]
fn other_files_are_refused_with_a_remedy() {
    for (file, word) in [
        (&b""[..], "complete"),
        (b"{", "complete"),
        (b"{}", "iperf3 -J"),
        (b"{\"version\":2,\"metadata\":{},\"results\":{},\"x_values\":[]}", "version 2"),
        (b"{\"start\":{},\"intervals\":[],\"error\":\"no server\"}", "no server"),
        (b"{\"start\":{},\"intervals\":[]}", "iperf3's file has no value over time"),
        (b"{\"metadata\":{},\"version\":4,\"x_values\":[0],\"results\":{\"n\":[null]}}", "run it longer"),
        (b"{\"round_trips\":[{}],\"config\":{\"params\":{\"interval\":1}}}", "lost"),
    ] {
        let why = read_results(file).unwrap_err().to_string();
        assert!(why.contains(word), "{why}");
    }
}

proptest! {
    #[test]
    fn damaged_files_never_panic(
        which in 0..3_usize,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>()
    ) {
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&written()[..]).read_to_end(&mut unpacked).unwrap();
        let mut file = [IPERF3.to_vec(), IRTT.to_vec(), unpacked][which].clone();
        for (at, to) in flips {
            let at = at.index(file.len());
            file[at] = to;
        }
        let _ = read_results(&file[..]);
        let _ = read_results(&file[..cut.index(file.len())]);
    }
}
