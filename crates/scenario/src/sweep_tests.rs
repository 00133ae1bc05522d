#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use std::path::PathBuf;

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/smoke/one_hop.toml")
}

fn read(text: &str) -> Result<Sweep, String> {
    let whole = std::fs::read_to_string(file()).unwrap() + text;
    Scenario::parse(&whole, Path::new(".")).map_err(|e| e.to_string())?;
    Sweep::parse(&whole).map_err(|e| e.to_string())
}

#[test]
fn lists_and_ranges_become_axes() {
    let sweep = read(
        "[sweep]\nrepeats = 3\n\"air.forward.rate\" = { from = \"1 Mbit/s\", to = \"100 Mbit/s\", steps = 5, scale = \"log\" }\n\
         air.forward.delay = [\"10 ms\", \"50 ms\"]\npage.size = { from = \"1 MB\", to = \"2 MB\", steps = 3 }\n\
         \"air.forward.loss\" = [{ kind = \"none\" }, { kind = \"random\", p = \"1/20\" }]\n",
    )
    .unwrap();
    assert_eq!(sweep.repeats, Some(3));
    let through_zero = read("[sweep]\nx = { from = \"-1 ms\", to = \"1 ms\", steps = 3 }\n").unwrap();
    assert_eq!(through_zero.axes[0].values, ["-1 ms", "0 ms", "1 ms"]);
    let axis = |key: &str| sweep.axes.iter().find(|a| a.key == key).unwrap().values.clone();
    assert_eq!(axis("air.forward.rate"), ["1 Mbit/s", "3.16 Mbit/s", "10 Mbit/s", "31.6 Mbit/s", "100 Mbit/s"]);
    assert_eq!(axis("air.forward.delay"), ["10 ms", "50 ms"]);
    assert_eq!(axis("page.size"), ["1 MB", "1.5 MB", "2 MB"]);
    assert_eq!(axis("air.forward.loss"), ["{ kind = \"none\" }", "{ kind = \"random\", p = \"1/20\" }"]);
    let cells = sweep.cells(&file(), &[]).unwrap();
    assert_eq!(cells.len(), 60);
    assert_eq!(cells[0].values.len(), 4);
    let written: std::collections::BTreeSet<String> = cells.iter().map(|c| c.scenario.to_toml()).collect();
    assert_eq!(written.len(), 60, "every cell is another scenario");
}

#[test]
fn the_command_line_adds_axes_and_replaces_the_files() {
    let mut sweep = read("[sweep]\n\"air.forward.rate\" = [\"1 Mbit/s\", \"2 Mbit/s\"]\n").unwrap();
    sweep.set(Axis::read("air.forward.rate=5 Mbit/s, 10 Mbit/s").unwrap());
    sweep.set(Axis::read("air.forward.loss={ kind = \"random\", p = \"1/20\" },{ kind = \"none\" }").unwrap());
    assert_eq!(sweep.axes[0].values, ["5 Mbit/s", "10 Mbit/s"]);
    assert_eq!(sweep.axes[1].values.len(), 2);
    let setting = Setting::read("page.size=1 MB").unwrap();
    let cells = sweep.cells(&file(), &[setting]).unwrap();
    assert_eq!(cells[1].values, ["5 Mbit/s", "{ kind = \"none\" }"]);
    assert!(cells.iter().all(|c| c.scenario.to_toml().contains("size = \"1 MB\"")));
}

#[test]
fn wrong_sweeps_are_refused_with_the_reason() {
    for (text, part) in [
        ("[sweep]\n\"air.forward.rate\" = \"1 Mbit/s\"\n", "must be a list of values"),
        ("[sweep]\n\"air.forward.rate\" = []\n", "has 0 values"),
        ("[sweep]\n\"air.forward.rate\" = [\"1 Mbit/s\", \"1 Mbit/s\"]\n", "names 1 Mbit/s twice"),
        ("[sweep]\nx = { from = \"1 Mbit/s\", to = \"2 kbit/s\", steps = 3 }\n", "numbers of one unit"),
        ("[sweep]\nx = { from = \"0 ms\", to = \"2 ms\", steps = 3, scale = \"log\" }\n", "above 0 on a log scale"),
        ("[sweep]\nx = { from = \"1 ms\", to = \"2 ms\", steps = 3, scale = \"lug\" }\n", "neither linear nor log"),
        ("[sweep]\nrepeats = 0\n", "sweep.repeats lies between"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
    assert!(Axis::read("air.forward.rate=1 Mbit/s,,2 Mbit/s").is_err());
    let unknown = Sweep { axes: vec![Axis::read("airr.forward.rate=1 Mbit/s").unwrap()], repeats: None };
    assert!(unknown.cells(&file(), &[]).unwrap_err().to_string().contains("did you mean 'air'"));
    let values: Vec<String> = (0..200).map(|i| i.to_string()).collect();
    let axes = ["seed", "seed.x", "seed.y"].map(|key| Axis { key: key.into(), values: values.clone() }).to_vec();
    let large = Sweep { axes, repeats: None };
    assert!(large.cells(&file(), &[]).unwrap_err().to_string().contains("more than 10000 combinations"));
}

#[test]
fn values_have_numbers_in_base_units() {
    assert_eq!(in_base_units("5 Mbit/s"), Some((5e6, "bps")));
    assert_eq!(in_base_units("50 ms"), Some((50.0, "ms")));
    assert_eq!(in_base_units("250 kB"), Some((250_000.0, "bytes")));
    assert_eq!(in_base_units("1/20"), Some((0.05, "")));
    assert_eq!(in_base_units("7"), Some((7.0, "")));
    assert_eq!(in_base_units("same"), None);
}

#[test]
fn keys_that_would_have_no_effect_are_refused() {
    let refused = |axes: &[&str], settings: &[&str]| {
        let axes = axes.iter().map(|text| Axis::read(text).unwrap()).collect();
        let settings: Vec<Setting> = settings.iter().map(|text| Setting::read(text).unwrap()).collect();
        Sweep { axes, repeats: None }.cells(&file(), &settings).unwrap_err().to_string()
    };
    let rate = "air.forward.rate=1 Mbit/s,2 Mbit/s";
    let way = "air.forward={ rate = \"1 Mbit/s\", delay = \"1 ms\" }";
    for (axes, settings, part) in [
        (&[rate, "channels.air.forward.rate=3 Mbit/s"][..], &[][..], "channels.air.forward.rate is swept twice"),
        (&[rate, way], &[], "air.forward takes the place of air.forward.rate"),
        (&[rate], &["channels.air.forward.rate=5 Mbit/s"], "--set channels.air.forward.rate has no effect"),
        (
            &[way],
            &["air.forward.rate=5 Mbit/s"],
            "--set air.forward.rate has no effect, for the sweep varies air.forward:",
        ),
        (&[rate], &["page.size=1 MB", "flows.page.size=2 MB"], "flows.page.size is set twice"),
        (&["seed=1,2"], &[], "seed is no axis"),
    ] {
        let why = refused(axes, settings);
        assert!(why.contains(part), "{axes:?} {settings:?}: {why}");
    }
    // Within what is set first, a key may vary.
    let sweep = Sweep { axes: vec![Axis::read(rate).unwrap()], repeats: None };
    assert_eq!(sweep.cells(&file(), &[Setting::read(way).unwrap()]).unwrap().len(), 2);
    let mut both = read("[sweep]\n\"air.forward.rate\" = [\"1 Mbit/s\"]\n").unwrap();
    both.set(Axis::read("channels.air.forward.rate=5 Mbit/s").unwrap());
    assert_eq!(both.axes.len(), 1, "the command's in the place of the file's");
}
