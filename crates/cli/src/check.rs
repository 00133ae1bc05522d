//! `wavelane check`: is a file in order, and where can it run?

use crate::run::Place;
use crate::{EXIT_FAIL, Failure, Outcome, print};
use clap::Args;
use core::fmt::Write;
use std::path::{Path, PathBuf};
use wavelane_run::{Review, Treatment};
use wavelane_scenario::{Scenario, Sweep, is_scenario, line_of_clause};

const EXAMPLES: &str = include_str!("examples/check.txt");
/// Characters shown of a title.
const TITLE_SHOWN: usize = 200;

/// Arguments of `wavelane check`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckArgs {
    /// A scenario or a gateway's configuration.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Ask this peer over the link, and say where its configuration and FILE contradict one another.
    #[arg(long, value_name = "PEER")]
    with: Option<String>,
    /// The control socket of the gateway that runs here, for --with; by default the one that FILE names.
    #[arg(long, value_name = "PATH", requires = "with")]
    control: Option<PathBuf>,
}

/// Checks a file.
pub(crate) fn check(args: &CheckArgs) -> Outcome {
    // Unreadable and malformed files get the scenario reader's message, which names line and cause.
    let text = std::fs::read_to_string(&args.file).unwrap_or_default();
    if is_scenario(&text) == Some(false) && !text.trim().is_empty() {
        let summary = wavelane_daemon::commands::check_config(&args.file).map_err(Failure::refused)?;
        print(&summary)?;
        let Some(peer) = &args.with else { return Ok(0) };
        let compared = wavelane_daemon::commands::check_with(&args.file, peer, args.control.as_deref());
        let compared = compared.map_err(Failure::refused)?;
        print(&compared.text)?;
        return Ok(if compared.sound { 0 } else { EXIT_FAIL });
    }
    if args.with.is_some() {
        return Err(Failure::refused("--with is for a gateway's configuration, and this is none: name wavelaned.toml"));
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
    let title = wavelane_base::text::line(&scenario.title, TITLE_SHOWN);
    let mut out = format!("{file}: scenario in order: {title}\n");
    let _ = writeln!(
        out,
        "{}, {}, {}, {}; at most {} per stack",
        several(scenario.nodes.len(), "node"),
        several(scenario.channels.len(), "channel"),
        several(scenario.flows.len(), "flow"),
        several(scenario.checks.len(), "check"),
        scenario.duration
    );
    for place in [Place::Sim, Place::Lab] {
        let review = place.make().review(scenario);
        let word = place.word();
        let refused = grouped(text, &review, "refused");
        for (who, _, why) in &refused {
            let _ = writeln!(out, "{word}: cannot run this scenario: {who}: {why}");
        }
        for stack in &scenario.stacks {
            let _ = match review.treatment_of(*stack) {
                // Where the whole is refused no stack runs.
                Treatment::Imposed | Treatment::Approximated(_) if !refused.is_empty() => Ok(()),
                Treatment::Imposed => writeln!(out, "{word}: stack {stack} runs"),
                Treatment::Approximated(why) => writeln!(out, "{word}: stack {stack} runs approximately: {why}"),
                Treatment::Omitted(why) | Treatment::Refused(why) => {
                    writeln!(out, "{word}: stack {stack} is omitted: {why}")
                }
            };
        }
        for treatment in ["approximated", "omitted"] {
            for (who, verb, why) in grouped(text, &review, treatment) {
                let _ = writeln!(out, "{word}: {who} {verb} {treatment}: {why}");
            }
        }
    }
    for warning in warnings(text, scenario) {
        let _ = writeln!(out, "{warning}");
    }
    out
}

/// What of a scenario in order has no effect, or another than expected.
pub(crate) fn warnings(text: &str, scenario: &Scenario) -> Vec<String> {
    let remarks = scenario.remarks().into_iter();
    remarks
        .map(|remark| format!("warning: {}{}: {}", remark.clause, line_words(text, &remark.clause), remark.why))
        .collect()
}

/// The clauses that suffer `treatment`: which, "is" or "are", and why. Those that do for the same reason, such as many flows, are together.
fn grouped<'a>(text: &str, review: &'a Review, treatment: &str) -> Vec<(String, &'static str, &'a str)> {
    let mut reasons: Vec<(&str, &str, usize)> = Vec::new();
    for clause in &review.clauses {
        let Some((_, why)) = spoken(&clause.treatment).filter(|(word, _)| *word == treatment) else { continue };
        match reasons.iter_mut().find(|(reason, ..)| *reason == why) {
            Some((.., more)) => *more += 1,
            None => reasons.push((why, &clause.clause, 0)),
        }
    }
    let said = |(why, first, more): (&'a str, &str, usize)| {
        let who = format!("{first}{}", line_words(text, first));
        if more == 0 { (who, "is", why) } else { (format!("{who} and {more} more"), "are", why) }
    };
    reasons.into_iter().map(said).collect()
}

/// " (line 7)", where a clause stands in the file.
fn line_words(text: &str, clause: &str) -> String {
    line_of_clause(text, clause).map(|line| format!(" (line {line})")).unwrap_or_default()
}

/// "1 flow", "2 flows".
fn several(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// What becomes of a clause that is not imposed as written, and why.
fn spoken(treatment: &Treatment) -> Option<(&'static str, &str)> {
    match treatment {
        Treatment::Imposed => None,
        Treatment::Approximated(why) => Some(("approximated", why)),
        Treatment::Omitted(why) => Some(("omitted", why)),
        Treatment::Refused(why) => Some(("refused", why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: &str = "duration = \"1 s\"\nstacks = [\"wavelane\"]\n\
        nodes = { a = \"gateway\", b = \"gateway\" }\n\
        flows = { page = { app = \"download\", from = \"a\", to = \"b\" } }\n\
        [channels.air]\n";

    fn described(channel: &str) -> String {
        let text = format!("{CELL}{channel}\n[gateways.a]\nradio = \"raw\"\noverhear = true\n");
        describe("a.toml", &text, &Scenario::parse(&text, Path::new(".")).expect("sound"))
    }

    #[test]
    fn a_place_that_refuses_a_scenario_runs_none_of_its_stacks() {
        let wifi = "kind = \"wifi\"\nnodes = [\"a\", \"b\"]\nphy = \"802.11b\"\npreamble = \"short\"\n\
                    rate = \"11 Mbit/s\"\nrules = \"standard\"\nedca = \"standard\"";
        let said = described(wifi);
        assert!(said.contains("sim: stack wavelane runs\n"), "{said}");
        assert!(
            said.contains("lab: cannot run this scenario: ") && !said.contains("lab: stack wavelane runs"),
            "{said}"
        );
        assert!(said.contains("\n2 nodes, 1 channel, 1 flow, 0 checks; "), "{said}");
    }

    #[test]
    fn settings_without_effect_are_warned_of_with_their_lines() {
        let said = described("between = [\"a\", \"b\"]\npreset = \"ethernet\"");
        let warnings: Vec<&str> = said.lines().filter(|line| line.starts_with("warning: ")).collect();
        assert_eq!(warnings.len(), 2, "{said}");
        assert!(warnings[0].starts_with("warning: gateways.a.radio (line 9): no radio cell joins 'a'"), "{said}");
        assert!(warnings[1].starts_with("warning: gateways.a.overhear (line 10): it has no effect"), "{said}");
    }
}
