//! `wavelane check`: is a file in order, and where can it run?

use crate::run::Place;
use crate::{Failure, Outcome, print};
use clap::Args;
use core::fmt::Write;
use std::path::{Path, PathBuf};
use wavelane_run::Treatment;
use wavelane_scenario::{Scenario, Sweep, is_scenario, line_of_clause};

/// Arguments of `wavelane check`.
#[derive(Args)]
pub(crate) struct CheckArgs {
    /// A scenario or a gateway's configuration.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Checks a file.
pub(crate) fn check(args: &CheckArgs) -> Outcome {
    // Unreadable and malformed files get the scenario reader's message, which names line and cause.
    let text = std::fs::read_to_string(&args.file).unwrap_or_default();
    if is_scenario(&text) == Some(false) && !text.trim().is_empty() {
        let summary = wavelane_daemon::commands::check_config(&args.file).map_err(Failure::refused)?;
        print(&summary)?;
        return Ok(0);
    }
    let scenario = Scenario::load(&args.file).map_err(Failure::refused)?;
    let sweep = sweep(&args.file)?;
    print(&(describe(&args.file.display().to_string(), &text, &scenario) + &sweep))?;
    Ok(0)
}

/// What `[sweep]` says, whose every combination is read; nothing without one.
fn sweep(file: &Path) -> Result<String, Failure> {
    let plan = Sweep::load(file).map_err(Failure::refused)?;
    if plan.axes.is_empty() {
        return Ok(String::new());
    }
    let cells = plan.cells(file, &[]).map_err(Failure::refused)?.len();
    let axes: Vec<String> = plan.axes.iter().map(|axis| format!("{} ({})", axis.key, axis.values.len())).collect();
    let seeds = plan.repeats.unwrap_or(1);
    Ok(format!("sweep: {}: {cells} combinations of {seeds} seeds\n", axes.join(", ")))
}

/// What the scenario holds and what each place would make of it.
fn describe(file: &str, text: &str, scenario: &Scenario) -> String {
    let mut out = format!("{file}: scenario in order: {}\n", scenario.title);
    let _ = writeln!(
        out,
        "{} nodes, {} channels, {} flows, {} checks; at most {} per stack",
        scenario.nodes.len(),
        scenario.channels.len(),
        scenario.flows.len(),
        scenario.checks.len(),
        scenario.duration
    );
    for place in [Place::Sim, Place::Lab] {
        let review = place.make().review(scenario);
        let word = place.word();
        for stack in &scenario.stacks {
            let _ = match review.treatment_of(*stack) {
                Treatment::Imposed => writeln!(out, "{word}: stack {stack} runs"),
                Treatment::Approximated(why) => writeln!(out, "{word}: stack {stack} runs approximately: {why}"),
                Treatment::Omitted(why) | Treatment::Refused(why) => {
                    writeln!(out, "{word}: stack {stack} is omitted: {why}")
                }
            };
        }
        for clause in &review.clauses {
            let (treatment, why) = match &clause.treatment {
                Treatment::Imposed => continue,
                Treatment::Approximated(why) => ("is approximated", why),
                Treatment::Omitted(why) => ("is omitted", why),
                Treatment::Refused(why) => ("is refused", why),
            };
            let line = line_of_clause(text, &clause.clause).map(|line| format!(" (line {line})")).unwrap_or_default();
            let _ = writeln!(out, "{word}: {}{line} {treatment}: {why}", clause.clause);
        }
    }
    out
}
