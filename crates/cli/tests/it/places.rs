//! What the command refuses to write over or to read, and what it leaves where it cannot write.

use crate::common::{EASY, Place, WAVELANE, err as said, smoke, wavelane};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

const RATES: &str = "air.forward.rate=5 Mbit/s,10 Mbit/s";

/// The last line of a refusal.
fn refused(args: &[&str]) -> String {
    let o = wavelane(args);
    let said = String::from_utf8_lossy(&o.stderr).into_owned();
    assert_eq!(o.status.code(), Some(2), "{args:?}: {said}");
    said.lines().last().unwrap_or_default().to_owned()
}

fn done(args: &[&str]) -> Output {
    let o = wavelane(args);
    assert!(o.status.success(), "{args:?}: {}", String::from_utf8_lossy(&o.stderr));
    o
}

#[test]
fn a_rerun_keeps_its_hands_off_files_of_others() {
    let place = Place::new("rerun");
    let record = place.path("r");
    // A run replaces whatever a run of its seeds wrote.
    done(&["run", &smoke(), "--keys", "--out", &record]);
    done(&["run", &smoke(), "--keys", "--out", &record]);
    place.file("r/series/notes.csv", "years");
    let why = refused(&["run", &smoke(), "--out", &record]);
    assert!(why.contains("holds series/notes.csv") && why.contains("choose another --out"), "{why}");
    assert_eq!(place.read("r/series/notes.csv"), "years");
    std::fs::remove_file(place.0.join("r/series/notes.csv")).unwrap();
    // A link is followed.
    symlink(place.0.join("r"), place.0.join("link")).unwrap();
    let other = ["run", &smoke(), "--seed", "9", "--out", &place.path("link/")];
    let before = place.read("r/record.json");
    let why = refused(&other);
    assert!(why.contains("holds a record of seed 1 in sim, in whose place one of seed 9 in sim would come"), "{why}");
    assert!(why.ends_with("add --replace to have it replaced, or choose another --out"), "{why}");
    assert_eq!(place.read("r/record.json"), before);
    done(&[&other[..], &["--replace"]].concat());
    assert!(place.0.join("link").is_symlink() && place.read("r/record.json").contains("\"seed\": 9"));
}

#[test]
fn a_comparison_takes_no_other_pages_place() {
    let place = Place::new("compare");
    let (a, b, study) = (place.path("a"), place.path("b"), place.path("study"));
    done(&["run", &smoke(), "--out", &a]);
    done(&["run", &smoke(), "--seed", "2", "--out", &b]);
    std::fs::create_dir(&study).unwrap();
    let document = r#"{"format": "wavelane-study/1", "study": "gettys", "edition": "quick", "seed": 1, "verdict": "info", "rows": []}"#;
    place.file("study/gettys.json", document);
    symlink(place.0.join("a"), place.0.join("link")).unwrap();
    let page = place.read("a/report.html");
    for (out, part) in [
        (a.clone(), "is compared"),
        (format!("{a}/"), "is compared"),
        (format!("{b}/../a"), "is compared"),
        (place.path("link"), "is compared"),
        (place.path("link/plots"), "is compared"),
        (study, "holds gettys.json"),
        ("/proc/nowhere/c".into(), "cannot write"),
    ] {
        let why = refused(&["compare", &a, &b, "--out", &out]);
        assert!(why.contains(part), "{out}: {why}");
    }
    let why = refused(&["compare", &b, &b, "--out", &a]);
    assert!(
        why.contains("holds environment.json, which no comparison wrote: choose a new or an empty folder"),
        "{why}"
    );
    assert_eq!(place.read("a/report.html"), page);
    std::fs::create_dir(place.0.join("c")).unwrap();
    done(&["compare", &a, &b, "--out", &place.path("c")]);
    done(&["compare", &a, &b, "--out", &place.path("c")]);
    // Beside a page of its own it takes no file of others along, also none among its pictures.
    for file in ["c/notes.txt", "c/plots/mine.png"] {
        place.file(file, "years");
        let why = refused(&["compare", &a, &b, "--out", &place.path("c")]);
        assert!(why.contains(&format!("holds {}", file.strip_prefix("c/").unwrap())), "{why}");
        std::fs::remove_file(place.0.join(file)).unwrap();
    }
    // What has the names of its files is not always a comparison's.
    for file in ["docs/report.html", "pictures/plots/throughput.png"] {
        std::fs::create_dir_all(place.0.join(file).parent().unwrap()).unwrap();
        place.file(file, "<html>years");
        let (folder, rest) = file.split_once('/').unwrap();
        let why = refused(&["compare", &a, &b, "--out", &place.path(folder)]);
        assert!(why.contains(&format!("holds {}", rest.split('/').next().unwrap())), "{why}");
        assert_eq!(place.read(file), "<html>years");
    }
}

#[test]
fn a_study_takes_no_folder_of_others() {
    let place = Place::new("study");
    let run = |out: &str| refused(&["study", "run", "petrovic", "--part", "none-such", "--out", out]);
    assert!(run(&place.path("x")).contains("has no part"));
    let run = |out: &str| refused(&["study", "run", "main-job", "simulator-speed", "--out", out]);
    for (name, content) in [("gettys.json", "{}"), ("thesis.tex", "years"), ("report.html", "<html>")] {
        place.file(name, content);
        let why = run(&place.path(""));
        assert!(why.contains(&format!("holds {name}, which study main-job, simulator-speed did not write")), "{why}");
        assert_eq!(place.read(name), content);
        std::fs::remove_file(place.0.join(name)).unwrap();
    }
    // Results of other seeds, or of the other edition with its other number of them.
    let document = r#"{"format": "wavelane-study/1", "study": "main-job", "edition": "full", "seed": 1, "verdict": "info", "rows": []}"#;
    place.file("main-job.json", document);
    let why = run(&place.path(""));
    assert!(
        why.contains("holds results of study main-job --full --seed 1, in whose place those of --quick --seed 1"),
        "{why}"
    );
    assert!(why.ends_with("add --replace to have them replaced, or choose another --out"), "{why}");
    assert_eq!(place.read("main-job.json"), document);
    // Rows of other parts, which would be gone.
    let rows = r#"{"format": "wavelane-study/1", "study": "asymmetry", "edition": "quick", "seed": 1, "verdict": "info", "rows": [], "parts": ["thin"]}"#;
    std::fs::create_dir(place.0.join("parts")).unwrap();
    place.file("parts/asymmetry.json", rows);
    let why = refused(&["study", "run", "asymmetry", "--part", "steps", "--out", &place.path("parts")]);
    assert!(why.contains("holds rows of part thin of study asymmetry, which would be lost: add --replace"), "{why}");
    std::fs::remove_file(place.0.join("main-job.json")).unwrap();
    assert!(run("/proc/nowhere/s").contains("cannot write /proc/nowhere/s"));
    place.file("file", "");
    assert!(run(&place.path("file/s")).contains("file/s: Not a directory"));
}

#[test]
fn a_sweep_refuses_keys_without_effect_and_edited_cells_run_again() {
    let place = Place::new("sweep");
    let dir = place.path("s");
    let [set, bound] = EASY;
    let sweep = ["sweep", &smoke(), "--sweep", RATES, "--out", &dir, set, bound];
    for (more, part) in [
        (["--sweep", "air.forward.rate=1 Mbit/s"], "--sweep names air.forward.rate twice"),
        (["--sweep", "channels.air.forward.rate=1 Mbit/s"], "twice"),
        (["--set", "air.forward.rate=1 Mbit/s"], "--set air.forward.rate has no effect"),
        (["--sweep", "seed=1,2"], "seed is no axis"),
        (["--seed", "9223372036854775808"], "choose a smaller one"),
    ] {
        let why = refused(&[&sweep[..], &more].concat());
        assert!(why.contains(part), "{more:?}: {why}");
    }
    done(&sweep);
    let table = place.read("s/sweep.csv");
    let cells = || std::fs::read_dir(place.0.join("s/cells")).unwrap().map(|e| e.unwrap().path());
    let record = cells().find(|path| path.is_dir()).unwrap().join("record.json");
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, text.replacen("\"goodput_bps\": ", "\"goodput_bps\": 9", 1)).unwrap();
    let o = done(&sweep);
    assert!(said(&o).contains("1 combination is run again and replaced, for record.json was changed"), "{}", said(&o));
    std::fs::remove_file(&record).unwrap();
    let o = done(&sweep);
    assert!(said(&o).contains("there is no record.json"), "{}", said(&o));
    assert_eq!((place.read("s/sweep.csv"), std::fs::read_to_string(&record).unwrap()), (table, text));
    let why = refused(&[&sweep[..], &["--seed", "4"]].concat());
    assert!(why.contains("2 combinations have records of other seeds") && why.contains("add --replace"), "{why}");
    done(&[&sweep[..], &["--seed", "4", "--replace"]].concat());
    assert!(std::fs::read_to_string(&record).unwrap().contains("\"seed\": 4"));
    assert!(refused(&["sweep", &smoke(), "--sweep", RATES, "--out", "/proc/nowhere/s"]).contains("cannot write"));
}

/// Pipes in the place of a record's files, at which a reader would wait for ever.
#[test]
fn what_is_no_regular_file_is_not_opened() {
    let place = Place::new("pipes");
    let record = place.path("r");
    for name in ["record.json", "scenario.toml", "series/wavelane-page.csv"] {
        done(&["run", &smoke(), "--out", &record]);
        let file = place.0.join("r").join(name);
        std::fs::remove_file(&file).unwrap();
        assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
        let why = refused(&["report", &record]);
        assert!(why.contains(name) && why.contains("no regular file"), "{why}");
        if !name.starts_with("series") {
            assert!(refused(&["compare", &record, &record]).contains("no regular file"));
        }
        std::fs::remove_dir_all(&record).unwrap();
    }
    assert!(
        refused(&["run", &smoke(), "--seed", "9223372036854775807", "--repeat", "2"]).contains("choose a smaller one")
    );
}

#[test]
fn a_closed_standard_output_is_exit_2() {
    let place = Place::new("closed");
    let record = place.path("r");
    let shell = |command: &str| Command::new("sh").args(["-c", &format!("{WAVELANE} {command}")]).output().unwrap();
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/capture/reno-sack.pcap");
    for command in [
        format!("run {} --out {record} >&-", smoke()),
        format!("run {} --json --out {record} >&-", smoke()),
        format!("check {} >&-", smoke()),
        format!("trace {} --json >&-", capture.display()),
    ] {
        let o = shell(&command);
        assert_eq!(o.status.code(), Some(2), "{command}: {}", said(&o));
        assert!(said(&o).contains("cannot write to standard output: it is closed"), "{command}: {}", said(&o));
    }
    assert!(!place.0.join("r").exists(), "nothing ran");
    for command in
        [format!("check {} >/dev/null", smoke()), format!("check {} 1<>/dev/null", smoke()), "--help >&-".into()]
    {
        assert_eq!(shell(&command).status.code(), Some(0), "{command}");
    }
}

/// A limit on file sizes, whose signal would end the program.
#[test]
fn a_file_over_the_limit_leaves_no_draft() {
    let place = Place::new("limit");
    let dir = place.path("s");
    done(&[&["sweep", &smoke(), "--sweep", RATES, "--out", &dir][..], &EASY].concat());
    let before = place.read("s/sweep.csv");
    // 512 bytes: less than the table.
    let [set, bound] = EASY;
    let script =
        format!("ulimit -f 1; exec {WAVELANE} sweep {} --sweep '{RATES}' --out {dir} {set} '{bound}'", smoke());
    let o = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(o.status.code(), Some(2), "{}", said(&o));
    assert!(said(&o).contains("File too large"), "{}", said(&o));
    let names = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    let drafts: Vec<String> = names.filter(|name| name.contains("draft")).collect();
    assert!(drafts.is_empty(), "{drafts:?}");
    assert_eq!(place.read("s/sweep.csv"), before);
    let script = format!("ulimit -f 1; exec {WAVELANE} run {} --out {}", smoke(), place.path("r"));
    let o = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(o.status.code(), Some(2), "{}", said(&o));
    let left: Vec<_> = std::fs::read_dir(&place.0).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["s"]);
}

#[test]
fn keys_and_names_that_nobody_knows_are_told() {
    let place = Place::new("names");
    let record = place.path("r");
    done(&["run", &smoke(), "--out", &record]);
    let text = place.read("r/record.json");
    place.file("r/record.json", &text.replacen('{', "{\"mood\": 1,", 1));
    for args in [&["report", &record][..], &["compare", &record, &record]] {
        assert!(said(&done(args)).contains("r/record.json: unknown keys are ignored: mood"), "{args:?}");
    }
    place.file("r/record.json", &text.replace("\"flow\": \"page\"", "\"flow\": \"pages\""));
    for args in [&["report", &record][..], &["compare", &record, &record]] {
        assert!(refused(args).contains("it names the flow 'pages', which its scenario.toml does not have"), "{args:?}");
    }
}

/// What is no record says what it is, and where records are.
#[test]
fn directories_without_a_record_say_what_they_are() {
    let place = Place::new("kinds");
    let (a, b) = (place.path("a"), place.path("b"));
    done(&["run", &smoke(), "--out", &a]);
    let needs = "no two stacks to compare";
    assert!(refused(&["compare", &a]).contains(needs));
    // A study's records lie a folder deeper.
    std::fs::create_dir_all(place.0.join("study/gettys")).unwrap();
    place.file("study/gettys/kept.jsonl", "");
    assert!(refused(&["compare", &a, &place.path("study")]).contains("study's directory, and gettys kept no records"));
    std::fs::rename(&a, place.0.join("study/gettys/one")).unwrap();
    let a = place.path("study/gettys/one");
    let why = refused(&["compare", &a, &place.path("study")]);
    assert!(why.contains("a study's directory: its records are in gettys/NAME, for instance gettys/one"), "{why}");
    // Seals stand beside the records of a sweep.
    place.file("study/gettys/one.sum", "0");
    let seal = format!("{a}.sum");
    done(&["compare", &a, &seal, &a]);
    assert!(refused(&["compare", &a, &seal]).contains(needs));
    let other = place.file("other.sum", "0");
    assert!(refused(&["compare", &a, &other]).contains("other.sum is a file: name the directory of a record"));
    done(&["compare", &a, &a, "--out", &b]);
    let why = refused(&["report", &b]);
    assert!(why.contains("this is a comparison's page: repeat the `wavelane compare`"), "{why}");
    assert!(refused(&["trace", &a]).contains("one is a directory: name a capture file"));
    let why = refused(&["cure", "--undo", "--file", &place.path("none.toml")]);
    assert!(why.contains("none.toml does not exist"), "{why}");
}
