//! `--set`, `--open`, `compare`, reports drawn again, and output that cannot be written.

use crate::common::{EASY, Place, WAVELANE, err, out, smoke, wavelane};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(args: &[&str]) -> Output {
    let o = wavelane(&[&["run", &smoke()], args].concat());
    assert_eq!(o.status.code(), Some(0), "{args:?}: {}", err(&o));
    o
}

#[test]
fn a_full_standard_output_is_exit_2_for_every_json() {
    let place = Place::new("full");
    run(&["--out", &place.path("a")]);
    let record = place.path("a");
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/capture/reno-sack.pcap");
    let (capture, again) = (capture.display().to_string(), place.path("b"));
    let commands: [&[&str]; 7] = [
        &["run", &smoke(), "--json", "--out", &again],
        &["run", &smoke(), "--out", &again],
        &["trace", &capture, "--json"],
        &["compare", &record, &record, "--json"],
        &["check", &smoke()],
        &["--help"],
        &["--version"],
    ];
    for args in commands {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let o = Command::new(WAVELANE).args(args).stdin(Stdio::null()).stdout(full).output().unwrap();
        assert_eq!(o.status.code(), Some(2), "{args:?}: {}", err(&o));
        assert!(err(&o).contains("cannot write to standard output: No space left"), "{args:?}: {}", err(&o));
    }
    assert!(place.0.join("b/record.json").exists(), "the record is whole all the same");
}

#[test]
fn a_full_standard_error_leaves_the_exit_code() {
    let place = Place::new("stderr");
    let out = place.path("a");
    let commands: [(&[&str], i32); 3] = [
        (&["run", &smoke(), "--out", &out], 0),
        (&["run", &smoke(), "--out", &out, "--set", "page-fills-the-link.at-least=1 Gbit/s"], 1),
        (&["run", "/nonexistent.toml"], 2),
    ];
    for (args, code) in commands {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let o = Command::new(WAVELANE).args(args).stdin(Stdio::null()).stderr(full).output().unwrap();
        assert_eq!(o.status.code(), Some(code), "{args:?}");
    }
}

#[test]
fn a_setting_takes_the_files_place_and_is_repeated() {
    let place = Place::new("set");
    let o = run(&[
        "--json",
        "--out",
        &place.path("r"),
        "--set",
        "air.forward.rate=15 Mbit/s",
        "--set",
        "page.size=\"1 MB\"",
    ]);
    let document: Value = serde_json::from_str(&out(&o)).unwrap();
    let goodput = document["stacks"][0]["flows"][0]["goodput_bps"].as_f64().unwrap();
    assert!((10e6..15e6).contains(&goodput), "{goodput}");
    assert_eq!(document["stacks"][0]["flows"][0]["bytes"], 1_000_000);
    let rerun = document["rerun"].as_str().unwrap();
    assert!(rerun.contains("--set 'air.forward.rate=15 Mbit/s'") && rerun.contains("page.size="), "{rerun}");
    let resolved = std::fs::read_to_string(place.0.join("r/scenario.toml")).unwrap();
    assert!(resolved.contains("15 Mbit/s") && !resolved.contains("20 Mbit/s"), "{resolved}");
    let wrong = wavelane(&["run", &smoke(), "--set", "air.forward.rate=15 MB/s"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(err(&wrong).contains("with --set: channels.air.forward.rate: '15 MB/s' is not a rate"), "{}", err(&wrong));
    assert_eq!(wavelane(&["run", &smoke(), "--set", "air.forward.rate"]).status.code(), Some(2));
}

#[test]
fn compare_states_differences_and_ratios_with_intervals() {
    let place = Place::new("compare");
    let (a, b) = (place.path("a"), place.path("b"));
    run(&["--repeat", "3", "--out", &a]);
    run(&[
        "--repeat",
        "3",
        "--out",
        &b,
        "--set",
        "air.forward.rate=10 Mbit/s",
        "--set",
        "page-fills-the-link.at-least=1 Mbit/s",
    ]);
    let o = wavelane(&["compare", &a, &b, "--json"]);
    assert_eq!(o.status.code(), Some(0), "{}", err(&o));
    let told = err(&o);
    assert!(told.contains("is of another scenario") && told.contains("differs in air.forward.rate"), "{told}");
    let document: Value = serde_json::from_str(&out(&o)).unwrap();
    assert_eq!(document["format"], "wavelane-compare/1");
    let goodput = &document["differences"][0];
    assert_eq!((&goodput["metric"], &goodput["by_seed"]), (&"goodput_bps".into(), &true.into()));
    let ratio = goodput["ratio"].as_f64().unwrap();
    let (low, high) = (goodput["ratio_ci95"][0].as_f64().unwrap(), goodput["ratio_ci95"][1].as_f64().unwrap());
    assert!((0.4..0.7).contains(&ratio) && low <= ratio && ratio <= high, "{goodput}");
    let o = wavelane(&["compare", &a, &b, "--out", &place.path("c")]);
    assert!(out(&o).contains("difference") && out(&o).contains("B against A"), "{}", out(&o));
    let page = std::fs::read_to_string(place.0.join("c/report.html")).unwrap();
    assert!(page.contains(">A wavelane<") && page.contains(">B wavelane<"));
    assert!(page.contains("is of another scenario"), "the page says what differs");
    assert!(place.0.join("c/plots/throughput.png").exists());
}

#[test]
fn compare_takes_the_stacks_of_one_record() {
    let place = Place::new("compare-stacks");
    let a = place.path("a");
    run(&["--repeat", "2", "--out", &a, "--set", "stacks=[\"tcp-cubic\", \"wavelane\"]"]);
    let o = wavelane(&["compare", &a, "--out", &place.path("c")]);
    assert_eq!(o.status.code(), Some(0), "{}", err(&o));
    let told = out(&o);
    assert!(told.contains(&format!("B against A: wavelane of {a} against tcp-cubic of {a}")), "{told}");
    assert!(told.contains("tcp-cubic -> wavelane") && told.matches("verdict ").count() == 1, "{told}");
    let page = std::fs::read_to_string(place.0.join("c/report.html")).unwrap();
    assert!(page.contains(">tcp-cubic</text>") && page.contains(">wavelane</text>"), "the curves of both");
    assert!(page.contains(&format!("wavelane compare {a} --out ")), "one record repeats it");
}

#[test]
fn compare_takes_measurements() {
    let place = Place::new("compare-probes");
    let measured = |name: &str, grade: &str, p95: &str| {
        let phase = format!(
            "{{\"phase\": \"down\", \"goodput_down_bps\": 20e6, \"foreign_p50_ms\": 40.0, \"foreign_p95_ms\": {p95}}}"
        );
        let text = format!(
            "{{\"format\": \"wavelane-probe/1\", \"target\": \"h\", \"grade\": \"{grade}\", \"rpm\": 90.0, \"phases\": [{phase}]}}"
        );
        std::fs::create_dir_all(place.0.join(name)).unwrap();
        place.file(&format!("{name}/probe.json"), &text);
        place.path(name)
    };
    let (before, after, lost) = (measured("a", "F", "438.0"), measured("b", "A+", "34.0"), measured("c", "F", "null"));
    let o = wavelane(&["compare", &before, &after]);
    let told = out(&o);
    assert!(told.contains("B against A: grade F became A+") && told.contains("438.00  34.00"), "{told}{}", err(&o));
    assert_eq!(err(&o), "", "both were measured alike");
    let text = std::fs::read_to_string(place.0.join("c/probe.json")).unwrap();
    place.file("c/probe.json", &text.replace("\"h\"", "\"other\""));
    assert!(err(&wavelane(&["compare", &before, &lost])).contains("compare with care: target: h and other"));
    let o = wavelane(&["compare", &before, &lost, "--json"]);
    let document: Value = serde_json::from_str(&out(&o)).unwrap();
    let p95 = document["differences"].as_array().unwrap().iter().find(|d| d["metric"] == "foreign_p95_ms").unwrap();
    assert_eq!((&p95["first"], &p95["other"], &p95["ratio"]), (&438.0.into(), &Value::Null, &Value::Null));
    let run_record = place.path("r");
    run(&["--out", &run_record]);
    for (dirs, why) in [([&before, &run_record], "is no measurement of `wavelane probe`"), ([&before, &before], "")] {
        let o = wavelane(&["compare", dirs[0], dirs[1]]);
        assert_eq!((o.status.code() == Some(2), err(&o).contains(why)), (!why.is_empty(), true), "{}", err(&o));
    }
    place.file("a/probe.json", "{\"format\": \"wavelane-pro");
    assert!(err(&wavelane(&["compare", &before, &after])).contains("is damaged"));
}

#[test]
fn open_shows_the_page_and_a_missing_browser_is_one_line() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new("open");
    let browser = place.0.join("xdg-open");
    std::fs::write(&browser, format!("#!/bin/sh\necho \"$1\" > {}\n", place.path("shown"))).unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", place.0.display(), std::env::var("PATH").unwrap());
    let with = |path: &str| {
        let record = place.path("r");
        Command::new(WAVELANE).args(["run", &smoke(), "--open", "--out", &record]).env("PATH", path).output().unwrap()
    };
    assert_eq!(with(&path).status.code(), Some(0));
    let shown = std::fs::read_to_string(place.0.join("shown")).unwrap();
    assert_eq!(shown.trim(), place.path("r/report.html"));
    let o = with("/nonexistent");
    assert_eq!(o.status.code(), Some(2));
    assert!(err(&o).contains("open ") && err(&o).contains("report.html yourself"), "{}", err(&o));
}

#[test]
fn a_studys_report_is_drawn_again_from_its_document() {
    let place = Place::new("study");
    let row = |stack: &str, value: f64, verdict: &str| {
        format!(
            "{{\"id\": \"x\", \"case\": {{\"cell\": \"first\"}}, \"backend\": \"sim\", \"stack\": \"{stack}\", \"metric\": \"sim_s_per_cpu_s\", \
             \"unit\": \"s/s\", \"value\": {value}, \"ci95\": null, \"n\": 1, \"published\": null, \"bound\": null, \
             \"verdict\": \"{verdict}\", \"why\": \"it is so\"}}"
        )
    };
    let text = format!(
        "{{\"format\": \"wavelane-study/1\", \"study\": \"simulator-speed\", \"edition\": \"quick\", \"seed\": 1, \
         \"verdict\": \"pass\", \"rows\": [{}, {}]}}",
        row("wavelane", 160.0, "pass"),
        row("ns3-debian", 1.4, "info")
    );
    std::fs::write(place.0.join("simulator-speed.json"), text).unwrap();
    let o = wavelane(&["report", &place.path("")]);
    assert_eq!(o.status.code(), Some(0), "{}", err(&o));
    assert!(out(&o).contains("study simulator-speed verdict pass"), "{}", out(&o));
    let page = std::fs::read_to_string(place.0.join("report.html")).unwrap();
    assert!(page.contains("Of 1 judged rows 1 pass.") && page.contains("<svg ") && page.contains("cell first"));
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    for (shell, word) in [("bash", "_wavelane()"), ("zsh", "#compdef wavelane"), ("fish", "complete -c wavelane")] {
        let o = wavelane(&["completions", shell]);
        let text = out(&o);
        assert!(o.status.success() && text.contains(word), "{shell}");
        for command in ["sweep", "compare", "trace", "keygen"] {
            assert!(text.contains(command), "{shell}: {command}");
        }
    }
    // The script is one that its shell takes.
    let script = format!("source <({WAVELANE} completions bash) && complete -p wavelane");
    let o = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert!(o.status.success() && out(&o).contains("wavelane"), "{}", err(&o));
    assert_eq!(wavelane(&["completions", "tcsh"]).status.code(), Some(2));
    let place = Place::new("manuals");
    assert_eq!(wavelane(&["manuals", &place.path("man")]).status.code(), Some(0));
    let page = |name: &str| std::fs::read_to_string(place.0.join("man").join(name)).unwrap();
    assert!(page("wavelane.1").contains("wavelane\\-run(1)") && page("wavelane-run.1").contains("\\-\\-set"));
    assert!(page("wavelane-study-run.1").contains(".TH"));
    assert!(page("wavelaned.8").contains("key_log") || page("wavelaned.8").contains("key\\-log"));
    // Our own pages give way; a link is not followed, and what is another's stays.
    let file = |name: &str| place.0.join("man").join(name);
    std::fs::write(file("wavelane-run.1"), ".ie x\n.TH wavelane-run 1\nolder").unwrap();
    assert_eq!(wavelane(&["manuals", &place.path("man")]).status.code(), Some(0));
    assert!(page("wavelane-run.1").contains("\\-\\-set"));
    std::fs::rename(file("wavelane-run.1"), place.0.join("victim")).unwrap();
    std::os::unix::fs::symlink(place.0.join("victim"), file("wavelane-run.1")).unwrap();
    std::fs::write(place.0.join("victim"), "years").unwrap();
    for why in ["it is a link", "something else"] {
        let o = wavelane(&["manuals", &place.path("man")]);
        assert!(
            o.status.code() == Some(2) && err(&o).contains(why) && err(&o).contains("wavelane-run.1"),
            "{}",
            err(&o)
        );
        assert_eq!(std::fs::read_to_string(place.0.join("victim")).unwrap(), "years");
        let _ = std::fs::remove_file(file("wavelane-run.1"));
        std::fs::write(file("wavelane-run.1"), "dear diary").unwrap();
    }
    assert_eq!(page("wavelane-run.1"), "dear diary");
}

#[test]
fn a_sweep_writes_tables_and_charts_and_resumes() {
    let place = Place::new("sweep");
    let dir = place.path("s");
    let rates = "air.forward.rate=5 Mbit/s,10 Mbit/s";
    let again = [
        "sweep",
        &smoke(),
        "--sweep",
        rates,
        "--repeat",
        "2",
        "--jobs",
        "2",
        "--out",
        &dir,
        EASY[0],
        EASY[1],
        "--json",
    ];
    let o = wavelane(&again);
    assert_eq!(o.status.code(), Some(0), "{}", err(&o));
    let document: Value = serde_json::from_str(&out(&o)).unwrap();
    assert_eq!((&document["format"], document["cells"].as_array().unwrap().len()), (&"wavelane-sweep/1".into(), 2));
    let csv = std::fs::read_to_string(place.0.join("s/sweep.csv")).unwrap();
    assert!(csv.starts_with("air.forward.rate_bps,backend,stack,seed,flow,app,metric,value,verdict\n"), "{csv}");
    for rate in ["5000000", "10000000"] {
        let rows: Vec<&str> =
            csv.lines().filter(|l| l.starts_with(rate) && l.contains(",page,download,goodput_bps,")).collect();
        assert_eq!(rows.len(), 2, "{csv}");
        let share: f64 = rows[0].rsplit(',').nth(1).unwrap().parse::<f64>().unwrap() / rate.parse::<f64>().unwrap();
        assert!((0.8..1.0).contains(&share), "{}", rows[0]);
    }
    // Its content is compared with the CSV file's in python/tests/test_tables.py.
    let table = std::fs::read(place.0.join("s/sweep.parquet")).unwrap();
    assert!(
        table.starts_with(b"PAR1") && table.ends_with(b"PAR1") && document["parquet"] == place.path("s/sweep.parquet")
    );
    let page = std::fs::read_to_string(place.0.join("s/report.html")).unwrap();
    assert!(page.contains("Goodput by air forward rate") && page.contains("fill-opacity"), "no interval");
    assert!(place.0.join("s/plots/goodput_bps.png").exists());
    let (from, said) = page.split_once("Goodput: wavelane: 4.").expect("what came out").1.split_once("</li>").unwrap();
    assert!(from.contains("Mbit/s at 5 Mbit/s, 9.") && from.ends_with("Mbit/s at 10 Mbit/s."), "{from}");
    assert!(said.contains("Echo delay, 95th percentile: wavelane: "), "{said}");
    let drawn = wavelane(&["report", &dir]);
    assert!(drawn.status.code() == Some(2) && err(&drawn).contains("the same sweep command"), "{}", err(&drawn));
    // A cell's own command gives the cell again.
    let record = document["cells"][0]["record"].as_str().unwrap();
    let cell = std::fs::read_to_string(place.0.join("s").join(record).join("record.json")).unwrap();
    let cell: Value = serde_json::from_str(&cell).unwrap();
    let rerun =
        cell["rerun"].as_str().unwrap().replacen("wavelane", WAVELANE, 1) + " --json --out " + &place.path("one");
    let one = Command::new("sh").args(["-c", &rerun]).output().unwrap();
    let one: Value = serde_json::from_str(&out(&one)).unwrap();
    assert_eq!(one["stacks"], cell["stacks"]);
    // Nothing runs twice: what is there is believed, and its age stays.
    let written = |name: &str| std::fs::metadata(place.0.join("s").join(name)).unwrap().modified().unwrap();
    let before = written(&format!("{record}/record.json"));
    assert_eq!(wavelane(&again).status.code(), Some(0));
    assert_eq!(
        (written(&format!("{record}/record.json")), std::fs::read_to_string(place.0.join("s/sweep.csv")).unwrap()),
        (before, csv)
    );
    let (json, plain) = again.split_last().unwrap();
    assert_eq!(*json, "--json");
    let told = out(&wavelane(plain));
    assert!(told.starts_with("2 combinations of 2 seeds, 2 of them kept from before\nverdict pass\n"), "{told}");
    // One seed more is all that runs.
    let more = ["sweep", &smoke(), "--sweep", rates, "--repeat", "3", "--out", &dir, EASY[0], EASY[1]];
    let o = wavelane(&more);
    assert!(
        err(&o).contains("2 combinations are there with fewer seeds: only the missing ones are run"),
        "{}",
        err(&o)
    );
    let csv = std::fs::read_to_string(place.0.join("s/sweep.csv")).unwrap();
    assert_eq!(csv.lines().filter(|l| l.contains(",page,download,goodput_bps,")).count(), 6);
    // Failures.
    let nothing = wavelane(&["sweep", &smoke(), "--out", &place.path("n")]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(err(&nothing).contains("nothing varies"), "{}", err(&nothing));
    let wrong = wavelane(&["sweep", &smoke(), "--sweep", "air.forward.rate=5 MB/s", "--out", &place.path("n")]);
    let why = err(&wrong);
    assert!(
        why.contains("'5 MB/s' is not a rate") && why.contains("with the sweep's air.forward.rate=5 MB/s"),
        "{why}"
    );
}

/// As of a run: a check that fails anywhere is exit code 1, and the command and the page say which, where, and with how many seeds.
#[test]
fn a_sweep_whose_check_fails_is_exit_1() {
    let place = Place::new("sweep-fails");
    let dir = place.path("s");
    let sweep = |repeat: &str, more: &[&str]| {
        let rates = "air.forward.rate=5 Mbit/s,20 Mbit/s";
        wavelane(&[&["sweep", &smoke(), "--sweep", rates, "--repeat", repeat, "--out", &dir][..], more].concat())
    };
    let o = sweep("2", &[]);
    assert_eq!(o.status.code(), Some(1), "{}", err(&o));
    let failed = "Check page-fills-the-link fails in 1 of 2 combinations: 5 Mbit/s (with 2 of 2 seeds).";
    assert!(out(&o).contains(&format!("{failed}\nverdict fail\ntable ")), "{}", out(&o));
    assert!(place.read("s/report.html").contains(failed));
    let json: Value = serde_json::from_str(&out(&sweep("2", &["--json"]))).unwrap();
    assert_eq!((&json["verdict"], &json["cells"][1]["verdict"]), (&"fail".into(), &"pass".into()));
    assert!(out(&wavelane(&["sweep", "--help"])).contains("1 if a check of the scenario fails in any combination"));
    // Fewer seeds: tables of those, and no record loses one.
    let o = sweep("1", &[]);
    assert!(
        err(&o).contains("with more seeds than --repeat 1: the first one counts, the records keep all"),
        "{}",
        err(&o)
    );
    let of_goodput = |text: String| text.lines().filter(|l| l.contains(",page,download,goodput_bps,")).count();
    assert_eq!(of_goodput(place.read("s/sweep.csv")), 2);
    let record = Path::new(&dir).join(json["cells"][0]["record"].as_str().unwrap()).join("record.json");
    let record: Value = serde_json::from_str(&std::fs::read_to_string(record).unwrap()).unwrap();
    assert_eq!(record["repeat"], 2);
    // Two seeds again: nothing is run.
    let o = sweep("2", &[]);
    assert!(out(&o).starts_with("2 combinations of 2 seeds, 2 of them kept from before\n"), "{}", out(&o));
    assert_eq!(of_goodput(place.read("s/sweep.csv")), 4);
}

/// The blocks of Python in the guide, each with the records that its text speaks of.
#[test]
fn the_guides_python_reads_records_and_tables() {
    let place = Place::new("python");
    run(&["--repeat", "2", "--out", &place.path("record")]);
    let o = wavelane(&[
        "sweep",
        &smoke(),
        "--sweep",
        "air.forward.rate=5 Mbit/s,10 Mbit/s",
        "--repeat",
        "2",
        "--out",
        &place.path("sweep"),
        EASY[0],
        EASY[1],
    ]);
    assert!(o.status.success(), "{}", err(&o));
    let o = wavelane(&["compare", &place.path("record"), &place.path("record"), "--json"]);
    std::fs::write(place.path("compare.json"), &o.stdout).unwrap();
    let schema = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
        folder.join(format!("wavelane-{name}-1.schema.json")).display().to_string()
    };
    let check = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/check_record.py");
    let python = |args: &[&str]| Command::new("python3").args(args).current_dir(&place.0).output();
    for (name, document) in [("run", "record/record.json"), ("sweep", "sweep/sweep.json"), ("compare", "compare.json")]
    {
        let Ok(o) = python(&[&check.display().to_string(), &schema(name), &place.path(document)]) else {
            eprintln!("SKIPPED (python3 is missing: apt-get install python3): the guide's Python");
            return;
        };
        match o.status.code() {
            Some(77) => eprintln!("SKIPPED (the Python module jsonschema is missing): {document} against its schema"),
            code => assert_eq!(code, Some(0), "{}", err(&o)),
        }
    }
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/records.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let blocks = guide.split("```python\n").skip(1).map(|b| b.split("```").next().unwrap());
    // The package's own tests (python/tests) run what imports it.
    let blocks: Vec<&str> = blocks.filter(|b| !b.contains("import wavelane")).collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        if block.contains("import pandas") && !python(&["-c", "import pandas"]).unwrap().status.success() {
            eprintln!(
                "SKIPPED (the Python module pandas is missing: apt-get install python3-pandas): the guide's example"
            );
            continue;
        }
        let o = python(&["-c", block]).unwrap();
        assert!(o.status.success(), "{block}\n{}", err(&o));
        assert!(out(&o).contains("wavelane") && out(&o).contains("Mbit/s"), "{}", out(&o));
    }
}
