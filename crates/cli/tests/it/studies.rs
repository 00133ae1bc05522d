//! A study that starts this program, interrupted and gone on with; what the documents say of all.

use crate::common::{Place, WAVELANE};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What the study keeps, a line per measurement.
fn kept(place: &Place) -> Vec<String> {
    let text = std::fs::read_to_string(place.0.join("simulator-speed/kept.jsonl")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Interrupts the study once `measurements` are over.
fn until(place: &Place, measurements: usize) {
    let mut child: Child = Command::new(WAVELANE)
        .args(["study", "run", "simulator-speed", "--out"])
        .arg(&place.0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while kept(place).len() < measurements {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let told = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(told.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn the_simulators_speed_is_not_measured_twice() {
    let place = Place::new("studies");
    until(&place, 1);
    let first = kept(&place);
    until(&place, first.len() + 1);
    let second = kept(&place);
    assert_eq!(first, second[..first.len()]);
    let key = |line: &String| line.split("\"key\":").nth(1).unwrap().split("\",").next().unwrap().to_owned();
    let mut keys: Vec<String> = second.iter().map(key).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), second.len(), "{second:?}");
}

/// The longest draws come first and take a while each: the count is shown before the first of them is over.
#[test]
fn a_study_with_long_tasks_is_not_silent() {
    let place = Place::new("silent");
    let mut child = Command::new(WAVELANE)
        .args(["study", "run", "link-population", "--out"])
        .arg(&place.0)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (pid, said) = (child.id().to_string(), child.stderr.take().unwrap());
    let first = BufReader::new(said).lines().next().unwrap().unwrap();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(first.contains(" of 140 links"), "{first}");
}

/// Rows are shown as they are judged and stand in the table at the end: once each where both go to one file.
#[test]
fn rows_are_written_once_to_one_file() {
    let place = Place::new("once");
    let script = |more: &str| {
        let out = place.path("s");
        let study = format!("{WAVELANE} study run hop-swarm --draws 1..2 --replace --out {out}");
        let o = Command::new("sh").args(["-c", &format!("{study} {more}")]).output().unwrap();
        (String::from_utf8(o.stdout).unwrap(), String::from_utf8(o.stderr).unwrap())
    };
    let rows = |text: &str| text.lines().filter(|line| line.contains(" flows_complete = ")).count();
    let (out, err) = script("");
    assert!(rows(&out) > 0 && rows(&out) == rows(&err), "{out}\n{err}");
    for one in [format!("> {0} 2>&1; cat {0}", place.path("file")), "2>&1 | cat".to_owned()] {
        let (both, _) = script(&one);
        assert_eq!(rows(&both), rows(&out), "{both}");
    }
}

/// The guide's and the README's tables of what studies found, against the studies that there are.
#[test]
fn every_study_has_a_row_of_results() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
    let o = Command::new(WAVELANE).args(["study", "list"]).output().unwrap();
    let listed = String::from_utf8(o.stdout).unwrap();
    let mut listed: Vec<&str> = listed.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    listed.sort_unstable();
    assert!(listed.len() > 10, "{listed:?}");
    let guide = read("docs/guide/studies.md");
    let table = guide.split("## What each study found").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<Vec<&str>> =
        table.lines().filter(|line| line.starts_with("| [")).map(|line| line.split(" | ").collect()).collect();
    let mut named = Vec::new();
    for row in &rows {
        let [study, found, verdict, at] = row[..] else { panic!("{row:?}") };
        let id = study.split('`').nth(1).unwrap();
        named.push(id);
        assert!(guide.contains(&format!("\n## `{id}`\n")), "{id} has no section");
        let is_told = match root.join("docs/results").join(format!("{id}.json")).exists() {
            true => found.contains(|c: char| c.is_ascii_digit()) && verdict.contains(" judged rows "),
            false => found.contains("wavelane study run") && verdict == "no result committed",
        };
        assert!(is_told, "{id}: {found}, {verdict}");
        assert!(!verdict.is_empty(), "{id}");
        let rows_are_in = at.split("](").nth(1).unwrap().split([')', '#']).next().unwrap();
        assert!(root.join("docs/guide").join(rows_are_in).exists(), "{id}: {rows_are_in}");
    }
    named.sort_unstable();
    assert_eq!(named, listed);
    // The README tells of the published experiments.
    let readme = read("README.md");
    let told = readme.split("## Studies of published experiments").nth(1).unwrap().split("\n## ").next().unwrap();
    let ids: Vec<&str> = told.split("[`").skip(1).map(|rest| rest.split('`').next().unwrap()).collect();
    assert!(ids.len() >= 5 && ids.iter().all(|id| listed.contains(id)), "{ids:?}");
    for source in ["petrovic", "gettys", "asymmetry", "hop-mechanisms"] {
        assert!(ids.contains(&source), "{source}");
    }
}
