//! The commands of the README and of the guide to records, typed in their order where nothing was run before.

use crate::common::{Place, WAVELANE, scenarios};
use std::path::Path;
use std::process::{Command, Stdio};

/// The commands of a page's shell blocks, comments left out.
fn commands(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page)).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap().replace("\\\n", " "));
    let lines: Vec<String> = blocks.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let plain = lines.iter().map(|line| line.split(" #").next().unwrap().trim().to_owned());
    plain.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// Types them in an empty directory beside the scenarios, with two seeds in the place of more and the simulator in that of the lab.
fn type_all(page: &str, place: &Place) -> usize {
    std::os::unix::fs::symlink(scenarios().canonicalize().unwrap(), place.0.join("scenarios")).unwrap();
    let programs = Path::new(WAVELANE).parent().unwrap().display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let mut typed = 0;
    for line in commands(page) {
        // Building and installing are not a test's to do.
        if line.starts_with("make ") {
            continue;
        }
        let quick = line.replace("--repeat 5", "--repeat 2").replace("--on lab", "--on sim");
        let mut shell = Command::new("bash");
        shell.args(["-c", &quick]).current_dir(&place.0).env("PATH", &path).stdin(Stdio::null());
        let o = shell.output().unwrap();
        let said = String::from_utf8_lossy(&o.stderr);
        assert!(o.status.success(), "{page}: '{line}' ends with {}: {said}", o.status);
        typed += 1;
    }
    typed
}

#[test]
fn the_readmes_commands_work_in_their_order() {
    let place = Place::new("readme");
    assert!(type_all("README.md", &place) >= 7);
    for made in ["demo-sim-7/report.html", "one/pcap", "rates/sweep.csv"] {
        assert!(place.0.join("records").join(made).exists(), "{made}");
    }
}

#[test]
fn the_first_cells_commands_work_in_their_order() {
    let place = Place::new("first-cell");
    assert_eq!(type_all("docs/guide/first-cell.md", &place), 3);
    let page = std::fs::read_to_string(place.0.join("records/cell/report.html")).unwrap();
    assert!(page.contains("Carried: wavelane "), "the guide speaks of a sum that Wavelane leads");
}

#[test]
fn the_guides_commands_make_what_its_python_reads() {
    let place = Place::new("records");
    assert_eq!(type_all("docs/guide/records.md", &place), 3);
    for made in ["record/record.json", "sweep/sweep.csv"] {
        assert!(place.0.join(made).exists(), "{made}");
    }
}
