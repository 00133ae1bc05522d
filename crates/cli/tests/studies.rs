//! A study that starts this program, interrupted and gone on with.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A directory that goes away with the test.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the study keeps, a line per measurement.
fn kept(place: &Place) -> Vec<String> {
    let text = std::fs::read_to_string(place.0.join("simulator-speed/kept.jsonl")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Interrupts the study once `measurements` are over.
fn until(place: &Place, measurements: usize) {
    let mut child: Child = Command::new(env!("CARGO_BIN_EXE_wavelane"))
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
    let place = Place(std::env::temp_dir().join(format!("wavelane-cli-studies-{}", std::process::id())));
    let _ = std::fs::remove_dir_all(&place.0);
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
