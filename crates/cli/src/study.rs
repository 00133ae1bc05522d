//! `wavelane study`.

use crate::progress::Meter;
use crate::run::{failure, jobs, render};
use crate::{Failure, Outcome, exit_of, interrupt, print};
use clap::{Args, Subcommand};
use core::fmt::Write;
use std::io::{IsTerminal, Write as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use wavelane_run::{Count, Progress, RunError, RunHooks, Verdict};
use wavelane_scenario::Seed;
use wavelane_study::{Edition, Row, STUDIES, StudiesDocument, Study, StudyDocument, StudyError, StudyOptions};

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
    /// Run studies and judge them.
    Run(RunStudies),
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
    /// The first seed; a population's seed chooses its family.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=SEED_MAX))]
    seed: u64,
    /// Runs at once [default: the study's choice].
    #[arg(long, value_name = "N", value_parser = jobs)]
    jobs: Option<usize>,
    /// Where the records and ID.json go [default: records/study-ID-EDITION-SEED, and the draws if named].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON document on standard output, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Lists or runs studies.
pub(crate) fn study(args: &StudyArgs) -> Outcome {
    match &args.verb {
        Verb::List => {
            for s in STUDIES {
                let parts = if s.parts.is_empty() { String::new() } else { format!("; parts {}", s.parts.join(", ")) };
                print(&format!(
                    "{:<15} {} (on {}; quick {}, full {}{parts})\n",
                    s.id, s.about, s.backend, s.takes[0], s.takes[1]
                ))?;
            }
            Ok(0)
        }
        Verb::Run(args) => run(args),
    }
}

fn run(args: &RunStudies) -> Outcome {
    let find = |id: &String| {
        let known: Vec<&str> = STUDIES.iter().map(|s| s.id).collect();
        Study::find(id).ok_or_else(|| Failure::refused(format!("no study '{id}'; use one of {}", known.join(", "))))
    };
    let studies = args.ids.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    for study in &studies {
        if let Some(part) = args.parts.iter().find(|part| !study.parts.contains(&part.as_str())) {
            let known = if study.parts.is_empty() { "it has none".into() } else { study.parts.join(", ") };
            return Err(Failure::refused(format!("study {} has no part '{part}': {known}", study.id)));
        }
    }
    for study in &studies {
        population_only(args, study)?;
    }
    let edition = if args.full { Edition::Full } else { Edition::Quick };
    let word = if args.full { "full" } else { "quick" };
    if let Some(out) = &args.out {
        place(out, &studies)?;
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
    for study in studies {
        let of: String = args.parts.iter().map(|part| format!("-{part}")).collect();
        // A replay of some members does not take the place of the whole study.
        let some = args.draws.as_ref().map_or(String::new(), |d| format!("-draws-{}-{}", d.start(), d.end()));
        let default = || PathBuf::from(format!("records/study-{}{of}-{word}-{}{some}", study.id, args.seed));
        let out = args.out.clone().unwrap_or_else(default);
        if args.out.is_none() {
            place(&out, &[study])?;
        }
        let (draws, stacks, reuse) = (args.draws.clone(), args.stacks.clone(), args.reuse.clone());
        let (seed, jobs, parts) = (Seed(args.seed), args.jobs, args.parts.clone());
        let options =
            StudyOptions { edition, seed, jobs, out: out.clone(), parts, draws, stacks, reuse, row: announce };
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
    let (out, ids) = (out.display(), ids.join(", "));
    Err(Failure::refused(format!(
        "{out} holds {found}, which study {ids} did not write: choose another --out, or move it away"
    )))
}

/// What Ctrl-C left: runs that were over keep their records, and a study that keeps results goes on from them.
fn cancelled_in(out: &Path) -> Failure {
    let kept = std::fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
    Failure::interrupted(match kept {
        true => format!(
            "cancelled; what was over by then is in {}, the same command goes on from there, and there is no verdict",
            out.display()
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
            let known = study.stacks.join(", ");
            Err(Failure::refused(format!("study {} has no stack '{stack}': use one of {known}", study.id)))
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

/// Shows a row on standard error while the study goes on.
fn announce(row: &Row) {
    // Progress is a courtesy: a closed standard error must not stop the study.
    let wipe = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
    let _ = std::io::stderr().write_all(format!("{wipe}{}\n", line(row)).as_bytes());
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

fn table(document: &StudyDocument, out: &Path) -> String {
    let mut text = String::new();
    // A population's members were printed as they ended; the table has the rows over all of them.
    let told = document.rows.iter().filter(|r| !r.case.contains_key("draw"));
    // On a terminal every row was shown as it was judged: only failing and inconclusive ones are repeated.
    let watched = std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
    for r in told.filter(|r| !watched || matches!(r.verdict, Verdict::Fail | Verdict::Inconclusive)) {
        let _ = writeln!(text, "{}", line(r));
    }
    let count = |verdict| document.rows.iter().filter(|r| r.verdict == verdict).count();
    let [pass, fail, unsure] = [Verdict::Pass, Verdict::Fail, Verdict::Inconclusive].map(count);
    let (name, out, word) = (&document.study, out.display(), document.verdict.word());
    let _ = writeln!(
        text,
        "\nstudy {name} verdict {word}: {pass} rows pass, {fail} fail, {unsure} inconclusive\nreport {out}/report.html\nrecords {out}"
    );
    text
}
