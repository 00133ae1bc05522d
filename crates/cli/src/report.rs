//! `wavelane report` and `wavelane compare`.

use crate::{Failure, Outcome, interrupt, print};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use wavelane_base::text::ShownPath;
use wavelane_report::{COMPARED_MAX, Compared, Comparison};
use wavelane_run::RunDocument;
use wavelane_scenario::Scenario;
#[cfg(feature = "full")]
use wavelane_study::StudyDocument;

/// Arguments of `wavelane report`.
#[derive(Args)]
pub(crate) struct ReportArgs {
    /// The directory of a record, or of a study (the one with ID.json).
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Show it in the desktop's browser (xdg-open).
    #[arg(long)]
    open: bool,
}

/// Arguments of `wavelane compare`.
#[derive(Args)]
pub(crate) struct CompareArgs {
    /// Records' directories; the others are compared with the first, runs of the same seed with each other. Of one alone, its stacks are.
    /// Or directories of measurements that `wavelane probe --out` kept.
    #[arg(value_name = "DIR", num_args = 1.., required = true)]
    dirs: Vec<PathBuf>,
    /// Write report.html with overlaid pictures there.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Show that page in the desktop's browser (xdg-open).
    #[arg(long, requires = "out")]
    open: bool,
    /// Print the comparison as one JSON document on standard output, and nothing else.
    #[arg(long)]
    json: bool,
}

#[cfg(not(feature = "full"))]
fn records_of_study(_dir: &Path) -> Option<String> {
    None
}

/// Where a study's directory has its records, if it is one: a study that was interrupted has no document yet.
#[cfg(feature = "full")]
fn records_of_study(dir: &Path) -> Option<String> {
    let id = wavelane_study::STUDIES.iter().map(|study| study.id).find(|id| {
        let kept = dir.join(id);
        dir.join(format!("{id}.json")).is_file() || kept.join("kept.jsonl").is_file() || a_record_in(&kept).is_some()
    })?;
    Some(match a_record_in(&dir.join(id)) {
        Some(name) => format!("this is a study's directory: its records are in {id}/NAME, for instance {id}/{name}"),
        None => format!("this is a study's directory, and {id} kept no records there"),
    })
}

/// The name of the first record in a folder.
#[cfg(feature = "full")]
fn a_record_in(folder: &Path) -> Option<String> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let records = entries.filter(|entry| entry.path().join("record.json").is_file());
    records.map(|entry| entry.file_name().to_string_lossy().into_owned()).min()
}

/// Why a directory is no record, and what to do.
fn no_record(dir: &Path) -> Failure {
    if !dir.exists() {
        return Failure::refused(format!(
            "{} does not exist: name a directory that `wavelane run` or `wavelane study run` wrote",
            dir.shown()
        ));
    }
    if dir.is_file() {
        return Failure::refused(format!("{} is a file: name the directory of a record", dir.shown()));
    }
    let remedy: String = if dir.join("sweep.json").exists() {
        "this is a sweep's directory, whose report the same sweep command draws again; its records are in cells/".into()
    } else if wavelane_report::is_comparison(dir) {
        "this is a comparison's page: repeat the `wavelane compare` that stands at its end".into()
    } else if dir.join("import.json").exists() {
        "this is another tool's result, whose report the same `wavelane import` draws again; only records of runs are compared".into()
    } else if let Some(records) = records_of_study(dir) {
        records
    } else {
        "name a directory that `wavelane run` or `wavelane study run` wrote".into()
    };
    Failure::refused(format!("{} holds no record: {remedy}", dir.shown()))
}

fn load(dir: &Path) -> Result<(RunDocument, Scenario), Failure> {
    if !dir.join("record.json").exists() {
        return Err(no_record(dir));
    }
    let document = RunDocument::load(dir).map_err(Failure::refused)?;
    let scenario = Scenario::load_recorded(dir).map_err(Failure::refused)?;
    document.check_against(dir, &scenario).map_err(Failure::refused)?;
    let unknown = RunDocument::unknown_keys(dir);
    if !unknown.is_empty() {
        let (path, keys) = (dir.join("record.json"), unknown.join(", "));
        say!("warning: {}: unknown keys are ignored: {keys}; a newer version may have written them", path.shown());
    }
    Ok((document, scenario))
}

/// Shows a page in the desktop's browser.
pub(crate) fn show_page(page: &Path) -> Result<(), Failure> {
    let shown = Command::new("xdg-open").arg(page).stdin(Stdio::null()).stdout(Stdio::null()).status();
    let failed =
        |why: String| Failure::refused(format!("cannot open a browser: {why}; open {} yourself", page.shown()));
    let status = shown.map_err(|e| failed(format!("xdg-open: {e}")))?;
    if status.success() { Ok(()) } else { Err(failed(format!("xdg-open ended with {status}"))) }
}

/// Draws the report of a record or a study.
pub(crate) fn report(args: &ReportArgs) -> Outcome {
    wavelane_run::recover_record(&args.dir).map_err(Failure::refused)?;
    let page =
        if args.dir.join("record.json").exists() { page_of_record(&args.dir)? } else { page_of_study(&args.dir)? };
    if args.open {
        show_page(&page)?;
    }
    Ok(0)
}

fn page_of_record(dir: &Path) -> Result<PathBuf, Failure> {
    let (document, scenario) = load(dir)?;
    let page = wavelane_report::render(dir).map_err(Failure::refused)?;
    let table = wavelane_report::summary_text(&document, &scenario);
    print(&format!("{table}\nverdict {}\nreport {}\n", document.verdict.word(), page.shown()))?;
    Ok(page)
}

#[cfg(not(feature = "full"))]
fn page_of_study(dir: &Path) -> Result<PathBuf, Failure> {
    Err(no_record(dir))
}

#[cfg(feature = "full")]
fn page_of_study(dir: &Path) -> Result<PathBuf, Failure> {
    match StudyDocument::find(dir).as_slice() {
        [] => Err(no_record(dir)),
        [study] => {
            let page = wavelane_study::report(dir, study).map_err(Failure::refused)?;
            print(&format!("study {} verdict {}\nreport {}\n", study.study, study.verdict.word(), page.shown()))?;
            Ok(page)
        }
        several => {
            let names: Vec<&str> = several.iter().map(|s| s.study.as_str()).collect();
            Err(Failure::refused(format!(
                "{} holds several studies ({}), and one page is of one: run each with an --out of its own",
                dir.shown(),
                names.join(", ")
            )))
        }
    }
}

/// A path without links, also of what is yet to be made.
fn real(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    for there in absolute.ancestors() {
        if let Ok(found) = there.canonicalize() {
            return found.join(absolute.strip_prefix(there).unwrap_or(Path::new("")));
        }
    }
    absolute
}

/// Refuses a place for the page that cannot be written, or where it would take another page's place.
fn place_of_page(out: &Path, dirs: &[PathBuf]) -> Result<(), Failure> {
    let place = real(out);
    if let Some(dir) = dirs.iter().find(|dir| place.starts_with(real(dir))) {
        let (out, dir) = (out.shown(), dir.shown());
        return Err(Failure::refused(format!("--out {out} lies in {dir}, which is compared: choose another folder")));
    }
    refuse_foreign(out)?;
    wavelane_run::check_writable(out).map_err(Failure::refused)
}

/// Refuses a folder with anything that no comparison wrote: its files would be replaced, or be mixed with the page's.
fn refuse_foreign(out: &Path) -> Result<(), Failure> {
    let at = out.shown();
    if let Some(Err(why)) = out.is_dir().then(|| out.read_dir()) {
        return Err(Failure::refused(format!("cannot read --out {at}: {why}; choose another folder")));
    }
    let Some(found) = wavelane_report::foreign_to_comparison(out) else { return Ok(()) };
    let found = found.shown();
    Err(Failure::refused(format!(
        "--out {at} holds {found}, which no comparison wrote: choose a new or an empty folder, or that of an earlier comparison"
    )))
}

/// Draws the page beside its place and puts it there when it is whole.
fn draw(comparison: &Comparison, records: &[Compared], out: &Path, stop: &AtomicBool) -> Result<PathBuf, Failure> {
    let name = out.file_name().map_or_else(|| "compare".into(), |n| n.to_string_lossy().into_owned());
    let draft = out.with_file_name(format!(".{name}.draft-{}", std::process::id()));
    let made = comparison.render(&draft, out, records, stop).map_err(Failure::refused);
    let kept = made.and_then(|page| {
        page.ok_or_else(|| Failure::interrupted("interrupted; nothing was written"))?;
        // Others may have put something there while the page was being drawn.
        refuse_foreign(out)?;
        take_over(&draft, out).map_err(|e| Failure::refused(format!("cannot write {}: {e}", out.shown())))
    });
    let _ = std::fs::remove_dir_all(&draft);
    kept.map(|()| out.join("report.html"))
}

/// Moves the page and its pictures, over those of an earlier comparison.
fn take_over(draft: &Path, out: &Path) -> std::io::Result<()> {
    for folder in ["plots", ""] {
        std::fs::create_dir_all(out.join(folder))?;
        let Ok(entries) = std::fs::read_dir(draft.join(folder)) else { continue };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::fs::rename(entry.path(), out.join(folder).join(entry.file_name()))?;
            }
        }
    }
    Ok(())
}

/// Whether a path is the file beside a sweep's record by which an edited record is known.
fn is_seal(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "sum")
        && path.is_file()
        && path.with_extension("").join("record.json").exists()
}

/// Compares measurements of `wavelane probe`, which have no page.
#[cfg(feature = "full")]
fn measurements(dirs: &[PathBuf], args: &CompareArgs) -> Outcome {
    use crate::compare_probes::{compare, is_measurement};
    if let Some(other) = dirs.iter().find(|dir| !is_measurement(dir)) {
        let other = other.shown();
        return Err(Failure::refused(format!(
            "{other} is no measurement of `wavelane probe`, which others of these are: compare either"
        )));
    }
    if args.out.is_some() {
        return Err(Failure::refused("a comparison of measurements has no page: leave --out away"));
    }
    compare(dirs, args.json)
}

/// Compares records with the first, and says when they are not of the same scenario.
pub(crate) fn compare(args: &CompareArgs) -> Outcome {
    // A shell's cells/* names the seals of a sweep's records too.
    let dirs: Vec<PathBuf> = args.dirs.iter().filter(|dir| !is_seal(dir)).cloned().collect();
    match dirs.len() {
        0 => {
            return Err(Failure::refused(
                "compare needs a record of several stacks, or two records or more: name their directories",
            ));
        }
        n if n > COMPARED_MAX => {
            return Err(Failure::refused(format!("{n} records: compare at most {COMPARED_MAX} at once")));
        }
        _ => {}
    }
    #[cfg(feature = "full")]
    if dirs.iter().any(|dir| crate::compare_probes::is_measurement(dir)) {
        return measurements(&dirs, args);
    }
    let stop = interrupt::flag()?;
    if let Some(out) = &args.out {
        place_of_page(out, &dirs)?;
    }
    let mut records = Vec::new();
    for dir in &dirs {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::interrupted("interrupted"));
        }
        let (document, scenario) = load(dir)?;
        records.push(Compared { record: dir.clone(), document, scenario, stack: None });
    }
    let shown = records.clone();
    if let [_] = records.as_slice() {
        records = records.into_iter().flat_map(Compared::by_stack).collect();
        match records.len() {
            0 | 1 => {
                let dir = dirs[0].shown();
                return Err(Failure::refused(format!(
                    "{dir} has no two stacks to compare: name a second record, or run it with more `stacks`"
                )));
            }
            n if n > COMPARED_MAX => {
                return Err(Failure::refused(format!("{n} stacks: compare at most {COMPARED_MAX} at once")));
            }
            _ => {}
        }
    }
    let comparison = Comparison::of(&records);
    comparison.warnings().iter().for_each(|warning| say!("warning: {warning}"));
    if args.json {
        print(&comparison.to_json())?;
    } else {
        for (letter, r) in ('A'..='Z').zip(&shown) {
            let letter = if records.len() == shown.len() { format!("{letter} ") } else { String::new() };
            let (backend, seed, verdict) = (&r.document.backend, r.document.seed, r.document.verdict.word());
            let scenario = &r.document.scenario;
            let table = wavelane_report::summary_text(&r.document, &r.scenario);
            let name = r.record.shown();
            print(&format!("{letter}{name}: {scenario} on {backend}, seed {seed}, verdict {verdict}\n{table}\n"))?;
        }
        print(&comparison.text())?;
    }
    if let Some(out) = &args.out {
        let page = draw(&comparison, &records, out, &stop)?;
        if !args.json {
            print(&format!("report {}\n", page.shown()))?;
        }
        if args.open {
            show_page(&page)?;
        }
    }
    Ok(0)
}
