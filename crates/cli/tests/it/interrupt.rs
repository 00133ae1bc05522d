//! Ctrl-C ends every long command at once, with exit code 130 and nothing half-done on disk.

use crate::common::{Place, WAVELANE, smoke};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a command may take on a machine that is busy; on an idle one it is a second. The work itself would take minutes.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// All files, and folders that hold nothing.
fn files(place: &Place) -> Vec<String> {
    fn walk(dir: &Path, root: &Path, found: &mut Vec<String>) {
        // A draft may have been renamed meanwhile.
        let Ok(entries) = std::fs::read_dir(dir) else { return };
        for path in entries.filter_map(|e| Some(e.ok()?.path())) {
            match path.is_dir() {
                true if std::fs::read_dir(&path).is_ok_and(|mut inner| inner.next().is_some()) => {
                    walk(&path, root, found);
                }
                _ => found.push(path.strip_prefix(root).unwrap().display().to_string()),
            }
        }
    }
    let mut found = Vec::new();
    walk(&place.0, &place.0, &mut found);
    found.sort();
    found
}

#[expect(clippy::disallowed_methods, reason = "tests measure real time")]
fn now() -> Instant {
    Instant::now()
}

/// Starts the command, interrupts it once `under_way` holds, and returns its standard error.
fn interrupted(args: &[&str], under_way: &dyn Fn() -> bool) -> String {
    let mut child = Command::new(WAVELANE).args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = now();
    while !under_way() {
        assert!(child.try_wait().unwrap().is_none(), "{args:?} ended by itself");
        assert!(begun.elapsed() < Duration::from_secs(120), "{args:?} does not begin");
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let told = now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let o = child.wait_with_output().unwrap();
    let took = told.elapsed();
    println!("{} ended after {took:?}", args[..2].join(" "));
    let said = String::from_utf8_lossy(&o.stderr).into_owned();
    assert_eq!(o.status.code(), Some(130), "{args:?}: {said}");
    assert!(took < ENDS_WITHIN, "{args:?}: {took:?}");
    said
}

/// An hour of simulated time in one run.
const LONG: [&str; 4] = ["--set", "page.size=900 GB", "--set", "duration=3600 s"];

#[test]
fn a_run_leaves_nothing() {
    let place = Place::new("run");
    let out = place.path("r");
    interrupted(&[&["run", &smoke(), "--out", &out], &LONG[..]].concat(), &|| !files(&place).is_empty());
    assert!(files(&place).is_empty(), "{:?}", files(&place));
}

/// A download in the lab whose bytes arrive without a pause.
#[test]
fn a_lab_run_ends_during_a_transfer() {
    let user = Command::new("id").arg("-u").output().unwrap();
    if user.stdout != b"0\n" {
        eprintln!("SKIPPED (needs root): Ctrl-C during a run in the lab");
        return;
    }
    let place = Place::new("lab");
    let out = place.path("r");
    let arrived = || {
        let captures = files(&place).into_iter().filter(|f| f.ends_with(".pcapng"));
        captures.filter_map(|f| std::fs::metadata(place.0.join(f)).ok()).any(|file| file.len() > 100_000)
    };
    // Without gateways: `wavelaned` need not be built.
    let plain = ["run", &smoke(), "--on", "lab", "--out", &out, "--set", "stacks=[\"tcp-cubic\"]"];
    interrupted(&[&plain, &LONG[..]].concat(), &arrived);
    assert!(files(&place).is_empty(), "{:?}", files(&place));
}

#[test]
fn a_sweep_keeps_whole_records_only() {
    let place = Place::new("sweep");
    let (out, rates) = (place.path("s"), "air.forward.rate=10 Mbit/s,11 Mbit/s");
    // The first value is over in a moment, the second takes minutes.
    let sizes = "page.size=100 kB,900 GB";
    let args = ["sweep", &smoke(), "--sweep", sizes, "--sweep", rates, "--jobs", "1", "--out", &out];
    let records = || files(&place).iter().filter(|f| f.ends_with("record.json") && !f.contains("draft")).count();
    let said = interrupted(&[&args[..], &["--set", "duration=3600 s"]].concat(), &|| records() == 2);
    assert!(said.contains("the same command goes on with what is in"), "{said}");
    assert_eq!(records(), 2);
    let half: Vec<String> =
        files(&place).into_iter().filter(|f| f.contains("draft") || !f.contains("cells/")).collect();
    assert!(half.is_empty(), "{half:?}");
}

#[test]
fn of_two_studies_the_second_does_not_begin() {
    let place = Place::new("studies");
    let out = place.path("s");
    let args = ["study", "run", "hop-swarm", "link-population", "--full", "--jobs", "1", "--out", &out];
    let said = interrupted(&args, &|| files(&place).iter().any(|f| f.ends_with("kept.jsonl")));
    assert!(said.contains("what was over by then is in"), "{said}");
    assert_eq!(files(&place), ["s/hop-swarm/kept.jsonl"]);
}

#[test]
fn a_comparison_leaves_nothing() {
    let place = Place::new("compare");
    let record = place.path("r");
    let o = Command::new(WAVELANE).args(["run", &smoke(), "--repeat", "5", "--out", &record]).output().unwrap();
    assert!(o.status.success());
    // Twenty-six records, each with fifty times the seconds that were measured.
    for file in std::fs::read_dir(place.0.join("r/series")).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let (head, rows) = text.split_once('\n').unwrap();
        std::fs::write(&path, format!("{head}\n{}", rows.repeat(50))).unwrap();
    }
    let before = files(&place);
    let out = place.path("c");
    let mut args = vec!["compare"];
    args.extend([record.as_str(); 26]);
    args.extend(["--out", &out]);
    interrupted(&args, &|| files(&place).len() > before.len());
    assert_eq!(files(&place), before);
}

/// A capture without an end, through a pipe.
#[test]
fn a_trace_leaves_nothing() {
    let place = Place::new("trace");
    let pipe = place.path("endless.pcap");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/capture/reno-sack.pcap");
    let capture = std::fs::read(capture).unwrap();
    let read = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut to = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
            let mut ended = to.write_all(&capture);
            // Until the reader is gone; the head of the file stands at its beginning only.
            while ended.is_ok() {
                ended = to.write_all(&capture[24..]);
                read.store(true, Ordering::Relaxed);
            }
        });
        let (table, plots) = (place.path("t.parquet"), place.path("plots"));
        let args = ["trace", &pipe, "--parquet", &table, "--plots", &plots];
        interrupted(&args, &|| read.load(Ordering::Relaxed));
    });
    assert_eq!(files(&place), ["endless.pcap"]);
}
