//! `wavelane report` and `wavelane compare`.

use crate::{Failure, Outcome, print};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use wavelane_run::RunDocument;
use wavelane_scenario::Scenario;

/// Arguments of `wavelane report`.
#[derive(Args)]
pub(crate) struct ReportArgs {
    /// A record's directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Show it in the desktop's browser (xdg-open).
    #[arg(long)]
    open: bool,
}

/// Arguments of `wavelane compare`.
#[derive(Args)]
pub(crate) struct CompareArgs {
    /// Records' directories.
    #[arg(value_name = "DIR", num_args = 2.., required = true)]
    dirs: Vec<PathBuf>,
}

fn load(dir: &Path) -> Result<(RunDocument, Scenario), Failure> {
    let document = RunDocument::load(dir).map_err(Failure::refused)?;
    let scenario = Scenario::load(&dir.join("scenario.toml")).map_err(Failure::refused)?;
    Ok((document, scenario))
}

/// Draws a record's report.
pub(crate) fn report(args: &ReportArgs) -> Outcome {
    let page = wavelane_report::render(&args.dir).map_err(Failure::refused)?;
    let (document, scenario) = load(&args.dir)?;
    let table = wavelane_report::summary_text(&document, &scenario);
    print(&format!("{table}\nverdict {}\nreport {}\n", document.verdict.word(), page.display()));
    if args.open {
        let shown = Command::new("xdg-open").arg(&page).stdin(Stdio::null()).stdout(Stdio::null()).status();
        let failed =
            |why: String| Failure::refused(format!("cannot open a browser: {why}; open {} yourself", page.display()));
        let status = shown.map_err(|e| failed(format!("xdg-open: {e}")))?;
        if !status.success() {
            return Err(failed(format!("xdg-open ended with {status}")));
        }
    }
    Ok(0)
}

/// Shows records under each other, and says when they are not of the same scenario.
pub(crate) fn compare(args: &CompareArgs) -> Outcome {
    let mut first: Option<Scenario> = None;
    for dir in &args.dirs {
        let (document, scenario) = load(dir)?;
        let (backend, seed) = (&document.backend, document.seed);
        print(&format!(
            "{}: {} on {backend}, seed {seed}, verdict {}\n",
            dir.display(),
            document.scenario,
            document.verdict.word()
        ));
        print(&wavelane_report::summary_text(&document, &scenario));
        print("\n");
        let mut plain = scenario;
        plain.seed = wavelane_scenario::Seed(0);
        match &first {
            None => first = Some(plain),
            Some(other) if *other != plain => {
                eprintln!(
                    "warning: {} is of another scenario than {}: compare with care",
                    dir.display(),
                    args.dirs[0].display()
                );
            }
            Some(_) => {}
        }
    }
    Ok(0)
}
