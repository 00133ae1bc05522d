//! The built program as a user meets it: exit codes, streams, and what stays on disk.

use crate::common::{Place, WAVELANE, err, out, scenarios, smoke, wavelane};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn help_teaches_and_offers_nothing_that_does_not_exist() {
    let help = wavelane(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    let text = out(&help);
    for part in ["Examples:", "wavelane run scenarios/demo.toml", "Exit codes: 0 pass"] {
        assert!(text.contains(part), "{part}");
    }
    assert!(!text.split_whitespace().any(|w| w == "live"), "the backend live is offered");
    assert_eq!(wavelane(&["live"]).status.code(), Some(2));
    assert!(out(&wavelane(&["run", "--help"])).contains("--repeat 20"));
    assert_eq!(wavelane(&[]).status.code(), Some(2));
}

#[test]
fn json_is_one_document_and_the_same_seed_gives_the_same_bytes() {
    let place = Place::new("json");
    let run = |seed: &str, dir: &str| {
        let o = wavelane(&["run", &smoke(), "--json", "--seed", seed, "--out", &place.path(dir)]);
        assert_eq!(o.status.code(), Some(0), "{}", err(&o));
        let mut document: Value = serde_json::from_str(&out(&o)).expect("standard output is one JSON document");
        assert_eq!(document["record"], place.path(dir));
        document["record"] = Value::Null;
        document
    };
    let first = run("7", "a");
    assert_eq!(first, run("7", "b"), "the same seed");
    let tree = |dir: &str| {
        let mut files = Vec::new();
        for folder in ["", "series", "plots"] {
            for entry in std::fs::read_dir(place.0.join(dir).join(folder)).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                if path.is_file() && !["environment.json", "log.txt", "record.json"].contains(&name.as_str()) {
                    files.push((name, std::fs::read(path).unwrap()));
                }
            }
        }
        files.sort();
        files
    };
    assert!(tree("a").len() >= 6);
    assert!(tree("a") == tree("b"), "series, report and pictures are identical");
    let other = run("8", "c");
    assert_ne!(first["stacks"], other["stacks"], "another seed");
    assert_eq!(first["format"], "wavelane-run/1");
    assert_eq!(first["stacks"][0]["flows"][0]["completed"], true);
}

#[test]
fn a_run_prints_a_table_that_ends_with_the_report() {
    let place = Place::new("table");
    let o = wavelane(&["run", &smoke(), "--out", &place.path("r")]);
    assert_eq!(o.status.code(), Some(0), "{}", err(&o));
    let text = out(&o);
    assert!(text.contains("wavelane  page, echo  yes"), "{text}");
    let last = text.lines().last().unwrap();
    let page = last.strip_prefix("report ").unwrap();
    assert!(std::fs::read_to_string(page).unwrap().contains("<svg "), "{page}");
    assert!(err(&o).starts_with("seed 1; to repeat: wavelane run "), "{}", err(&o));
    // The record can be drawn again and compared.
    let again = wavelane(&["report", &place.path("r")]);
    assert_eq!((again.status.code(), out(&again)), (Some(0), text));
    let both = wavelane(&["compare", &place.path("r"), &place.path("r")]);
    assert_eq!(both.status.code(), Some(0));
    assert_eq!(out(&both).matches("verdict pass").count(), 2);
}

/// The numbers of the row that begins with these words.
fn row(text: &str, words: &[&str]) -> Vec<f64> {
    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let found =
        text.lines().map(fields).find(|fields| fields.iter().zip(words).all(|(f, w)| f == w) && fields.len() > 4);
    let found = found.unwrap_or_else(|| panic!("no row {words:?} in\n{text}"));
    found[words.len()..].iter().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn radio_cells_print_categories_and_coding() {
    let place = Place::new("radio");
    let table = |name: &str| {
        let file = scenarios().join("wifi").join(name).display().to_string();
        let o = wavelane(&["run", &file, "--out", &place.path(name)]);
        assert_eq!(o.status.code(), Some(0), "{}", err(&o));
        out(&o)
    };
    let text = table("categories.toml");
    let delivered = |category: &str| row(&text, &["udp", "air", category])[0];
    assert!(delivered("best-effort") > delivered("video") && delivered("video") > delivered("voice"), "{text}");
    // 500 datagrams of 1,200 + 28 bytes a second.
    assert!((4.8..4.92).contains(&delivered("video")), "{text}");
    assert!(text.contains("delivered Mbit/s") && !text.contains("lost coded"), "{text}");
    let text = table("coded-cell.toml");
    let errors = text[text.find("lost coded %").unwrap()..].to_owned();
    let [coded, uncoded_lost, coded_lost] = row(&errors, &["udp", "air"])[..] else { panic!("{text}") };
    assert!(coded > 1.0 && uncoded_lost < coded_lost && coded_lost < 100.0, "{text}");
    let help = out(&wavelane(&["run", "--help"]));
    assert!(help.contains("scenarios/wifi/categories.toml") && help.contains("error correction"), "{help}");
}

#[test]
fn a_failed_check_is_exit_1_with_the_replay_command() {
    let place = Place::new("fail");
    let text =
        std::fs::read_to_string(smoke()).unwrap().replace("at-least = \"10 Mbit/s\"", "at-least = \"19.9 Mbit/s\"");
    let file = place.file("greedy.toml", &text);
    let o = wavelane(&["run", &file, "--out", &place.path("r"), "--seed", "3"]);
    assert_eq!(o.status.code(), Some(1));
    assert!(err(&o).contains(&format!("to repeat: wavelane run {file} --on sim --seed 3")), "{}", err(&o));
    assert!(out(&o).contains("is not >= 19.900 Mbit/s"), "{}", out(&o));
}

#[test]
fn a_comparison_with_a_stack_that_was_not_run_is_inconclusive() {
    let place = Place::new("open");
    let text = std::fs::read_to_string(smoke()).unwrap().replace("[\"wavelane\"]", "[\"pepsal\", \"wavelane\"]");
    let text = text.replace("at-least = \"10 Mbit/s\"", "at-least = true\nthan = \"pepsal\"");
    let o = wavelane(&["run", &place.file("open.toml", &text), "--json", "--out", &place.path("r")]);
    assert_eq!(o.status.code(), Some(3), "{}", err(&o));
    let document: Value = serde_json::from_str(&out(&o)).unwrap();
    assert_eq!(document["omitted"][0]["stack"], "pepsal");
    assert_eq!(document["checks"][2]["verdict"], "inconclusive");
}

#[test]
fn bad_input_is_one_line_with_a_remedy_and_exit_2() {
    let place = Place::new("bad");
    let text = std::fs::read_to_string(smoke()).unwrap();
    let typo = place.file("typo.toml", &text.replace("duration =", "duraton ="));
    let unit = place.file("unit.toml", &text.replace("20 Mbit/s", "20 MB/s"));
    let apart =
        place.file("apart.toml", &text.replace("between = [\"b\", \"server\"]", "between = [\"b\", \"client\"]"));
    let none = place.file("none.toml", &text.replace("[\"wavelane\"]", "[\"pepsal\"]"));
    let quic = place.file("quic.toml", &text.replace("app = \"download\"", "app = \"quic\""));
    let mine = Place::new("mine");
    mine.file("thesis.tex", "years of work");
    let cases: &[(&[&str], &str)] = &[
        (&["run", &typo], ":4: unknown key 'duraton' in the top level; did you mean 'duration'?"),
        (&["check", &typo], "did you mean 'duration'?"),
        (&["run", &unit], "unit 'MB/s' is none of bit/s, kbit/s, Mbit/s, Gbit/s"),
        (&["check", &unit], ":20: channels.air.forward.rate: '20 MB/s' is not a rate, such as"),
        (&["run", &apart], "no channels lead from 'client' to 'server': add [channels.NAME]"),
        (&["run", "/nonexistent.toml"], "cannot read it"),
        (&["check", "/nonexistent.toml"], "cannot read it"),
        (
            &["run", &none, "--out", &place.path("r")],
            "sim can run none of the stacks: pepsal: it runs nowhere yet: take it out of `stacks`",
        ),
        (
            &["run", &quic],
            ":27: sim cannot run this scenario: flows.page: the simulator has no QUIC: run it with --on lab",
        ),
        (&["run", &smoke(), "--out", &mine.path("")], "exists and is not a record"),
        (&["run", &smoke(), "--out", "/dev/full"], "exists and is not a record"),
        (&["run", &smoke(), "--out", "/proc/nowhere/r"], "cannot write /proc/nowhere"),
        (&["report", "/nonexistent"], "/nonexistent does not exist: name a directory"),
        (&["study", "run", "mian-job"], "no study 'mian-job'; did you mean 'main-job'?"),
        (&["status", "--control", "/nonexistent.sock"], "/nonexistent.sock"),
    ];
    for (args, part) in cases {
        let o = wavelane(args);
        assert_eq!(o.status.code(), Some(2), "{args:?}: {}", err(&o));
        assert_eq!(out(&o), "", "{args:?}");
        let last = err(&o).lines().last().unwrap_or_default().to_owned();
        assert!(last.starts_with("wavelane: ") && last.contains(part), "{args:?}: {last}");
    }
    for usage in [&["run", "x", "--repeat", "0"][..], &["run", "x", "--jobs", "0"], &["run", "x", "--on", "moon"]] {
        assert_eq!(wavelane(usage).status.code(), Some(2), "{usage:?}");
    }
    assert_eq!(
        place.names(),
        ["apart.toml", "none.toml", "quic.toml", "typo.toml", "unit.toml"],
        "nothing was written"
    );
    assert_eq!(mine.names(), ["thesis.tex"]);
}

#[test]
fn check_tells_where_a_scenario_runs() {
    let demo = scenarios().join("demo.toml").display().to_string();
    let o = wavelane(&["check", &demo]);
    assert_eq!(o.status.code(), Some(0), "{}", err(&o));
    assert!(out(&o).contains("sim: stack wavelane runs"), "{}", out(&o));
    let place = Place::new("check");
    let text = std::fs::read_to_string(smoke()).unwrap().replace("app = \"download\"", "app = \"quic\"");
    let o = wavelane(&["check", &place.file("quic.toml", &text)]);
    assert_eq!(o.status.code(), Some(0), "{}", err(&o));
    let why = "sim: cannot run this scenario: flows.page (line 27): the simulator has no QUIC";
    assert!(out(&o).contains(why) && !out(&o).contains("sim: stack wavelane runs"), "{}", out(&o));
}

#[test]
fn check_reads_every_combination_of_a_sweep() {
    let place = Place::new("check-sweep");
    let with = |sweep: &str| {
        let text = std::fs::read_to_string(smoke()).unwrap() + "\n[sweep]\n" + sweep + "\n";
        wavelane(&["check", &place.file("sweep.toml", &text)])
    };
    let o = with("repeats = 3\n\"air.forward.rate\" = [\"1 Mbit/s\", \"2 Mbit/s\"]\n\"page.size\" = [\"1 MB\"]");
    assert_eq!(o.status.code(), Some(0), "{}", err(&o));
    assert!(
        out(&o).ends_with("sweep: air.forward.rate (2), page.size (1): 2 combinations of 3 seeds\n"),
        "{}",
        out(&o)
    );
    let many = |key: &str| format!("\"{key}\" = {{ from = \"1 ms\", to = \"2000 ms\", steps = 200 }}\n");
    for (sweep, part) in [
        ("\"airr.forward.rate\" = [\"1 Mbit/s\"]".into(), "did you mean 'air'"),
        ("\"air.forward.rate\" = [\"1 Mbit/s\", \"1 MB/s\"]".into(), "'1 MB/s' is not a rate"),
        ("seed = [1, 2]".into(), "seed is no axis"),
        (many("air.forward.delay") + &many("air.reverse.delay"), "more than 10000 combinations"),
    ] {
        let o = with(&sweep);
        assert_eq!((o.status.code(), out(&o)), (Some(2), String::new()), "{sweep}");
        assert!(err(&o).contains(part), "{sweep}: {}", err(&o));
    }
}

/// A full disk: a tmpfs of 64 KiB in a mount namespace of its own, which takes the draft but not the report.
#[test]
fn a_full_disk_is_one_line_and_leaves_no_record() {
    let place = Place::new("full");
    let script = format!(
        "mount -t tmpfs -o size=64k none {0} || exit 99; {WAVELANE} run {1} --out {0}/r; code=$?; ls -A {0}; exit $code",
        place.0.display(),
        smoke()
    );
    let o = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
    if o.status.code() == Some(99) || err(&o).contains("unshare failed") {
        eprintln!("SKIPPED (needs root): a full disk: {}", err(&o));
        return;
    }
    assert_eq!(o.status.code(), Some(2), "{}", err(&o));
    let last = err(&o).lines().last().unwrap().to_owned();
    assert!(last.contains("No space left on device") && last.contains("--out"), "{last}");
    assert_eq!(out(&o), "", "something was left behind");
}

#[test]
fn the_lab_without_privileges_is_one_line_and_leaves_no_record() {
    let place = Place::new("nobody");
    // Every capability gone and none to be gained, whoever runs this test.
    let script = format!("exec {WAVELANE} run {} --on lab --out {}", smoke(), place.path("r"));
    let bare = ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "sh", "-c", &script];
    let o = Command::new("setpriv").args(bare).output().unwrap();
    assert_eq!(o.status.code(), Some(2), "{}", err(&o));
    let last = err(&o).lines().last().unwrap().to_owned();
    assert!(last.contains("CAP_NET_ADMIN") && last.contains("run as root or with sudo"), "{last}");
    assert!(place.names().is_empty(), "{:?}", place.names());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new("pipe");
    let script = format!("{WAVELANE} run {} --json --out {} | true", smoke(), place.path("r"));
    let o = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(!err(&o).contains("panicked"), "{}", err(&o));
}

#[test]
fn a_gateways_files_are_made_and_checked() {
    let place = Place::new("gateway");
    let other = wavelane(&["keygen", "--out", &place.path("b.key")]);
    assert_eq!(other.status.code(), Some(0), "{}", err(&other));
    let key = out(&other).trim().to_owned();
    let dir = place.path("");
    let address = ["--peer-address", "192.0.2.1:4780", "--route", "10.0.3.0/24"];
    let init = [&["init", "--name", "a", "--dir", &dir, "--peer-name", "b", "--peer-key", &key][..], &address].concat();
    let unsaid = wavelane(&init);
    assert_eq!(unsaid.status.code(), Some(2));
    assert!(err(&unsaid).contains("--serves PREFIX"), "{}", err(&unsaid));
    let empty = wavelane(&[&init[..], &["--serves", "none", "--control", ""]].concat());
    assert_eq!(empty.status.code(), Some(2));
    assert!(err(&empty).contains("--control"), "{}", err(&empty));
    assert_eq!(place.names(), ["b.key"], "nothing stays of what is refused");
    let made = wavelane(&[&init[..], &["--serves", "10.0.1.0/24"]].concat());
    assert_eq!(made.status.code(), Some(0), "{}", err(&made));
    assert!(out(&made).contains("made the new key "), "{}", out(&made));
    let config = place.path("wavelaned.toml");
    let checked = wavelane(&["check", &config]);
    assert_eq!(checked.status.code(), Some(0), "{}", err(&checked));
    assert!(out(&checked).contains("gateway 'a' is in order"), "{}", out(&checked));
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("[gateway]\n", "[gateway]\ncontrol = \"\"\n")).unwrap();
    let nowhere = wavelane(&["check", &config]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(err(&nowhere).contains("gateway.control: is empty"), "{}", err(&nowhere));
    std::fs::write(&config, text + "\n[nonsense]\n").unwrap();
    let damaged = wavelane(&["check", &config]);
    assert_eq!(damaged.status.code(), Some(2));
    assert!(err(&damaged).contains("nonsense"), "{}", err(&damaged));
}

/// Other links than the demo's, each with floors of its own: satellite, modem, jitter, heavy loss, slow return, fast.
#[test]
fn every_link_of_the_corpus_meets_its_checks_in_the_simulator() {
    let place = Place::new("links");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(scenarios().join("links")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 6, "{files:?}");
    for file in files {
        let record = place.path(&file.file_stem().unwrap().to_string_lossy());
        let run = wavelane(&["run", &file.display().to_string(), "--on", "sim", "--out", &record]);
        assert_eq!(run.status.code(), Some(0), "{}: {}{}", file.display(), out(&run), err(&run));
    }
}

#[test]
fn a_capture_is_analysed_in_every_form() {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/capture/reno-sack.pcap");
    let capture = capture.display().to_string();
    let place = Place::new("trace");
    let document: Value =
        serde_json::from_str(&out(&wavelane(&["trace", &capture, "--json", "--plots", &place.path("plots")]))).unwrap();
    assert_eq!(document["format"], "wavelane-trace/1");
    let connections = document["connections"].as_array().unwrap();
    assert_eq!(connections.len(), 2);
    assert!(connections[1]["a2b"]["retransmits"]["fast"].is_u64());
    assert_eq!(document["hosts"].as_array().unwrap().len(), 2);
    for picture in ["2_a2b_tsg.svg", "2_a2b_tsg.png", "2_a2b_owin.svg", "2_a2b_tput.svg", "2_a2b_ssize.svg"] {
        assert!(Path::new(&place.path("plots")).join(picture).exists(), "{picture}");
    }
    for (form, word) in [("--csv", "rexmt_data_pkts_a2b"), ("--long", "RTT from 3WHS"), ("--hosts", "received/sent")] {
        let told = wavelane(&["trace", &capture, form]);
        assert!(told.status.success() && out(&told).contains(word), "{form}: {}", out(&told));
    }
    let table = out(&wavelane(&["trace", &capture]));
    assert!(table.contains("2 TCP connections") && table.contains(" sender "), "{table}");
    let no_capture = place.file("text", "hello, this is no capture");
    let refused = wavelane(&["trace", &no_capture]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("tcpdump -w"), "{}", err(&refused));
}

#[test]
fn names_that_are_not_utf_8_are_taken() {
    let name = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"caf\xe9.toml");
    let with = |word: &str, more: &[&str]| Command::new(WAVELANE).arg(word).arg(name).args(more).output().unwrap();
    for word in ["trace", "run", "study"] {
        let o = with(word, &["--help"]);
        assert!(o.status.code().is_some_and(|code| code == 0 || code == 2), "{word}: {}", err(&o));
    }
    assert_eq!(with("trace", &["--help"]).status.code(), Some(0));
    // Also where the record says how the program was called.
    let place = Place::new("bytes");
    let scenario = place.0.join(name);
    std::fs::copy(smoke(), &scenario).unwrap();
    let run = Command::new(WAVELANE).arg("run").arg(&scenario).args(["--out", &place.path("r")]).output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", err(&run));
    assert!(place.read("r/environment.json").contains("caf\u{fffd}.toml"));
}

#[test]
fn arguments_of_others_move_no_cursor() {
    for program in ["wavelane", "wavelaned"] {
        let program = Path::new(WAVELANE).with_file_name(program);
        let o = Command::new(program).arg("a\u{9b}31m\u{1b}[2J\u{202e}x").output().unwrap();
        let said = String::from_utf8_lossy(&o.stderr);
        assert!(o.status.code() == Some(2) && said.contains("Usage"), "{said}");
        assert!(!said.contains(['\u{9b}', '\u{1b}', '\u{202e}']) && said.contains("u{202e}"), "{said}");
    }
}
