#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::Scenario;
use proptest::prelude::*;
use std::io::Write;
use std::path::PathBuf;
use wavelane_base::Instant;

fn mahimahi(text: &str) -> Result<RateTrace, String> {
    rate(text, Source::made("x"), Format::Mahimahi, Ratio::ONE, Then::Wrap)
}

fn csv(text: &str) -> Result<RateTrace, String> {
    rate(text, Source::made("x"), Format::Csv, Ratio::ONE, Then::Wrap)
}

fn delays(text: &str) -> Result<DelayTrace, String> {
    delay(text, Source::made("x"), Span::from_millis(10), Then::Wrap)
}

/// A folder of one test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wavelane-trace-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("deep")).unwrap();
        Self(path)
    }
    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        std::fs::write(self.0.join(name), bytes).unwrap();
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

const AIR: &str = "duration = \"1 s\"\nstacks = [\"tcp-bbr\"]\nnodes = { a = \"endpoint\", b = \"endpoint\" }\n\
    [channels.air]\nbetween = [\"a\", \"b\"]\nreverse = \"same\"\nforward = { WHAT }\n\
    [flows.up]\napp = \"upload\"\nfrom = \"a\"\nto = \"b\"\n";

fn scenario(what: &str, base: &Path) -> Result<Scenario, String> {
    Scenario::parse(&AIR.replace("WHAT", what), base).map_err(|error| error.to_string())
}

#[test]
fn the_three_kinds_are_read() {
    let trace = mahimahi("0\n5\r\n5\n10").unwrap();
    assert_eq!((trace.period(), trace.mean()), (Span::from_millis(10), Rate::from_bps(4 * 12_000 * 100)));
    let trace = csv("seconds,Mbit/s\n1713543780.5,2.5\n1713543781.5,0\n1713543782.5,0.5\n").unwrap();
    assert_eq!((trace.period(), trace.mean()), (Span::from_secs(3), Rate::from_bps(1_000_000)));
    assert_eq!(begins("seconds,Mbit/s\n7.25,1\n"), Some(Span::from_millis(7_250)));
    let trace = delays("22\n12.5\n").unwrap();
    assert_eq!((trace.longest(), trace.period()), (Span::from_millis(22), Span::from_millis(20)));
}

#[test]
fn a_bad_file_of_each_kind_is_refused_with_its_line_and_a_remedy() {
    for (got, wanted) in [
        (mahimahi("").map(drop), "no entry: name a file"),
        (mahimahi("1\n\n3\n").map(drop), "line 2: '' is not a whole number of milliseconds"),
        (mahimahi("1\n2.5\n").map(drop), "line 2: '2.5' is not a whole number"),
        (mahimahi("1\n7\n6\n").map(drop), "line 3: its time falls below the entry before: sort"),
        (
            mahimahi("seconds,Mbit/s\n0,1\n").map(drop),
            "line 1: 'seconds,Mbit/s' is the head of a table: set format = \"csv\"",
        ),
        (csv("5\n10\n").map(drop), "line 1: '5' is no head of a table: set format = \"mahimahi\""),
        (mahimahi("0\n").map(drop), "it lasts 0 s"),
        (mahimahi("99999999\n").map(drop), "cut the recording"),
        (csv("0,1\n1,2\n").map(drop), "line 1: '0,1' is no head: write seconds,Mbit/s"),
        (csv("seconds,MB/s\n0,1\n").map(drop), "is no head"),
        (csv("seconds,Mbit/s\n0,1\n1;2\n").map(drop), "line 3: '1;2' is not seconds and a rate"),
        (csv("seconds,Mbit/s\n0,1\n1,-2\n").map(drop), "line 3: "),
        (csv("seconds,Mbit/s\n0,1\n0,2\n").map(drop), "line 3: its time does not rise above the entry before"),
        (csv("seconds,Gbit/s\n0,1\n1,5000\n").map(drop), "line 3: a rate above 1 Tbit/s: is its unit right?"),
        (csv("seconds,bit/s\n0,0\n1,0\n").map(drop), "nothing ever passes"),
        (delays("20\nx\n").map(drop), "line 2: 'x' is not a delay in milliseconds"),
        (delays("20\n99999999\n").map(drop), "line 2: a delay above"),
    ] {
        let why = got.unwrap_err();
        assert!(why.contains(wanted), "{why}\nwanted {wanted}");
        assert!(!why.contains('\n'), "{why}");
    }
}

#[test]
fn files_are_read_packed_or_not_and_refused_with_the_scenarios_line() {
    let folder = Folder::new("files");
    folder.write("plain.down", b"5\n10\n");
    folder.write("packed.down.gz", &gzip(b"5\n10\n"));
    folder.write("cut.down.gz", &gzip(&b"5\n".repeat(9_000))[..30]);
    folder.write("binary.down", &[0xFF, 0xFE, 0]);
    folder.write("bomb.gz", &gzip(&vec![b'1'; TRACE_FILE_MAX as usize + 2]));
    let air = |file: &str| scenario(&format!("rate = {{ file = \"{file}\", format = \"mahimahi\" }}"), &folder.0);
    let [plain, packed] = ["plain.down", "packed.down.gz"].map(|file| {
        let scenario = air(file).unwrap();
        let wavelane_channel::CableConfig { forward, .. } = match &scenario.channels[0].kind {
            crate::ChannelKind::Cable(cable) => (**cable).clone(),
            _ => unreachable!("a cable"),
        };
        forward.rate_trace.unwrap()
    });
    assert_eq!((plain.mean(), &plain.source().sha256), (packed.mean(), &packed.source().sha256));
    for (file, why) in [
        ("none.down", "cannot read it"),
        ("deep", "no regular file"),
        ("cut.down.gz", "its gzip is damaged"),
        ("binary.down", "it is not a text"),
        ("bomb.gz", "unpacked: cut"),
    ] {
        let said = air(file).unwrap_err();
        assert!(said.starts_with("7: ") || said.starts_with(" 7: ") || said.contains("7: "), "{said}");
        assert!(said.contains(why) && said.contains(file), "{said}");
    }
    for (what, why) in [
        ("rate = { file = \"plain.down\" }", "lacks 'format'"),
        ("rate = { file = \"plain.down\", format = \"pcap\" }", "unknown format of a recording 'pcap'"),
        ("rate = { file = \"plain.down\", format = \"mahimahi\", scale = \"0\" }", "nothing ever passes"),
        ("rate = { file = \"plain.down\", format = \"mahimahi\", then = \"stop\" }", "unknown end of a recording"),
        ("delay = { file = \"plain.down\" }", "lacks 'every'"),
        ("delay = { file = \"plain.down\", every = \"0 s\" }", "it lasts 0 s"),
    ] {
        let said = scenario(what, &folder.0).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}

/// A Record holds the resolved scenario: name and hash of a recording, not its content.
#[test]
fn a_record_finds_its_recording_again_or_says_which_is_missing() {
    let folder = Folder::new("record");
    let down = folder.write("x.down", b"5\n10\n");
    folder.write("x.delay", b"20\n21\n");
    let what = "rate = { file = \"x.down\", format = \"mahimahi\", scale = \"1/2\", then = \"end\" }, \
                delay = { file = \"x.delay\", every = \"10 ms\" }";
    let first = scenario(what, &folder.0).unwrap();
    let written = first.to_toml();
    let elsewhere = folder.0.join("deep");
    assert_eq!(Scenario::parse(&written, &elsewhere).unwrap(), first);
    // Gone from its place, it is found beside the Record's scenario.
    std::fs::rename(&down, elsewhere.join("x.down")).unwrap();
    let moved = Scenario::parse(&written, &elsewhere).unwrap();
    assert_eq!(moved.duration, first.duration);
    // Also if another has taken its place.
    std::fs::write(&down, b"5\n11\n").unwrap();
    assert_eq!(Scenario::parse(&written, &elsewhere).unwrap(), moved);
    std::fs::remove_file(&down).unwrap();
    // What somebody mistyped is not looked for elsewhere.
    let mistyped = what.replace("x.down", "no/x.down");
    let said = scenario(&mistyped, &elsewhere).unwrap_err().to_string();
    assert!(said.contains("no/x.down") && said.contains("counts from the scenario's folder"), "{said}");
    // Another recording of the same name is not the one that was run.
    std::fs::write(elsewhere.join("x.down"), b"5\n11\n").unwrap();
    let said = Scenario::parse(&written, &elsewhere).unwrap_err().to_string();
    assert!(said.contains("its SHA-256 is") && said.contains("wanted is the recording with SHA-256"), "{said}");
    std::fs::remove_file(elsewhere.join("x.down")).unwrap();
    let said = Scenario::parse(&written, &elsewhere).unwrap_err().to_string();
    let hash = sha256(b"5\n10\n");
    assert!(
        said.contains("x.down") && said.contains(&hash) && said.contains("beside the Record's scenario.toml as x.down"),
        "{said}"
    );
}

#[test]
fn a_flows_link_has_the_rate_that_was_recorded_meanwhile() {
    let folder = Folder::new("mean");
    folder.write("x.csv", b"seconds,Mbit/s\n0,1\n1,3\n2,3\n");
    let scenario = scenario("rate = { file = \"x.csv\", format = \"csv\" }", &folder.0).unwrap();
    let bps = |from, until| scenario.link_bps(&scenario.flows[0], Span::from_secs(from), Span::from_secs(until));
    assert_eq!((bps(0, 1), bps(0, 2), bps(1, 3)), (Some(1e6), Some(2e6), Some(3e6)));
}

#[test]
fn a_recording_is_kept_once_however_often_and_as_whatever_part_it_is_named() {
    let folder = Folder::new("once");
    folder.write("x.down", b"5\n10\n");
    folder.write("same.down.gz", &gzip(b"5\n10\n"));
    folder.write("x.csv", b"seconds,Mbit/s\n0,1\n1,3\n");
    let two = |one: &str, other: &str| {
        let rate = |of: &str| format!("rate = {{ {of} }}");
        let text = AIR.replace("reverse = \"same\"", &format!("reverse = {{ {} }}", rate(other)));
        let text = text.replace("WHAT", &rate(one));
        match &Scenario::parse(&text, &folder.0).unwrap().channels[0].kind {
            crate::ChannelKind::Cable(cable) => {
                [&cable.forward, &cable.reverse].map(|way| way.rate_trace.clone().unwrap())
            }
            _ => unreachable!("a cable"),
        }
    };
    let [one, other] = two(
        "file = \"x.down\", format = \"mahimahi\"",
        "file = \"same.down.gz\", format = \"mahimahi\", scale = \"1/2\", then = \"end\"",
    );
    assert!(one.shares(&other) && other.source().file.ends_with("same.down.gz"), "{other:?}");
    let alone = rate("5\n10\n", other.source().clone(), Format::Mahimahi, Ratio::new(1, 2).unwrap(), Then::End);
    assert_eq!(other, alone.unwrap());
    let csv = "file = \"x.csv\", format = \"csv\"";
    let [one, other] = two(csv, csv);
    assert!(one.shares(&other));
    let [one, other] = two(csv, &format!("{csv}, scale = \"1/2\""));
    assert!(!one.shares(&other) && other.mean() == Rate::from_bps(1_000_000), "{other:?}");
    let [one, _] = two(&format!("{csv}, scale = 1"), csv);
    assert_eq!(one.scale(), Ratio::ONE);
}

/// Each part of a table of rates is kept by itself, so their number is bounded by what they take.
#[test]
fn recordings_that_take_too_much_memory_are_refused() {
    let folder = Folder::new("much");
    // More than an hour of steps of 4 ms.
    let entries = wavelane_channel::cable::ENTRIES_MAX / 4;
    let steps: String = (0..entries).map(|n| format!("{}.{:03},1\n", n / 250, n % 250 * 4)).collect();
    folder.write("x.csv", format!("seconds,Mbit/s\n{steps}").as_bytes());
    let base = crate::parse_trace::Base::new(&folder.0);
    let (text, source) = read(&folder.0.join("x.csv")).unwrap();
    let part = |n: u32| base.rate(&text, source.clone(), Format::Csv, (Ratio::new(1, n).unwrap(), Then::Wrap));
    let most = TRACE_TABLES_MAX as usize / part(1).unwrap().octets();
    for n in 2..=most as u32 {
        part(n).unwrap();
        part(n).unwrap();
    }
    let why = part(99).unwrap_err();
    assert!(why.contains("recordings take more than") && why.contains("name fewer"), "{why}");
}

#[test]
fn lines_are_counted_before_they_are_kept() {
    let many = "1\n".repeat(wavelane_channel::cable::ENTRIES_MAX + 1);
    let why = mahimahi(&many).unwrap_err();
    assert!(why.contains("more than 4194304 entries: cut the recording"), "{why}");
    // Before a wrong line behind them is met.
    assert_eq!(mahimahi(&(many + "x\n")).unwrap_err(), why);
}

proptest! {
    /// Whatever stands in a file, and wherever it is cut, it is refused or read.
    #[test]
    fn damaged_files_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..400) {
        let lines: String = (0..40).map(|n| format!("{}\n", n * 13)).collect();
        let table: String = (0..40).map(|n| format!("{n}.5,{}.25\n", n * 13)).collect();
        let table = format!("seconds,Mbit/s\n{table}");
        let noise = String::from_utf8_lossy(&bytes).into_owned();
        let kept = |text: &str| text[..cut.min(text.len())].to_owned();
        for text in [kept(&lines), kept(&table), noise.clone(), kept(&lines) + &noise, kept(&table) + &noise] {
            let end = Instant::from_secs(1);
            for trace in [mahimahi(&text), csv(&text)].into_iter().flatten() {
                prop_assert!(trace.mean_between(Instant::ZERO, end) <= wavelane_channel::cable::TRACE_RATE_MAX);
            }
            if let Ok(trace) = delays(&text) {
                prop_assert!(trace.at(end) <= trace.longest());
            }
        }
    }

    #[test]
    fn damaged_gzip_is_refused_or_read(cut in 0usize..60, at in 0usize..60, with in any::<u8>()) {
        let folder = Folder::new(&format!("gzip-{cut}-{at}-{with}"));
        let mut packed = gzip(&b"1\n2\n3\n40\n".repeat(20));
        let place = at.min(packed.len() - 1);
        packed[place] = with;
        packed.truncate(cut.max(1));
        let path = folder.write("x.gz", &packed);
        if let Ok((text, _)) = read(&path) {
            let _ = mahimahi(&text);
        }
    }
}
