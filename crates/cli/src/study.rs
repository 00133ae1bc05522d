//! `wavelane study`.

use crate::cluster::Cluster;
use crate::progress::Meter;
use crate::run::{failure, jobs, render};
use crate::{Failure, Outcome, exit_of, interrupt, print, study_show};
use clap::{Args, Subcommand};
use core::fmt::Write;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{IsTerminal, Write as _};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wavelane_base::text;
use wavelane_base::text::ShownPath;
use wavelane_run::{Count, Progress, RunError, RunHooks, Verdict};
use wavelane_scenario::{Seed, hint, trace_folder};
use wavelane_study::{
    Edition, Elsewhere, Row, STUDIES, StudiesDocument, Study, StudyDocument, StudyError, StudyOptions,
};

/// Largest first seed: studies count up from it, in seeds of a run at most.
const SEED_MAX: u64 = wavelane_run::SEED_MAX / 2;

/// Arguments of `wavelane study`.
#[derive(Args)]
pub(crate) struct StudyArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List the studies.
    List,
    /// Describe a study: its question, parts, durations and figures, and what came out.
    Show {
        /// An id from `wavelane study list`.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Run studies and judge them. `wavelane study run ID --help` describes the study first.
    Run(Box<RunStudies>),
}

#[derive(Args)]
struct RunStudies {
    /// Ids from `wavelane study list`.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Few seeds, in minutes (the default).
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// As thorough as the study goes.
    #[arg(long)]
    full: bool,
    /// Only this part of the study; may be repeated.
    #[arg(long = "part", value_name = "NAME")]
    parts: Vec<String>,
    /// Of the links or networks that the study draws at random, only those of these numbers, such as 1001..1100 or 1017.
    #[arg(long, value_name = "A..B", value_parser = draws)]
    draws: Option<RangeInclusive<u64>>,
    /// Of a population run only this stack, and take the others from results that are kept; may be repeated.
    #[arg(long = "stack", value_name = "NAME")]
    stacks: Vec<String>,
    /// Take a population's results also from this --out of another run, where they still hold; may be repeated.
    #[arg(long = "reuse", value_name = "DIR")]
    reuse: Vec<PathBuf>,
    /// Run study traces on the recordings in this folder (NAME.down, .up, .delay, also .csv and .gz) instead of those shipped.
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// With --traces: pair its recordings with those of this folder, as two lanes of one link.
    #[arg(long = "traces-b", value_name = "DIR", requires = "traces")]
    traces_b: Option<PathBuf>,
    /// The first seed; a population's seed chooses its family.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=SEED_MAX))]
    seed: u64,
    /// Runs at once [default: the study's choice].
    #[arg(long, value_name = "N", value_parser = jobs)]
    jobs: Option<usize>,
    /// Have a cluster do the study's runs: the address of a Dask scheduler, or slurm://N for N jobs of Slurm.
    /// Needs the Python package `wavelane[cluster]` here, and `wavelane` of the same build and Dask's on the workers. Of
    /// link-population, hop, hop-swarm, petrovic and traces.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "jobs")]
    on_cluster: Option<String>,
    /// The Python that the Dask client runs in.
    #[arg(long, value_name = "PROGRAM", default_value = "python3", requires = "on_cluster")]
    python: PathBuf,
    /// Where the records and ID.json go [default: records/study-ID-EDITION-SEED, and the draws if named].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the results of another --seed, of the other edition, or of other parts or draws.
    #[arg(long)]
    replace: bool,
    /// Print one JSON document on standard output, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Lists or runs studies.
pub(crate) fn study(args: &StudyArgs) -> Outcome {
    match &args.verb {
        Verb::List => {
            print(&study_show::list(&STUDIES, std::io::stdout().is_terminal()))?;
            say!("wavelane study show ID: question, parts and figures of one, and what came out");
            Ok(0)
        }
        Verb::Show { id } => {
            print(&study_show::show(find(id)?))?;
            Ok(0)
        }
        Verb::Run(args) => run(args),
    }
}

/// Names shown of what a folder holds besides recordings.
const UNUSED_SHOWN: usize = 5;

/// What a folder of recordings holds that is not used may be a recording by another name. An unusable folder the study refuses.
fn tell_unused(folder: &Path) {
    let Ok(unused) = trace_folder::unused(folder) else { return };
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut names: Vec<String> = unused.iter().take(UNUSED_SHOWN).map(name).collect();
    names.extend((unused.len() > UNUSED_SHOWN).then(|| format!("and {} more", unused.len() - UNUSED_SHOWN)));
    if !names.is_empty() {
        let (folder, names) = (folder.shown(), names.join(", "));
        say!(
            "wavelane: not used of {folder}: {names} (recordings are NAME.down, NAME.up and, beside one of these, NAME.delay; `wavelane import --links` makes them)"
        );
    }
}

/// The study of that id, or which is meant.
fn find(id: &str) -> Result<&'static Study, Failure> {
    let meant = || hint(id, STUDIES.iter().map(|s| s.id));
    Study::find(id).ok_or_else(|| Failure::refused(format!("no study '{id}'; {}", meant())))
}

/// What `study run ID... --help` asks about, before the help of the command itself.
pub(crate) fn asked(mut args: impl Iterator<Item = OsString>) -> Option<String> {
    if args.nth(1)? != "study" || args.next()? != "run" {
        return None;
    }
    let shown: Vec<String> = args.filter_map(|id| Study::find(id.to_str()?).map(study_show::show)).collect();
    (!shown.is_empty()).then(|| shown.join("\n"))
}

fn run(args: &RunStudies) -> Outcome {
    let studies = args.ids.iter().map(|id| find(id)).collect::<Result<Vec<_>, _>>()?;
    for study in &studies {
        if let Some(part) = args.parts.iter().find(|part| !study.parts.contains(&part.as_str())) {
            let known = match study.parts {
                [] => "it has none: leave --part out".into(),
                parts => hint(part, parts.iter().copied()),
            };
            return Err(Failure::refused(format!("study {} has no part '{part}': {known}", study.id)));
        }
    }
    for study in &studies {
        population_only(args, study)?;
        if args.on_cluster.is_some() && !study.runs_elsewhere() {
            let with: Vec<&str> = STUDIES.iter().filter(|s| s.runs_elsewhere()).map(|s| s.id).collect();
            let why = format!("study {} runs on this machine only, so no --on-cluster", study.id);
            return Err(Failure::refused(format!("{why}: leave it out, or run {}", with.join(", "))));
        }
    }
    let edition = if args.full { Edition::Full } else { Edition::Quick };
    let word = edition.word();
    if let Some(out) = &args.out {
        place(out, &studies)?;
        for study in &studies {
            refuse_others(out, study, edition, args)?;
        }
    }
    let cancelled = interrupt::flag()?;
    let meter = Meter::new();
    let show = |p: Progress| meter.show(&p);
    let count = |c: Count| meter.count(&c);
    let hooks = RunHooks {
        progress: &show,
        count: &count,
        cancelled: &cancelled,
        environment: &wavelane_run::host_facts,
        render: &render,
    };
    let mut documents = Vec::new();
    let elsewhere = args.on_cluster.as_ref().map(|address| {
        let cluster = Cluster { python: args.python.clone(), address: address.clone() };
        let cancelled = Arc::clone(&cancelled);
        Elsewhere(Arc::new(move |batches, deliver| {
            let pieces: Vec<String> = batches.iter().map(|b| serde_json::to_string(b).unwrap_or_default()).collect();
            cluster.run(&pieces, &cancelled, deliver)
        }))
    });
    for study in studies {
        let of: String = args.parts.iter().map(|part| format!("-{part}")).collect();
        // A replay of some members does not take the place of the whole study.
        let some = args.draws.as_ref().map_or(String::new(), |d| format!("-draws-{}-{}", d.start(), d.end()));
        let default = || PathBuf::from(format!("records/study-{}{of}-{word}-{}{some}", study.id, args.seed));
        let out = args.out.clone().unwrap_or_else(default);
        if args.out.is_none() {
            place(&out, &[study])?;
            refuse_others(&out, study, edition, args)?;
        }
        let (draws, stacks, reuse) = (args.draws.clone(), args.stacks.clone(), args.reuse.clone());
        let (seed, jobs, parts, elsewhere) = (Seed(args.seed), args.jobs, args.parts.clone(), elsewhere.clone());
        let traces = [args.traces.clone(), args.traces_b.clone()];
        traces.iter().flatten().for_each(|folder| tell_unused(folder));
        let options = StudyOptions {
            edition,
            seed,
            jobs,
            out: out.clone(),
            parts,
            draws,
            stacks,
            reuse,
            traces,
            elsewhere,
            row: announce,
        };
        let result = study.run(&options, &hooks);
        meter.finish();
        let document = result.map_err(|e| match &e {
            StudyError::Run(RunError::Cancelled) => cancelled_in(&out),
            StudyError::Run(error) => failure(error),
            StudyError::Scenario(_) => Failure::refused(&e),
        })?;
        keep(&out, &document)?;
        wavelane_study::report(&out, &document).map_err(Failure::refused)?;
        if !args.json {
            print(&table(&document, &out))?;
        }
        documents.push(document);
    }
    let verdict = Verdict::total(documents.iter().map(|d| d.verdict));
    if args.json {
        print(&match documents.as_slice() {
            [one] => one.to_json(),
            _ => StudiesDocument::new(documents).to_json(),
        })?;
    }
    Ok(exit_of(verdict))
}

/// Refuses, before anything runs, a folder that cannot be written or holds what these studies did not write.
fn place(out: &Path, studies: &[&Study]) -> Result<(), Failure> {
    wavelane_run::check_writable(out).map_err(|e| failure(&e))?;
    let Some(found) = Study::foreign(out, studies) else { return Ok(()) };
    let ids: Vec<&str> = studies.iter().map(|study| study.id).collect();
    let (out, ids) = (out.shown(), ids.join(", "));
    Err(Failure::refused(format!(
        "{out} holds {found}, which study {ids} did not write: choose another --out, or move it away"
    )))
}

/// Refuses to replace results that took time: those of another first seed, of the other edition, which has another number of seeds,
/// and of parts or draws that are not asked for now.
fn refuse_others(out: &Path, study: &Study, edition: Edition, args: &RunStudies) -> Result<(), Failure> {
    match study.results_in(out) {
        Some((there, seed)) if !args.replace && (there, seed) != (edition, args.seed) => {
            Err(Failure::refused(format!(
                "{} holds results of study {} --{} --seed {seed}, in whose place those of --{} --seed {} would come: add --replace to have them \
                 replaced, or choose another --out",
                out.shown(),
                study.id,
                there.word(),
                edition.word(),
                args.seed
            )))
        }
        _ => match study.rows_lost(out, &args.parts, args.draws.as_ref()).filter(|_| !args.replace) {
            Some(lost) => Err(Failure::refused(format!(
                "{} holds rows {lost} of study {}, which would be lost: add --replace if they may be, or choose another --out",
                out.shown(),
                study.id
            ))),
            None => Ok(()),
        },
    }
}

/// What Ctrl-C left: runs that were over keep their records, and a study that keeps results goes on from them.
fn cancelled_in(out: &Path) -> Failure {
    let kept = std::fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
    Failure::interrupted(match kept {
        true => format!(
            "cancelled; what was over by then is in {}, the same command goes on from there, and there is no verdict",
            out.shown()
        ),
        false => "cancelled; nothing was written".to_owned(),
    })
}

/// Whether a study takes a flag.
type Takes = fn(&Study) -> bool;

/// Refuses what only a population of links has.
fn population_only(args: &RunStudies, study: &Study) -> Result<(), Failure> {
    let drawn = |study: &Study| study.has_draws();
    let kept = |study: &Study| !study.stacks.is_empty();
    if args.traces.is_some() && !study.has_recordings() {
        let why = format!("study {} runs on no recordings, so no --traces", study.id);
        return Err(Failure::refused(format!("{why}: leave it out, or run traces")));
    }
    let given: [(&str, bool, Takes); 3] = [
        ("--draws", args.draws.is_some(), drawn),
        ("--stack", !args.stacks.is_empty(), kept),
        ("--reuse", !args.reuse.is_empty(), kept),
    ];
    if let Some((flag, _, has)) = given.iter().find(|(_, given, has)| *given && !has(study)) {
        let with: Vec<&str> = STUDIES.iter().filter(|s| has(s)).map(|s| s.id).collect();
        let why = match kept(study) || drawn(study) {
            true => format!("study {} keeps no results of single stacks, so no {flag}", study.id),
            false => format!("study {} draws no links or networks at random, so it takes no {flag}", study.id),
        };
        return Err(Failure::refused(format!("{why}: leave it out, or run {}", with.join(", "))));
    }
    match args.stacks.iter().find(|stack| !study.stacks.contains(&stack.as_str())) {
        Some(stack) => {
            let known = hint(stack, study.stacks.iter().copied());
            Err(Failure::refused(format!("study {} has no stack '{stack}': {known}", study.id)))
        }
        None => Ok(()),
    }
}

/// `1001..1100`, both ends counted, or one number.
fn draws(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    match (from.parse(), to.parse()) {
        (Ok(from), Ok(to)) if from >= 1 && from <= to => Ok(from..=to),
        _ => Err("name the first and the last, both counted, such as 1001..1100".into()),
    }
}

/// Writes `STUDY.json` beside the records, whole or not at all.
fn keep(out: &Path, document: &StudyDocument) -> Result<(), Failure> {
    // A study of which nothing could run here has made no folder.
    let _ = std::fs::create_dir_all(out);
    crate::write_whole(&out.join(format!("{}.json", document.study)), document.to_json())
}

/// Whether both outputs are one file or pipe, which gets all rows by the table at the end.
fn is_one_file() -> bool {
    let place = |output: BorrowedFd<'_>| {
        let file = std::fs::File::from(output.try_clone_to_owned().ok()?).metadata().ok()?;
        Some((file.dev(), file.ino()))
    };
    let (out, err) = (std::io::stdout(), std::io::stderr());
    place(out.as_fd()).is_some_and(|one| place(err.as_fd()) == Some(one))
}

/// Shows a row on standard error while the study goes on.
fn announce(row: &Row) {
    if !std::io::stderr().is_terminal() && is_one_file() {
        return;
    }
    // Progress is a courtesy: a closed standard error must not stop the study.
    let wipe = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
    let _ = std::io::stderr().write_all(format!("{wipe}{}\n", text::lines(&line(row), crate::MESSAGE_MAX)).as_bytes());
}

/// One row as a line of text.
fn line(r: &Row) -> String {
    let value = r.value.map_or("-".into(), |v| wavelane_report::human(v, r.ci95, &r.unit));
    let case = r.case_words();
    let case = if case.is_empty() { case } else { format!(" [{case}]") };
    let id = if STUDIES.iter().any(|study| study.id == r.id) { String::new() } else { format!("{} ", r.id) };
    let why = r.reason();
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("{:<12} {id}{:<12}{case} {} = {value}{why}", r.verdict.word(), r.stack, r.metric)
}

/// Members of a population that have rows.
fn members(document: &StudyDocument) -> usize {
    let draws = document.rows.iter().filter_map(|r| r.case.get("draw"));
    draws.map(ToString::to_string).collect::<BTreeSet<_>>().len()
}

/// Members up to which each has a line of its own in the table.
const MEMBERS_TOLD: usize = 19;

/// Whether the table of a population of so many members has the row. Of one member it has all rows and none over all members, which
/// are of it alone and not judged; of few a row each, and of many only the rows over all of them.
fn is_told(row: &Row, members: usize) -> bool {
    match (row.case.contains_key("draw"), members) {
        (is_drawn, 1) => is_drawn || row.verdict != Verdict::Info,
        (true, 0..=MEMBERS_TOLD) => row.metric == "goodput_ratio",
        (is_drawn, _) => !is_drawn,
    }
}

fn table(document: &StudyDocument, out: &Path) -> String {
    let mut text = String::new();
    let members = members(document);
    let told = document.rows.iter().filter(|r| is_told(r, members));
    // On a terminal every row was shown as it was judged: only failing and inconclusive ones are repeated.
    let watched = std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
    for r in told.filter(|r| !watched || matches!(r.verdict, Verdict::Fail | Verdict::Inconclusive)) {
        let _ = writeln!(text, "{}", line(r));
    }
    let count = |verdict| document.rows.iter().filter(|r| r.verdict == verdict).count();
    let [pass, fail, unsure] = [Verdict::Pass, Verdict::Fail, Verdict::Inconclusive].map(count);
    let (name, out, word) = (&document.study, out.shown(), document.verdict.word());
    let _ = writeln!(
        text,
        "\nstudy {name} verdict {word}: {pass} rows pass, {fail} fail, {unsure} inconclusive\nreport {out}/report.html\nrecords {out}"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_members_are_told_one_by_one() {
        let row = |draw: Option<u64>, metric: &str, verdict| {
            let value = serde_json::json!({
                "id": "link-population", "case": {}, "backend": "sim", "stack": "wavelane", "metric": metric, "unit": "",
                "value": 1.0, "ci95": null, "n": 1, "published": null, "bound": null, "verdict": "info", "why": ""
            });
            let mut row: Row = serde_json::from_value(value).expect("a row");
            row.case.extend(draw.map(|n| ("draw".to_owned(), n.into())));
            Row { verdict, ..row }
        };
        let told = |row: &Row| [1, 5, 100].map(|members| is_told(row, members));
        assert_eq!(told(&row(Some(17), "goodput_bps", Verdict::Info)), [true, false, false]);
        assert_eq!(told(&row(Some(17), "goodput_ratio", Verdict::Info)), [true, true, false]);
        assert_eq!(told(&row(None, "goodput_ratio_median", Verdict::Info)), [false, true, true]);
        assert_eq!(told(&row(None, "worlds_failed", Verdict::Pass)), [true, true, true]);
        assert!(is_told(&row(None, "flows_reset", Verdict::Info), 0), "a study without members");
        let args = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>().into_iter();
        assert!(asked(args("wavelane study run gettys --help")).is_some_and(|said| said.starts_with("gettys: ")));
        assert_eq!(asked(args("wavelane study run --help")), None);
        assert_eq!(asked(args("wavelane run gettys --help")), None);
        let unreadable: OsString = std::os::unix::ffi::OsStringExt::from_vec(b"caf\xe9".to_vec());
        let mixed = args("wavelane study run gettys").chain([unreadable]);
        assert!(asked(mixed).is_some_and(|said| said.starts_with("gettys: ")), "what is no UTF-8 is no study");
    }
}
