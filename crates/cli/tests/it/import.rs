//! `wavelane import` on files of the tools that it reads.

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testing/formats");

fn import(file: &Path, out: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavelane"));
    command.arg("import").arg(file).arg("--out").arg(out).args(more).stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn a_result_file_becomes_a_record() {
    let dir = std::env::temp_dir().join(format!("wavelane-import-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let irtt = Path::new(FILES).join("irtt.json");
    let o = import(&irtt, &dir, &["--json"]);
    assert_eq!(o.status.code(), Some(0), "{}", String::from_utf8_lossy(&o.stderr));
    let d: Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!((&d["format"], &d["tool"]), (&"wavelane-import/1".into(), &"irtt".into()));
    let ping = &d["series"][0];
    assert_eq!((&ping["name"], &ping["units"], &ping["points"]), (&"Ping (ms) UDP".into(), &"ms".into(), &10.into()));
    assert_eq!(ping["missing"], 1, "{ping}");
    assert!((ping["max"].as_f64().unwrap() - 3.950_074).abs() < 1e-9 && ping["p50"].is_number(), "{ping}");
    assert_eq!(d["totals"]["lost_down_packets"], 1.0);
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(dir.join("import.json")).unwrap()).unwrap();
    assert_eq!(kept, d);
    let values = std::fs::read_to_string(dir.join("series/values.csv")).unwrap();
    assert_eq!(values.lines().count(), 1 + 3 * 10, "{values}");
    assert!(values.contains("\nPing (ms) UDP,ms,"), "{values}");
    let page = std::fs::read_to_string(dir.join("report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("wavelane import") && page.contains("lost_down_packets"));

    // Again at the same place, of another tool, as a table.
    let o = import(&Path::new(FILES).join("iperf3.json"), &dir, &[]);
    let text = String::from_utf8_lossy(&o.stdout);
    assert!(o.status.success() && text.contains("sum::throughput") && text.contains("report.html"), "{text}");
    assert!(std::fs::read_to_string(dir.join("import.json")).unwrap().contains("iperf3"));

    // What is not an import's stays, and what is no result is refused.
    std::fs::write(dir.join("notes.txt"), "mine").unwrap();
    let o = import(&irtt, &dir, &[]);
    assert!(o.status.code() == Some(2) && String::from_utf8_lossy(&o.stderr).contains("notes.txt"));
    let other = dir.with_extension("other");
    for (file, part) in [
        (dir.join("notes.txt"), "no JSON"),
        (dir.join("import.json"), "irtt client -o"),
        (dir.join("no"), "No such file"),
    ] {
        let o = import(&file, &other, &[]);
        let err = String::from_utf8_lossy(&o.stderr);
        assert!(o.status.code() == Some(2) && err.contains(part) && !other.exists(), "{err}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn long_names_do_not_multiply() {
    let dir = std::env::temp_dir().join(format!("wavelane-import-long-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (times, values) = ((0..2_000).collect::<Vec<_>>(), vec![1; 2_000]);
    let text = json!({ "metadata": {}, "version": 4, "x_values": times, "results": { "n".repeat(100_000): values } });
    std::fs::write(dir.join("long.flent"), text.to_string()).unwrap();
    let o = import(&dir.join("long.flent"), &dir.join("r"), &[]);
    assert_eq!(o.status.code(), Some(0), "{}", String::from_utf8_lossy(&o.stderr));
    let written = std::fs::metadata(dir.join("r/series/values.csv")).unwrap().len();
    assert!((400_000..1_000_000).contains(&written), "{written} octets");
    assert!(o.stdout.len() < 10_000 && std::fs::metadata(dir.join("r/report.html")).unwrap().len() < 1_000_000);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn recordings_of_links_become_files_that_a_study_runs_on_or_refuses() {
    let dir = std::env::temp_dir().join(format!("wavelane-import-links-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(dir.join("in")).unwrap();
    std::fs::write(dir.join("in/car.csv"), "t,dl\n2024-04-19 16:23:00,2\n2024-04-19 16:23:01,3\n").unwrap();
    let wavelane = |args: &[&str]| {
        let o = Command::new(env!("CARGO_BIN_EXE_wavelane")).args(args).stdin(Stdio::null()).output().unwrap();
        (o.status.code(), String::from_utf8_lossy(&o.stdout).into_owned() + &String::from_utf8_lossy(&o.stderr))
    };
    let [from, to, records] = ["in", "links", "records"].map(|name| dir.join(name).display().to_string());
    let columns = ["--time", "t", "--down", "dl", "--unit", "Mbit/s"];
    let (code, said) = wavelane(&[&["import", "--links", &from, "--out", &to][..], &columns].concat());
    assert!(code == Some(0) && said.contains("car.down.csv.gz"), "{said}");
    let (code, said) = wavelane(&["import", "--links", &from, "--out", &to]);
    assert!(code == Some(2) && said.contains("its columns are t, dl"), "{said}");
    // A study refuses a folder without recordings, a bad recording with its line, and another study the flag.
    let study = |id: &str, traces: &str| wavelane(&["study", "run", id, "--traces", traces, "--out", &records]);
    let (code, said) = study("traces", &from);
    assert!(code == Some(2) && said.contains("holds no recording"), "{said}");
    std::fs::write(dir.join("links/bad.up"), "7\n3\n").unwrap();
    let (code, said) = study("traces", &to);
    assert!(code == Some(2) && said.contains("bad.up: line 2: its time falls below the entry before"), "{said}");
    // What stands beside recordings is named, and does not stop the study from reading them.
    std::fs::write(dir.join("links/bad.up"), "3\n7\n").unwrap();
    std::fs::write(dir.join("links/Car.DOWN"), "3\n7\n").unwrap();
    std::fs::write(dir.join("links/worse.up"), "seconds,Mbit/s\n0,1\n").unwrap();
    let (code, said) = study("traces", &to);
    assert!(code == Some(2) && said.contains("not used of") && said.contains("Car.DOWN (recordings are"), "{said}");
    assert!(said.contains("worse.up: line 1: 'seconds,Mbit/s' is the head of a table: set format = \"csv\""), "{said}");
    let (code, said) = study("petrovic", &to);
    assert!(code == Some(2) && said.contains("leave it out, or run traces"), "{said}");
    std::fs::remove_dir_all(&dir).unwrap();
}
